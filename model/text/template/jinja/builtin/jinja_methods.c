/* Methods: of strings, which have files of their own, of dicts and loops. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

JINJA_BUILTIN(dict_get) {
    TRY(jinja_dict_get(run, self.dict, bound[0], value));
    if (!jinja_given(*value))
        *value = jinja_given(bound[1]) ? bound[1] : jinja_none();
    return STATUS_OK;
}

JINJA_BUILTIN(dict_items) {
    return jinja_dict_items(run, self.dict, JINJA_VIEW, value);
}

static enum status jinja_dict_view(struct jinja_run *run, const struct jinja_value *items, size_t n,
                                   struct jinja_value *value) {
    struct jinja_list *list;
    TRY(jinja_list_of(run, items, n, &list));
    *value = jinja_list_value(JINJA_VIEW, list);
    return STATUS_OK;
}

JINJA_BUILTIN(dict_keys) {
    return jinja_dict_view(run, self.dict->keys, self.dict->n, value);
}

JINJA_BUILTIN(dict_values) {
    return jinja_dict_view(run, self.dict->values, self.dict->n, value);
}

static const struct jinja_builtin dict_methods[] = {
    {"get", {"key", "default"}, 1, JINJA_POSITIONAL, dict_get},
    {"items", {0}, 0, JINJA_NAMED, dict_items},
    {"keys", {0}, 0, JINJA_NAMED, dict_keys},
    {"values", {0}, 0, JINJA_NAMED, dict_values},
    {0},
};

/* ---- loops ---- */

JINJA_BUILTIN(loop_cycle) {
    if (args->n == 0)
        return jinja_fail(run, STATUS_INVALID, "loop.cycle needs values");
    *value = args->values[self.loop->index % args->n];
    return STATUS_OK;
}

static const struct jinja_builtin loop_methods[] = {{"cycle", {0}, 0, JINJA_ANY, loop_cycle}, {0}};

const struct jinja_builtin *jinja_find_method(enum jinja_kind kind, struct span name) {
    const struct jinja_builtin *found;
    switch (kind) {
    case JINJA_STRING:
        found = jinja_find_in(jinja_string_methods, name);
        return found ? found : jinja_find_in(jinja_split_methods, name);
    case JINJA_DICT:
        return jinja_find_in(dict_methods, name);
    case JINJA_LOOP:
        return jinja_find_in(loop_methods, name);
    default:
        return NULL;
    }
}
