#include "model/template/jinja/value/jinja_items.h"

#include "model/template/jinja/value/jinja_box.h"
#include "model/template/jinja/value/jinja_compare.h"
#include "model/template/jinja/value/jinja_run.h"
#include "model/template/jinja/value/jinja_text.h"
#include "model/template/jinja/value/jinja_value.h"

#include <string.h>

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
