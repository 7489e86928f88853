/* Attributes, items and slices. An attribute or item that is not there is undefined, and only what
 * is undefined itself has none at all (jinja2/environment.py, getattr and getitem). Slices are
 * Python's own: a value that has none is an error. */
#include "model/text/template/jinja/builtin/jinja_get.h"

#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <stdlib.h>
#include <string.h>

/* A NUL-terminated copy of a name, for messages. */
static enum status jinja_undefined_of(struct jinja_run *run, struct span name,
                                      struct jinja_value *value) {
    char *copy;
    size_t n = name.n < 96 ? name.n : 96;
    TRY(jinja_alloc(run, n + 1, 1, &copy));
    memcpy(copy, name.bytes, n);
    *value = jinja_undefined(copy);
    return STATUS_OK;
}

static enum status jinja_get_method(struct jinja_run *run, struct jinja_value object,
                                    struct span name, struct jinja_value *value) {
    const struct jinja_builtin *builtin = jinja_find_method(object.kind, name);
    struct jinja_method *method;
    *value = (struct jinja_value){0};
    if (!builtin)
        return STATUS_OK;
    TRY(jinja_alloc(run, 1, sizeof *method, &method));
    *method = (struct jinja_method){builtin, object};
    *value = (struct jinja_value){.kind = JINJA_METHOD, .method = method};
    return STATUS_OK;
}

/* ABSENT for an unknown name. */
static struct jinja_value jinja_get_loop(const struct jinja_loop *loop, struct span name) {
    size_t n = loop->items->n;
    size_t index = loop->index;
    if (span_is(name, "index"))
        return jinja_int((int64_t)index + 1);
    if (span_is(name, "index0"))
        return jinja_int((int64_t)index);
    if (span_is(name, "revindex"))
        return jinja_int((int64_t)(n - index));
    if (span_is(name, "revindex0"))
        return jinja_int((int64_t)(n - index) - 1);
    if (span_is(name, "first"))
        return jinja_bool(index == 0);
    if (span_is(name, "last"))
        return jinja_bool(index + 1 >= n);
    if (span_is(name, "length"))
        return jinja_int((int64_t)n);
    if (span_is(name, "depth"))
        return jinja_int(1);
    if (span_is(name, "depth0"))
        return jinja_int(0);
    if (span_is(name, "previtem"))
        return index > 0 ? loop->items->items[index - 1] : jinja_undefined("loop.previtem");
    if (span_is(name, "nextitem"))
        return index + 1 < n ? loop->items->items[index + 1] : jinja_undefined("loop.nextitem");
    return (struct jinja_value){0};
}

enum status jinja_get_attr(struct jinja_run *run, struct jinja_value object, struct span name,
                           struct jinja_value *value) {
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (object.kind == JINJA_NAMESPACE) {
        TRY(jinja_dict_get_name(run, object.dict, name, value));
        return jinja_given(*value) ? STATUS_OK : jinja_undefined_of(run, name, value);
    }
    if (object.kind == JINJA_LOOP) {
        *value = jinja_get_loop(object.loop, name);
        if (jinja_given(*value))
            return STATUS_OK;
    }
    TRY(jinja_get_method(run, object, name, value));
    if (!jinja_given(*value) && object.kind == JINJA_DICT)
        TRY(jinja_dict_get_name(run, object.dict, name, value));
    return jinja_given(*value) ? STATUS_OK : jinja_undefined_of(run, name, value);
}

/* Offset of character `index`; the string has at least as many. */
static size_t jinja_offset_of(const struct jinja_string *string, size_t index) {
    size_t at = 0;
    while (index-- > 0)
        at += jinja_char_size(string->bytes + at);
    return at;
}

static enum status jinja_get_char(struct jinja_run *run, const struct jinja_string *string,
                                  int64_t index, struct jinja_value *value) {
    size_t n;
    TRY(jinja_count_chars(run, string, &n));
    if (index < 0)
        index += (int64_t)n;
    if (index < 0 || (uint64_t)index >= n) {
        *value = jinja_undefined("an index past the end");
        return STATUS_OK;
    }
    size_t at = n == string->n ? (size_t)index : jinja_offset_of(string, (size_t)index);
    return jinja_string_slice(run, string, at, at + jinja_char_size(string->bytes + at), value);
}

enum status jinja_get_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key,
                           struct jinja_value *value) {
    *value = (struct jinja_value){0};
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (object.kind == JINJA_DICT && key.kind != JINJA_LIST && key.kind != JINJA_DICT)
        TRY(jinja_dict_get(run, object.dict, key, value));
    if (jinja_given(*value))
        return STATUS_OK;
    if ((object.kind == JINJA_LIST || object.kind == JINJA_TUPLE) && jinja_is_integral(key)) {
        int64_t index = jinja_integer(key);
        if (index < 0)
            index += (int64_t)object.list->n;
        bool is_inside = index >= 0 && (uint64_t)index < object.list->n;
        *value = is_inside ? object.list->items[index] : jinja_undefined("an index past the end");
        return STATUS_OK;
    }
    if (jinja_is_string(object) && jinja_is_integral(key))
        return jinja_get_char(run, object.string, jinja_integer(key), value);
    if (jinja_is_string(key))
        return jinja_get_attr(run, object, jinja_span(key), value);
    *value = jinja_undefined("an item");
    return STATUS_OK;
}

