/* Filters that choose: default, map, select and their kin. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_get.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

JINJA_BUILTIN(use_default) {
    *value = self;
    if (self.kind != JINJA_UNDEFINED && (!jinja_true(bound[1]) || jinja_true(self)))
        return STATUS_OK;
    if (!jinja_given(bound[0]))
        return jinja_string_new(run, "", 0, false, value);
    *value = bound[0];
    return STATUS_OK;
}

/* The arguments behind the first n. */
static struct jinja_args jinja_arguments_behind(const struct jinja_args *args, size_t n) {
    struct jinja_args rest = *args;
    rest.values += n;
    rest.n -= n;
    return rest;
}

static enum status jinja_test_name_of(struct jinja_run *run, struct jinja_value name,
                                      const char **copy) {
    if (!jinja_is_string(name))
        return jinja_fail(run, STATUS_INVALID, "the name of a filter or test is not a string");
    *copy = arena_copy(&run->arena, name.string->bytes, name.string->n);
    return *copy ? STATUS_OK : jinja_fail(run, STATUS_LIMIT, "no memory for a name");
}

/* map(attribute=..., default=...) */
static enum status jinja_map_attribute(struct jinja_run *run, const struct jinja_list *items,
                                       const struct jinja_args *args, struct jinja_list *list) {
    struct jinja_value attribute = {0};
    struct jinja_value otherwise = {0};
    for (size_t i = 0; i < args->n_named; i++) {
        if (strcmp(args->named[i].name, "attribute") == 0)
            attribute = args->named[i].value;
        else if (strcmp(args->named[i].name, "default") == 0)
            otherwise = args->named[i].value;
        else
            return jinja_fail(run, STATUS_INVALID, "map takes no argument \"%.96s\"",
                              args->named[i].name);
    }
    if (!jinja_given(attribute))
        return jinja_fail(run, STATUS_INVALID, "map needs a filter or an attribute");
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item;
        TRY(jinja_charge(run, 1));
        TRY(jinja_get_path(run, items->items[i], attribute, &item));
        if (item.kind == JINJA_UNDEFINED && jinja_is_some(otherwise))
            item = otherwise;
        TRY(jinja_list_push(run, list, item));
    }
    return STATUS_OK;
}

JINJA_BUILTIN(map) {
    const struct jinja_list *items;
    struct jinja_list *list;
    const char *name;
    TRY(jinja_list_new(run, 0, &list));
    *value = jinja_list_value(JINJA_ITERATOR, list);
    if (!jinja_true(self))
        return STATUS_OK;
    TRY(jinja_items_of(run, self, &items));
    if (args->n == 0)
        return jinja_map_attribute(run, items, args, list);
    TRY(jinja_test_name_of(run, args->values[0], &name));
    const struct jinja_builtin *filter = jinja_find_filter(name);
    if (!filter)
        return jinja_fail(run, STATUS_UNSUPPORTED, "unknown filter \"%.96s\"", name);
    struct jinja_args rest = jinja_arguments_behind(args, 1);
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item;
        TRY(jinja_invoke(run, filter, items->items[i], &rest, &item));
        TRY(jinja_list_push(run, list, item));
    }
    return STATUS_OK;
}

/* Keeps the items for which a test, or else their truth, is `wanted`; of the items themselves or of
 * an attribute, which is then the first argument. */
static enum status jinja_select_items(struct jinja_run *run, struct jinja_value self,
                                      const struct jinja_args *args, bool by_attribute, bool wanted,
                                      struct jinja_value *value) {
    const struct jinja_list *items;
    struct jinja_list *list;
    const struct jinja_builtin *test = NULL;
    size_t at = by_attribute ? 1 : 0;
    TRY(jinja_list_new(run, 0, &list));
    *value = jinja_list_value(JINJA_ITERATOR, list);
    if (!jinja_true(self))
        return STATUS_OK;
    if (args->n < at)
        return jinja_fail(run, STATUS_INVALID, "an attribute's name is missing");
    if (args->n > at) {
        const char *name;
        TRY(jinja_test_name_of(run, args->values[at], &name));
        test = jinja_find_test(name);
        if (!test)
            return jinja_fail(run, STATUS_UNSUPPORTED, "unknown test \"%.96s\"", name);
    }
    struct jinja_args rest = jinja_arguments_behind(args, args->n > at ? at + 1 : at);
    TRY(jinja_items_of(run, self, &items));
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item = items->items[i];
        TRY(jinja_charge(run, 1));
        if (by_attribute)
            TRY(jinja_get_path(run, item, args->values[0], &item));
        if (test)
            TRY(jinja_invoke(run, test, item, &rest, &item));
        if (jinja_true(item) == wanted)
            TRY(jinja_list_push(run, list, items->items[i]));
    }
    return STATUS_OK;
}

#define CHOOSE(name, by_attribute, wanted)                                                         \
    JINJA_BUILTIN(name) {                                                                          \
        return jinja_select_items(run, self, args, by_attribute, wanted, value);                   \
    }
CHOOSE(select_items, false, true)
CHOOSE(reject_items, false, false)
CHOOSE(select_by, true, true)
CHOOSE(reject_by, true, false)

static const struct jinja_builtin choice_filters[] = {
    {"default", {"default_value", "boolean"}, 0, JINJA_NAMED, use_default},
    {"d", {"default_value", "boolean"}, 0, JINJA_NAMED, use_default},
    {"map", {0}, 0, JINJA_ANY, map},
    {"select", {0}, 0, JINJA_ANY, select_items},
    {"reject", {0}, 0, JINJA_ANY, reject_items},
    {"selectattr", {0}, 0, JINJA_ANY, select_by},
    {"rejectattr", {0}, 0, JINJA_ANY, reject_by},
    {0},
};

const struct jinja_builtin *jinja_find_filter(const char *name) {
    static const struct jinja_builtin *const tables[] = {jinja_text_filters, jinja_json_filters,
                                                         jinja_box_filters, choice_filters};
    const struct jinja_builtin *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++)
        found = jinja_find_in(tables[i], span_of(name));
    return found;
}
