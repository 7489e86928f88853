/* Global functions. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_str.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>
#include <time.h>

JINJA_BUILTIN(raise_exception) {
    const struct jinja_string *message;
    TRY(jinja_to_string(run, bound[0], &message));
    return jinja_fail(run, STATUS_INVALID, "the template refuses: %.*s",
                      (int)(message->n < 300 ? message->n : 300), message->bytes);
}

JINJA_BUILTIN(strftime_now) {
    char format[128];
    char out[512];
    struct tm local;
    time_t now = (time_t)run->now_s;
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

JINJA_BUILTIN(range) {
    int64_t numbers[3] = {0, 0, 1};
    struct jinja_list *list;
    for (size_t i = 0; i < 3; i++) {
        if (!jinja_given(bound[i]))
            break;
        if (!jinja_is_integral(bound[i]))
            return jinja_fail_kind(run, "range takes integers", bound[i]);
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
static enum status jinja_make_dict(struct jinja_run *run, const struct jinja_args *args,
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

JINJA_BUILTIN(dict) {
    struct jinja_dict *made;
    TRY(jinja_make_dict(run, args, &made));
    *value = (struct jinja_value){.kind = JINJA_DICT, .dict = made};
    return STATUS_OK;
}

JINJA_BUILTIN(make_namespace) {
    TRY(dict(run, self, bound, args, value));
    value->kind = JINJA_NAMESPACE;
    return STATUS_OK;
}

static const struct jinja_builtin functions[] = {
    {"raise_exception", {"message"}, 1, JINJA_NAMED, raise_exception},
    {"strftime_now", {"format"}, 1, JINJA_NAMED, strftime_now},
    {"range", {"start", "stop", "step"}, 1, JINJA_POSITIONAL, range},
    {"dict", {0}, 0, JINJA_ANY, dict},
    {"namespace", {0}, 0, JINJA_ANY, make_namespace},
    {0},
};

const struct jinja_builtin *jinja_find_function(const char *name) {
    return jinja_find_in(functions, span_of(name));
}