/* One bound of a slice, as CPython's PySlice_AdjustIndices: false when it is not an integer. */
static bool jinja_adjust_bound(struct jinja_value bound, int64_t n, int64_t step, int64_t otherwise,
                               int64_t *at) {
    *at = otherwise;
    if (bound.kind == JINJA_NONE)
        return true;
    if (!jinja_is_integral(bound))
        return false;
    int64_t index = jinja_integer(bound);
    if (index < 0)
        index += n; /* n is small: no overflow */
    if (index < 0)
        index = step < 0 ? -1 : 0;
    else if (index >= n)
        index = step < 0 ? n - 1 : n;
    *at = index;
    return true;
}

static enum status jinja_slice_string(struct jinja_run *run, const struct jinja_string *string,
                                      size_t n_chars, int64_t start, int64_t stop, int64_t step,
                                      struct jinja_value *value) {
    bool is_ascii = n_chars == string->n;
    if (step == 1) {
        if (stop < start)
            stop = start;
        size_t from = is_ascii ? (size_t)start : jinja_offset_of(string, (size_t)start);
        size_t to = is_ascii ? (size_t)stop : jinja_offset_of(string, (size_t)stop);
        return jinja_string_slice(run, string, from, to, value);
    }
    const struct jinja_list *chars;
    struct jinja_text text = {0};
    TRY(jinja_items_of(run, jinja_text_value(string), &chars));
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        TRY(jinja_put_string(run, &text, chars->items[i].string));
    return jinja_text_done(run, &text, value);
}

enum status jinja_get_slice(struct jinja_run *run, struct jinja_value object,
                            const struct jinja_value bounds[3], struct jinja_value *value) {
    size_t n;
    int64_t step = 1;
    int64_t start;
    int64_t stop;
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    if (object.kind != JINJA_STRING && object.kind != JINJA_LIST && object.kind != JINJA_TUPLE)
        return jinja_fail(run, STATUS_INVALID, "%s has no slices", jinja_type_name(object));
    if (bounds[2].kind != JINJA_NONE) {
        if (!jinja_is_integral(bounds[2]))
            return jinja_fail(run, STATUS_INVALID, "a slice's step is not an integer");
        step = jinja_integer(bounds[2]);
    }
    if (step == 0)
        return jinja_fail(run, STATUS_INVALID, "a slice's step is zero");
    TRY(jinja_length(run, object, &n));
    int64_t count = (int64_t)n;
    if (!jinja_adjust_bound(bounds[0], count, step, step < 0 ? count - 1 : 0, &start) ||
        !jinja_adjust_bound(bounds[1], count, step, step < 0 ? -1 : count, &stop))
        return jinja_fail(run, STATUS_INVALID, "a slice's bound is not an integer");
    if (step > count + 1) /* no second item: and no overflow */
        step = count + 1;
    if (step < -count - 1)
        step = -count - 1;
    if (jinja_is_string(object)) {
        TRY(jinja_slice_string(run, object.string, n, start, stop, step, value));
        value->is_safe = object.is_safe;
        return STATUS_OK;
    }
    struct jinja_list *list;
    TRY(jinja_list_new(run, 0, &list));
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        TRY(jinja_list_push(run, list, object.list->items[i]));
    *value = jinja_list_value(object.kind, list);
    return STATUS_OK;
}

enum status jinja_get_path(struct jinja_run *run, struct jinja_value object,
                           struct jinja_value path, struct jinja_value *value) {
    if (!jinja_is_string(path))
        return jinja_get_item(run, object, path, value);
    struct span rest = jinja_span(path);
    for (;;) {
        const char *dot = rest.n ? memchr(rest.bytes, '.', rest.n) : NULL;
        size_t n = dot ? (size_t)(dot - rest.bytes) : rest.n;
        struct jinja_value key;
        bool is_index = n > 0 && n < 10;
        for (size_t i = 0; i < n && is_index; i++)
            is_index = rest.bytes[i] >= '0' && rest.bytes[i] <= '9';
        if (is_index) {
            char digits[16] = "";
            memcpy(digits, rest.bytes, n);
            key = jinja_int(strtol(digits, NULL, 10));
        } else {
            TRY(jinja_string_new(run, rest.bytes, n, false, &key));
        }
        TRY(jinja_get_item(run, object, key, &object));
        if (!dot)
            break;
        rest = (struct span){dot + 1, rest.n - n - 1};
    }
    *value = object;
    return STATUS_OK;
}
