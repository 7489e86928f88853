#include "model/template/jinja/jinja_value.h"

#include "model/template/jinja/jinja_run.h"

#include <string.h>

double jinja_double(struct jinja_value value) {
    return value.kind == JINJA_FLOAT ? value.number : (double)jinja_integer(value);
}

const char *jinja_type_name(struct jinja_value value) {
    switch (value.kind) {
    case JINJA_NONE:
        return "NoneType";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return "str";
    case JINJA_LIST:
        return "list";
    case JINJA_TUPLE:
        return "tuple";
    case JINJA_ITERATOR:
        return "generator";
    case JINJA_VIEW:
        return "view";
    case JINJA_DICT:
        return "dict";
    case JINJA_NAMESPACE:
        return "Namespace";
    case JINJA_LOOP:
        return "LoopContext";
    case JINJA_MACRO:
        return "Macro";
    case JINJA_METHOD:
        return "method";
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        break;
    }
    return "Undefined";
}

bool jinja_true(struct jinja_value value) {
    switch (value.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.boolean;
    case JINJA_INT:
        return value.integer != 0;
    case JINJA_FLOAT:
        return value.number != 0;
    case JINJA_STRING:
        return value.string->n > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return value.list->n > 0;
    case JINJA_DICT:
        return value.dict->n > 0;
    case JINJA_ITERATOR:
    case JINJA_NAMESPACE:
    case JINJA_LOOP:
    case JINJA_MACRO:
    case JINJA_METHOD:
        break;
    }
    return true;
}

/* An int against a float without rounding the int: Python compares exactly. */
static int order_numbers(struct jinja_value a, struct jinja_value b) {
    if (jinja_is_integral(a) && jinja_is_integral(b))
        return (jinja_integer(a) > jinja_integer(b)) - (jinja_integer(a) < jinja_integer(b));
    long double x = a.kind == JINJA_FLOAT ? (long double)a.number : (long double)jinja_integer(a);
    long double y = b.kind == JINJA_FLOAT ? (long double)b.number : (long double)jinja_integer(b);
    return (x > y) - (x < y);
}

static bool is_nan(struct jinja_value value) {
    return value.kind == JINJA_FLOAT && value.number != value.number;
}

static enum status equal_lists(struct jinja_run *run, const struct jinja_list *a,
                               const struct jinja_list *b, bool *equal) {
    *equal = a->n == b->n;
    TRY(jinja_enter(run));
    for (size_t i = 0; i < a->n && *equal; i++)
        TRY(jinja_equal(run, a->items[i], b->items[i], equal));
    jinja_leave(run);
    return STATUS_OK;
}

static enum status equal_dicts(struct jinja_run *run, const struct jinja_dict *a,
                               const struct jinja_dict *b, bool *equal) {
    *equal = a->n == b->n;
    TRY(jinja_enter(run));
    for (size_t i = 0; i < a->n && *equal; i++) {
        struct jinja_value other;
        TRY(jinja_dict_get(run, b, a->keys[i], &other));
        if (!jinja_given(other))
            *equal = false;
        else
            TRY(jinja_equal(run, a->values[i], other, equal));
    }
    jinja_leave(run);
    return STATUS_OK;
}

enum status jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        bool *equal) {
    TRY(jinja_charge(run, 1));
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *equal = !is_nan(a) && !is_nan(b) && order_numbers(a, b) == 0;
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
        *equal = a.string->n == 0 || memcmp(a.string->bytes, b.string->bytes, a.string->n) == 0;
        return STATUS_OK;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return equal_lists(run, a.list, b.list, equal);
    case JINJA_DICT:
        return equal_dicts(run, a.dict, b.dict, equal);
    case JINJA_ITERATOR:
    case JINJA_VIEW:
        *equal = a.list == b.list;
        return STATUS_OK;
    case JINJA_NAMESPACE:
        *equal = a.dict == b.dict;
        return STATUS_OK;
    case JINJA_LOOP:
        *equal = a.loop == b.loop;
        return STATUS_OK;
    case JINJA_MACRO:
        *equal = a.macro == b.macro;
        return STATUS_OK;
    case JINJA_METHOD:
        *equal = a.method == b.method;
        return STATUS_OK;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT:
        break;
    }
    return STATUS_OK;
}

