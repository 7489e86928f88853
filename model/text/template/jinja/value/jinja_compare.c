#include "model/text/template/jinja/value/jinja_compare.h"

#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

#define LOOKUP_STRIDE 8 /* keys compared for one step */

/* An int against a float without rounding the int: Python compares exactly. */
static int jinja_order_numbers(struct jinja_value a, struct jinja_value b) {
    if (jinja_is_integral(a) && jinja_is_integral(b))
        return (jinja_integer(a) > jinja_integer(b)) - (jinja_integer(a) < jinja_integer(b));
    long double x = a.kind == JINJA_FLOAT ? (long double)a.number : (long double)jinja_integer(a);
    long double y = b.kind == JINJA_FLOAT ? (long double)b.number : (long double)jinja_integer(b);
    return (x > y) - (x < y);
}

static bool jinja_is_nan(struct jinja_value value) {
    return value.kind == JINJA_FLOAT && value.number != value.number;
}

static enum status jinja_equal_lists(struct jinja_run *run, const struct jinja_list *a,
                                     const struct jinja_list *b, bool *equal) {
    *equal = a->n == b->n;
    TRY(jinja_enter(run));
    for (size_t i = 0; i < a->n && *equal; i++)
        TRY(jinja_equal(run, a->items[i], b->items[i], equal));
    jinja_leave(run);
    return STATUS_OK;
}

static enum status jinja_equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                                     const struct jinja_dict *b, bool *equal) {
    *equal = a->n == b->n;
    TRY(jinja_enter(run));
    for (size_t i = 0; i < a->n && *equal; i++) {
        size_t at;
        TRY(jinja_dict_find(run, b, a->keys[i], &at));
        if (at == b->n)
            *equal = false;
        else
            TRY(jinja_equal(run, a->values[i], b->values[at], equal));
    }
    jinja_leave(run);
    return STATUS_OK;
}

enum status jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        bool *equal) {
    TRY(jinja_charge(run, 1));
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal = !jinja_is_nan(a) && !jinja_is_nan(b) && jinja_order_numbers(a, b) == 0;
        return STATUS_OK;
    }
    *equal = false;
    if (a.kind != b.kind)
        return STATUS_OK;
    switch (a.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *equal = true;
        return STATUS_OK;
    case JINJA_STRING:
        if (a.string->n != b.string->n)
            return STATUS_OK;
        TRY(jinja_charge(run, a.string->n / 256));
        *equal = span_equal(jinja_span(a), jinja_span(b));
        return STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return jinja_equal_lists(run, a.list, b.list, equal);
    case JINJA_DICT:
        return jinja_equal_dicts(run, a.dict, b.dict, equal);
    default:
        *equal = a.thing == b.thing;
        return STATUS_OK;
    }
}

static enum status jinja_order_lists(struct jinja_run *run, const struct jinja_list *a,
                                     const struct jinja_list *b, int *order) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool equal;
        TRY(jinja_equal(run, a->items[i], b->items[i], &equal));
        if (equal)
            continue;
        TRY(jinja_enter(run));
        TRY(jinja_order(run, a->items[i], b->items[i], order));
        jinja_leave(run);
        return STATUS_OK;
    }
    *order = (a->n > b->n) - (a->n < b->n);
    return STATUS_OK;
}

enum status jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        int *order) {
    TRY(jinja_charge(run, 1));
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *order = jinja_order_numbers(a, b);
        return STATUS_OK;
    }
    if (jinja_is_string(a) && jinja_is_string(b)) {
        size_t n = a.string->n < b.string->n ? a.string->n : b.string->n;
        TRY(jinja_charge(run, n / 256));
        int bytes = n ? memcmp(a.string->bytes, b.string->bytes, n) : 0;
        *order = bytes ? bytes : (a.string->n > b.string->n) - (a.string->n < b.string->n);
        return STATUS_OK;
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return jinja_order_lists(run, a.list, b.list, order);
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail(run, STATUS_INVALID, "an undefined value is compared");
    return jinja_fail(run, STATUS_INVALID, "%s and %s have no order", jinja_type_name(a),
                      jinja_type_name(b));
}

enum status jinja_sort(struct jinja_run *run, const struct jinja_value *keys, size_t n,
                       bool reverse, size_t **order) {
    size_t *sorted;
    size_t *merged;
    TRY(jinja_alloc(run, n, sizeof *sorted, &sorted));
    TRY(jinja_alloc(run, n, sizeof *merged, &merged));
    for (size_t i = 0; i < n; i++)
        sorted[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = begin + 2 * width < n ? begin + 2 * width : n;
            size_t a = begin;
            size_t b = middle;
            for (size_t i = begin; i < end; i++) {
                int above = 0;
                if (a < middle && b < end)
                    TRY(jinja_order(run, keys[sorted[a]], keys[sorted[b]], &above));
                bool takes_a = b == end || (a < middle && (reverse ? above >= 0 : above <= 0));
                merged[i] = sorted[takes_a ? a++ : b++];
            }
        }
        memcpy(sorted, merged, n * sizeof *sorted);
    }
    *order = sorted;
    return STATUS_OK;
}

static bool jinja_can_be_key(struct jinja_value key) {
    if (key.kind == JINJA_TUPLE)
        for (size_t i = 0; i < key.list->n; i++)
            if (key.list->items[i].kind == JINJA_TUPLE || !jinja_can_be_key(key.list->items[i]))
                return false;
    return key.kind != JINJA_LIST && key.kind != JINJA_DICT && key.kind != JINJA_VIEW;
}

static enum status jinja_check_key(struct jinja_run *run, struct jinja_value key) {
    if (jinja_can_be_key(key))
        return STATUS_OK;
    return jinja_fail(run, STATUS_INVALID, "%s cannot be a key", jinja_type_name(key));
}

enum status jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                            struct jinja_value key, size_t *at) {
    TRY(jinja_check_key(run, key));
    TRY(jinja_charge(run, dict->n / LOOKUP_STRIDE));
    for (size_t i = 0; i < dict->n; i++) {
        struct jinja_value other = dict->keys[i];
        bool equal;
        if (jinja_is_string(key) && jinja_is_string(other)) {
            equal = span_equal(jinja_span(key), jinja_span(other));
        } else if (key.kind != other.kind && !(jinja_is_number(key) && jinja_is_number(other))) {
            continue;
        } else {
            TRY(jinja_equal(run, key, other, &equal));
        }
        if (equal) {
            *at = i;
            return STATUS_OK;
        }
    }
    *at = dict->n;
    return STATUS_OK;
}
