/* Filters that give lists and their parts. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/builtin/jinja_get.h"
#include "model/text/template/jinja/builtin/jinja_string.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_compare.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

static enum status jinja_copy_items(struct jinja_run *run, struct jinja_value self,
                                    struct jinja_list **list) {
    const struct jinja_list *items;
    TRY(jinja_items_of(run, self, &items));
    return jinja_list_of(run, items->items, items->n, list);
}

JINJA_BUILTIN(to_list) {
    struct jinja_list *list;
    TRY(jinja_copy_items(run, self, &list));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

JINJA_BUILTIN(first) {
    const struct jinja_list *items;
    TRY(jinja_items_of(run, self, &items));
    *value =
        items->n > 0 ? items->items[0] : jinja_undefined("the first item of an empty sequence");
    return STATUS_OK;
}

JINJA_BUILTIN(last) {
    const struct jinja_list *items;
    if (self.kind == JINJA_ITERATOR)
        return jinja_fail(run, STATUS_INVALID, "%s cannot be reversed", jinja_type_name(self));
    TRY(jinja_items_of(run, self, &items));
    *value = items->n > 0 ? items->items[items->n - 1]
                          : jinja_undefined("the last item of an empty sequence");
    return STATUS_OK;
}

JINJA_BUILTIN(reverse) {
    struct jinja_list *list;
    struct jinja_text text = {0};
    TRY(jinja_copy_items(run, self, &list));
    jinja_list_reverse(list);
    *value = jinja_list_value(JINJA_ITERATOR, list);
    if (!jinja_is_string(self))
        return STATUS_OK;
    for (size_t i = 0; i < list->n; i++)
        TRY(jinja_put_string(run, &text, list->items[i].string));
    return jinja_text_done(run, &text, value);
}

JINJA_BUILTIN(items) {
    struct jinja_list *none;
    if (self.kind == JINJA_DICT)
        return jinja_dict_items(run, self.dict, JINJA_ITERATOR, value);
    if (self.kind != JINJA_UNDEFINED)
        return jinja_fail_kind(run, "items takes a dict", self);
    TRY(jinja_list_new(run, 0, &none));
    *value = jinja_list_value(JINJA_ITERATOR, none);
    return STATUS_OK;
}

/* ---- order ---- */

/* What an item is compared by: itself or an attribute, strings without their case. */
static enum status jinja_sort_key_of(struct jinja_run *run, struct jinja_value item,
                                     struct jinja_value attribute, bool case_sensitive,
                                     struct jinja_value *key) {
    *key = item;
    if (jinja_is_some(attribute))
        TRY(jinja_get_path(run, item, attribute, key));
    if (!case_sensitive && jinja_is_string(*key))
        return jinja_change_case(run, *key, JINJA_LOWER, key);
    return STATUS_OK;
}

static enum status jinja_sort_by(struct jinja_run *run, struct jinja_list *list,
                                 struct jinja_value attribute, bool case_sensitive, bool reverse) {
    struct jinja_value *keys;
    struct jinja_value *sorted;
    size_t *order;
    TRY(jinja_alloc(run, list->n, sizeof *keys, &keys));
    TRY(jinja_alloc(run, list->n, sizeof *sorted, &sorted));
    for (size_t i = 0; i < list->n; i++)
        TRY(jinja_sort_key_of(run, list->items[i], attribute, case_sensitive, &keys[i]));
    TRY(jinja_sort(run, keys, list->n, reverse, &order));
    for (size_t i = 0; i < list->n; i++)
        sorted[i] = list->items[order[i]];
    list->items = sorted;
    return STATUS_OK;
}

JINJA_BUILTIN(sort) {
    struct jinja_list *list;
    TRY(jinja_copy_items(run, self, &list));
    TRY(jinja_sort_by(run, list, bound[2], jinja_true(bound[1]), jinja_true(bound[0])));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

JINJA_BUILTIN(dictsort) {
    if (self.kind != JINJA_DICT)
        return jinja_fail_kind(run, "dictsort takes a dict", self);
    TRY(jinja_dict_items(run, self.dict, JINJA_LIST, value));
    return jinja_sort_by(run, value->list, jinja_int(jinja_is_text(bound[1], "value")),
                         jinja_true(bound[0]), jinja_true(bound[2]));
}

static enum status jinja_extreme(struct jinja_run *run, struct jinja_value self,
                                 const struct jinja_value *bound, int sign,
                                 struct jinja_value *value) {
    const struct jinja_list *items;
    struct jinja_value best = {0};
    TRY(jinja_items_of(run, self, &items));
    *value = jinja_undefined("the extreme of an empty sequence");
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value key;
        int order = 1;
        TRY(jinja_sort_key_of(run, items->items[i], bound[1], jinja_true(bound[0]), &key));
        if (i > 0)
            TRY(jinja_order(run, key, best, &order));
        if (i > 0 && order * sign <= 0)
            continue;
        best = key;
        *value = items->items[i];
    }
    return STATUS_OK;
}

JINJA_BUILTIN(minimum) {
    return jinja_extreme(run, self, bound, -1, value);
}

JINJA_BUILTIN(maximum) {
    return jinja_extreme(run, self, bound, 1, value);
}

JINJA_BUILTIN(unique) {
    const struct jinja_list *items;
    struct jinja_list *seen;
    struct jinja_list *list;
    TRY(jinja_items_of(run, self, &items));
    TRY(jinja_list_new(run, 0, &seen));
    TRY(jinja_list_new(run, 0, &list));
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value key;
        bool found;
        TRY(jinja_sort_key_of(run, items->items[i], bound[1], jinja_true(bound[0]), &key));
        if (key.kind == JINJA_LIST || key.kind == JINJA_DICT)
            return jinja_fail(run, STATUS_INVALID, "%s cannot be a key", jinja_type_name(key));
        TRY(jinja_contains(run, jinja_list_value(JINJA_LIST, seen), key, &found));
        if (found)
            continue;
        TRY(jinja_list_push(run, seen, key));
        TRY(jinja_list_push(run, list, items->items[i]));
    }
    *value = jinja_list_value(JINJA_ITERATOR, list);
    return STATUS_OK;
}

const struct jinja_builtin jinja_box_filters[] = {
    {"list", {0}, 0, JINJA_NAMED, to_list},
    {"first", {0}, 0, JINJA_NAMED, first},
    {"last", {0}, 0, JINJA_NAMED, last},
    {"reverse", {0}, 0, JINJA_NAMED, reverse},
    {"items", {0}, 0, JINJA_NAMED, items},
    {"sort", {"reverse", "case_sensitive", "attribute"}, 0, JINJA_NAMED, sort},
    {"dictsort", {"case_sensitive", "by", "reverse"}, 0, JINJA_NAMED, dictsort},
    {"min", {"case_sensitive", "attribute"}, 0, JINJA_NAMED, minimum},
    {"max", {"case_sensitive", "attribute"}, 0, JINJA_NAMED, maximum},
    {"unique", {"case_sensitive", "attribute"}, 0, JINJA_NAMED, unique},
    {0},
};