static enum status order_lists(struct jinja_run *run, const struct jinja_list *a,
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
        *order = order_numbers(a, b);
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
        return order_lists(run, a.list, b.list, order);
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail(run, STATUS_INVALID, "an undefined value is compared");
    return jinja_fail(run, STATUS_INVALID, "%s and %s have no order", jinja_type_name(a),
                      jinja_type_name(b));
}

enum status jinja_contains(struct jinja_run *run, struct jinja_value box, struct jinja_value item,
                           bool *found) {
    *found = false;
    switch (box.kind) {
    case JINJA_STRING:
        if (!jinja_is_string(item))
            return jinja_fail(run, STATUS_INVALID, "%s cannot be in a string",
                              jinja_type_name(item));
        TRY(jinja_charge(run, box.string->n / 64));
        *found = item.string->n == 0 ||
                 (box.string->n > 0 &&
                  memmem(box.string->bytes, box.string->n, item.string->bytes, item.string->n));
        return STATUS_OK;
    case JINJA_DICT: {
        struct jinja_value value;
        TRY(jinja_dict_get(run, box.dict, item, &value));
        *found = jinja_given(value);
        return STATUS_OK;
    }
    case JINJA_UNDEFINED:
        return STATUS_OK; /* it iterates over nothing */
    default:
        break;
    }
    const struct jinja_list *items;
    TRY(jinja_items_of(run, box, &items));
    for (size_t i = 0; i < items->n && !*found; i++)
        TRY(jinja_equal(run, items->items[i], item, found));
    return STATUS_OK;
}

enum status jinja_items_of(struct jinja_run *run, struct jinja_value value,
                           const struct jinja_list **items) {
    struct jinja_list *list;
    switch (value.kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *items = value.list;
        return STATUS_OK;
    case JINJA_ITERATOR:
        if (value.list->is_spent)
            break;
        value.list->is_spent = true;
        *items = value.list;
        return STATUS_OK;
    case JINJA_DICT:
        TRY(jinja_list_new(run, value.dict->n, &list));
        for (size_t i = 0; i < value.dict->n; i++)
            TRY(jinja_list_push(run, list, value.dict->keys[i]));
        *items = list;
        return STATUS_OK;
    case JINJA_STRING:
        TRY(jinja_list_new(run, 0, &list));
        for (size_t at = 0; at < value.string->n;) {
            struct jinja_value item;
            size_t n = jinja_char_size(value.string->bytes + at);
            TRY(jinja_string_slice(run, value.string, at, at + n, &item));
            TRY(jinja_list_push(run, list, item));
            at += n;
        }
        *items = list;
        return STATUS_OK;
    case JINJA_UNDEFINED:
        break;
    default:
        return jinja_fail(run, STATUS_INVALID, "%s cannot be iterated", jinja_type_name(value));
    }
    TRY(jinja_list_new(run, 0, &list));
    *items = list;
    return STATUS_OK;
}

enum status jinja_length(struct jinja_run *run, struct jinja_value value, size_t *n) {
    switch (value.kind) {
    case JINJA_STRING:
        return jinja_count_chars(run, value.string, n);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *n = value.list->n;
        return STATUS_OK;
    case JINJA_DICT:
        *n = value.dict->n;
        return STATUS_OK;
    case JINJA_UNDEFINED:
        *n = 0;
        return STATUS_OK;
    case JINJA_LOOP:
        *n = value.loop->items->n;
        return STATUS_OK;
    default:
        return jinja_fail(run, STATUS_INVALID, "%s has no length", jinja_type_name(value));
    }
}
