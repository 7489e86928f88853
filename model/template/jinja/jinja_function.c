/* Global functions, methods of dicts and loops, and the tables of what there is. */
#include "model/template/jinja/jinja_run.h"

#include <string.h>
#include <time.h>

static enum status raise_exception(struct jinja_run *run, struct jinja_value self,
                                   const struct jinja_value *bound, const struct jinja_args *args,
                                   struct jinja_value *value) {
    const struct jinja_string *message;
    (void)self;
    (void)args;
    (void)value;
    TRY(jinja_to_string(run, bound[0], &message));
    return jinja_fail(run, STATUS_INVALID, "the template refuses: %.*s",
                      (int)(message->n < 300 ? message->n : 300), message->bytes);
}

static enum status strftime_now(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_value *bound, const struct jinja_args *args,
                                struct jinja_value *value) {
    char format[128];
    char out[512];
    struct tm local;
    time_t now = (time_t)run->now_s;
    (void)self;
    (void)args;
    if (!jinja_is_string(bound[0]) || bound[0].string->n >= sizeof format)
        return jinja_fail(run, STATUS_INVALID, "strftime_now needs a short format");
    memcpy(format, bound[0].string->bytes, bound[0].string->n);
    format[bound[0].string->n] = 0;
    if (!localtime_r(&now, &local))
        return jinja_fail(run, STATUS_INVALID, "there is no such time");
        /* The format is the template's, and all that strftime() can do is fill `out`. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(out, sizeof out, format, &local);
#pragma GCC diagnostic pop
    struct jinja_text text = {0};
    TRY(jinja_put(run, &text, out, n, jinja_any_plain(bound[0].string)));
    return jinja_text_done(run, &text, value);
}

static enum status range(struct jinja_run *run, struct jinja_value self,
                         const struct jinja_value *bound, const struct jinja_args *args,
                         struct jinja_value *value) {
    int64_t numbers[3] = {0, 0, 1};
    struct jinja_list *list;
    (void)self;
    (void)args;
    for (size_t i = 0; i < 3; i++) {
        if (!jinja_given(bound[i]))
            break;
        if (!jinja_is_integral(bound[i]))
            return jinja_fail(run, STATUS_INVALID, "range takes integers, not %s",
                              jinja_type_name(bound[i]));
        numbers[i] = jinja_integer(bound[i]);
    }
    int64_t start = jinja_given(bound[1]) ? numbers[0] : 0;
    int64_t stop = jinja_given(bound[1]) ? numbers[1] : numbers[0];
    int64_t step = numbers[2];
    if (step == 0)
        return jinja_fail(run, STATUS_INVALID, "a range's step is zero");
    uint64_t distance = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                                 : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t n = distance / stride + (distance % stride != 0);
    if (n > JINJA_RANGE_MAX)
        return jinja_fail(run, STATUS_LIMIT, "a range has more than %d items", JINJA_RANGE_MAX);
    TRY(jinja_list_new(run, n, &list));
    for (uint64_t i = 0; i < n; i++)
        TRY(jinja_list_push(run, list, jinja_int((int64_t)((uint64_t)start + i * (uint64_t)step))));
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

/* dict(...) and namespace(...): of another dict, of pairs, of names. */
static enum status make_dict(struct jinja_run *run, const struct jinja_args *args,
                             struct jinja_dict **dict) {
    TRY(jinja_dict_new(run, 0, dict));
    if (args->n > 1)
        return jinja_fail(run, STATUS_INVALID, "dict takes one argument, not %zu", args->n);
    if (args->n == 1 && args->values[0].kind == JINJA_DICT) {
        const struct jinja_dict *from = args->values[0].dict;
        for (size_t i = 0; i < from->n; i++)
            TRY(jinja_dict_set(run, *dict, from->keys[i], from->values[i]));
    } else if (args->n == 1) {
        const struct jinja_list *pairs;
        TRY(jinja_items_of(run, args->values[0], &pairs));
        for (size_t i = 0; i < pairs->n; i++) {
            const struct jinja_list *pair;
            TRY(jinja_items_of(run, pairs->items[i], &pair));
            if (pair->n != 2)
                return jinja_fail(run, STATUS_INVALID, "dict takes pairs");
            TRY(jinja_dict_set(run, *dict, pair->items[0], pair->items[1]));
        }
    }
    for (size_t i = 0; i < args->n_named; i++) {
        struct jinja_value key;
        TRY(jinja_string_new(run, args->named[i].name, strlen(args->named[i].name), false, &key));
        TRY(jinja_dict_set(run, *dict, key, args->named[i].value));
    }
    return STATUS_OK;
}

static enum status dict(struct jinja_run *run, struct jinja_value self,
                        const struct jinja_value *bound, const struct jinja_args *args,
                        struct jinja_value *value) {
    struct jinja_dict *made;
    (void)self;
    (void)bound;
    TRY(make_dict(run, args, &made));
    *value = (struct jinja_value){.kind = JINJA_DICT, .dict = made};
    return STATUS_OK;
}

static enum status namespace(struct jinja_run *run, struct jinja_value self,
                             const struct jinja_value *bound, const struct jinja_args *args,
                             struct jinja_value *value) {
    TRY(dict(run, self, bound, args, value)); value->kind = JINJA_NAMESPACE; return STATUS_OK;
}

static const struct jinja_builtin functions[] = {
    {"raise_exception", {"message"}, 1, JINJA_NAMED, raise_exception},
    {"strftime_now", {"format"}, 1, JINJA_NAMED, strftime_now},
    {"range", {"start", "stop", "step"}, 1, JINJA_POSITIONAL, range},
    {"dict", {0}, 0, JINJA_ANY, dict},
    {"namespace", {0}, 0, JINJA_ANY, namespace},
    {0},
};

/* ---- dicts ---- */

static enum status dict_get(struct jinja_run *run, struct jinja_value self,
                            const struct jinja_value *bound, const struct jinja_args *args,
                            struct jinja_value *value) {
    (void)args;
    TRY(jinja_dict_get(run, self.dict, bound[0], value));
    if (!jinja_given(*value))
        *value = jinja_given(bound[1]) ? bound[1] : jinja_none();
    return STATUS_OK;
}

enum status jinja_dict_items(struct jinja_run *run, const struct jinja_dict *from,
                             enum jinja_kind kind, struct jinja_value *value) {
    struct jinja_list *list;
    TRY(jinja_list_new(run, from->n, &list));
    for (size_t i = 0; i < from->n; i++) {
        struct jinja_list *pair;
        TRY(jinja_list_new(run, 2, &pair));
        TRY(jinja_list_push(run, pair, from->keys[i]));
        TRY(jinja_list_push(run, pair, from->values[i]));
        TRY(jinja_list_push(run, list, jinja_list_value(JINJA_TUPLE, pair)));
    }
    *value = jinja_list_value(kind, list);
    return STATUS_OK;
}

static enum status dict_items(struct jinja_run *run, struct jinja_value self,
                              const struct jinja_value *bound, const struct jinja_args *args,
                              struct jinja_value *value) {
    (void)bound;
    (void)args;
    return jinja_dict_items(run, self.dict, JINJA_VIEW, value);
}

static enum status dict_view(struct jinja_run *run, const struct jinja_value *items, size_t n,
                             struct jinja_value *value) {
    struct jinja_list *list;
    TRY(jinja_list_new(run, n, &list));
    for (size_t i = 0; i < n; i++)
        TRY(jinja_list_push(run, list, items[i]));
    *value = jinja_list_value(JINJA_VIEW, list);
    return STATUS_OK;
}

static enum status dict_keys(struct jinja_run *run, struct jinja_value self,
                             const struct jinja_value *bound, const struct jinja_args *args,
                             struct jinja_value *value) {
    (void)bound;
    (void)args;
    return dict_view(run, self.dict->keys, self.dict->n, value);
}

static enum status dict_values(struct jinja_run *run, struct jinja_value self,
                               const struct jinja_value *bound, const struct jinja_args *args,
                               struct jinja_value *value) {
    (void)bound;
    (void)args;
    return dict_view(run, self.dict->values, self.dict->n, value);
}

static enum status copy_value(struct jinja_run *run, struct jinja_value self,
                              const struct jinja_value *bound, const struct jinja_args *args,
                              struct jinja_value *value) {
    (void)run;
    (void)bound;
    (void)args;
    *value = self; /* nothing can change it */
    return STATUS_OK;
}

static const struct jinja_builtin dict_methods[] = {
    {"get", {"key", "default"}, 1, JINJA_POSITIONAL, dict_get},
    {"items", {0}, 0, JINJA_NAMED, dict_items},
    {"keys", {0}, 0, JINJA_NAMED, dict_keys},
    {"values", {0}, 0, JINJA_NAMED, dict_values},
    {"copy", {0}, 0, JINJA_NAMED, copy_value},
    {0},
};

/* ---- lists ---- */

static enum status list_count(struct jinja_run *run, struct jinja_value self,
                              const struct jinja_value *bound, const struct jinja_args *args,
                              struct jinja_value *value) {
    int64_t n = 0;
    (void)args;
    for (size_t i = 0; i < self.list->n; i++) {
        bool equal;
        TRY(jinja_equal(run, self.list->items[i], bound[0], &equal));
        n += equal;
    }
    *value = jinja_int(n);
    return STATUS_OK;
}

static enum status list_index(struct jinja_run *run, struct jinja_value self,
                              const struct jinja_value *bound, const struct jinja_args *args,
                              struct jinja_value *value) {
    (void)args;
    for (size_t i = 0; i < self.list->n; i++) {
        bool equal;
        TRY(jinja_equal(run, self.list->items[i], bound[0], &equal));
        if (!equal)
            continue;
        *value = jinja_int((int64_t)i);
        return STATUS_OK;
    }
    return jinja_fail(run, STATUS_INVALID, "a value is not in the list");
}

static const struct jinja_builtin list_methods[] = {
    {"count", {"value"}, 1, JINJA_POSITIONAL, list_count},
    {"index", {"value"}, 1, JINJA_POSITIONAL, list_index},
    {"copy", {0}, 0, JINJA_NAMED, copy_value},
    {0},
};

/* ---- loops ---- */

static enum status loop_cycle(struct jinja_run *run, struct jinja_value self,
                              const struct jinja_value *bound, const struct jinja_args *args,
                              struct jinja_value *value) {
    (void)bound;
    if (args->n == 0)
        return jinja_fail(run, STATUS_INVALID, "loop.cycle needs values");
    *value = args->values[self.loop->index % args->n];
    return STATUS_OK;
}

static enum status loop_changed(struct jinja_run *run, struct jinja_value self,
                                const struct jinja_value *bound, const struct jinja_args *args,
                                struct jinja_value *value) {
    struct jinja_list *list;
    bool equal = false;
    (void)bound;
    TRY(jinja_list_new(run, args->n, &list));
    for (size_t i = 0; i < args->n; i++)
        TRY(jinja_list_push(run, list, args->values[i]));
    struct jinja_value seen = jinja_list_value(JINJA_TUPLE, list);
    if (jinja_given(*self.loop->changed))
        TRY(jinja_equal(run, *self.loop->changed, seen, &equal));
    *self.loop->changed = seen;
    *value = jinja_bool(!equal);
    return STATUS_OK;
}

static const struct jinja_builtin loop_methods[] = {
    {"cycle", {0}, 0, JINJA_ANY, loop_cycle}, {"changed", {0}, 0, JINJA_ANY, loop_changed}, {0}};

/* ---- tables ---- */

static const struct jinja_builtin *find_in(const struct jinja_builtin *table, struct span name) {
    for (; table->name; table++)
        if (span_is(name, table->name))
            return table;
    return NULL;
}

const struct jinja_builtin *jinja_find_function(const char *name) {
    return find_in(functions, (struct span){name, strlen(name)});
}

const struct jinja_builtin *jinja_find_method(enum jinja_kind kind, struct span name) {
    const struct jinja_builtin *found;
    switch (kind) {
    case JINJA_STRING:
        found = find_in(jinja_string_methods, name);
        return found ? found : find_in(jinja_split_methods, name);
    case JINJA_DICT:
        return find_in(dict_methods, name);
    case JINJA_LIST:
        return find_in(list_methods, name);
    case JINJA_TUPLE:
        found = find_in(list_methods, name);
        return found && found->call != copy_value ? found : NULL;
    case JINJA_LOOP:
        return find_in(loop_methods, name);
    default:
        return NULL;
    }
}

const struct jinja_builtin *jinja_find_filter(const char *name) {
    static const struct jinja_builtin *const tables[] = {jinja_text_filters, jinja_box_filters,
                                                         jinja_choice_filters};
    const struct jinja_builtin *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++)
        found = find_in(tables[i], (struct span){name, strlen(name)});
    return found;
}
