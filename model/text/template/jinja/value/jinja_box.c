#include "model/text/template/jinja/value/jinja_box.h"

#include "model/text/template/jinja/value/jinja_compare.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <string.h>

enum status jinja_list_new(struct jinja_run *run, size_t size, struct jinja_list **list) {
    struct jinja_list *made;
    TRY(jinja_alloc(run, 1, sizeof *made, &made));
    if (size > 0)
        TRY(jinja_alloc(run, size, sizeof *made->items, &made->items));
    made->size = size;
    *list = made;
    return STATUS_OK;
}

enum status jinja_list_push(struct jinja_run *run, struct jinja_list *list,
                            struct jinja_value item) {
    if (list->n % 16 == 15)
        TRY(jinja_charge(run, 1));
    TRY(jinja_grow(run, &list->items, list->n, &list->size, sizeof *list->items));
    list->items[list->n++] = item;
    return STATUS_OK;
}

enum status jinja_list_push_all(struct jinja_run *run, struct jinja_list *list,
                                const struct jinja_value *items, size_t n) {
    for (size_t i = 0; i < n; i++)
        TRY(jinja_list_push(run, list, items[i]));
    return STATUS_OK;
}

enum status jinja_list_of(struct jinja_run *run, const struct jinja_value *items, size_t n,
                          struct jinja_list **list) {
    TRY(jinja_list_new(run, n, list));
    return jinja_list_push_all(run, *list, items, n);
}

void jinja_list_reverse(struct jinja_list *list) {
    for (size_t i = 0; i < list->n / 2; i++) {
        struct jinja_value item = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = item;
    }
}

enum status jinja_dict_new(struct jinja_run *run, size_t size, struct jinja_dict **dict) {
    struct jinja_dict *made;
    TRY(jinja_alloc(run, 1, sizeof *made, &made));
    if (size > 0) {
        TRY(jinja_alloc(run, size, sizeof *made->keys, &made->keys));
        TRY(jinja_alloc(run, size, sizeof *made->values, &made->values));
    }
    made->size = size;
    *dict = made;
    return STATUS_OK;
}

static enum status jinja_push_pair(struct jinja_run *run, struct jinja_dict *dict,
                                   struct jinja_value key, struct jinja_value value) {
    size_t size = dict->size;
    TRY(jinja_grow(run, &dict->keys, dict->n, &size, sizeof *dict->keys));
    TRY(jinja_grow(run, &dict->values, dict->n, &dict->size, sizeof *dict->values));
    dict->keys[dict->n] = key;
    dict->values[dict->n++] = value;
    return STATUS_OK;
}

enum status jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                           struct jinja_value value) {
    size_t at;
    TRY(jinja_dict_find(run, dict, key, &at));
    if (at == dict->n)
        return jinja_push_pair(run, dict, key, value);
    dict->values[at] = value;
    return STATUS_OK;
}

enum status jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict,
                           struct jinja_value key, struct jinja_value *value) {
    size_t at;
    TRY(jinja_dict_find(run, dict, key, &at));
    *value = at < dict->n ? dict->values[at] : (struct jinja_value){0};
    return STATUS_OK;
}

enum status jinja_dict_get_name(struct jinja_run *run, const struct jinja_dict *dict,
                                struct span name, struct jinja_value *value) {
    struct jinja_string string = {.bytes = name.bytes, .n = name.n};
    return jinja_dict_get(run, dict, jinja_text_value(&string), value);
}

/* What a request brings widens the budgets, so that a long one is not refused for its length. */
static void jinja_box_credit(struct jinja_run *run, size_t n_bytes) {
    run->arena.limit += 256 + 16 * n_bytes;
    run->output_max += 16 + 2 * n_bytes;
    run->steps_max += 1 + n_bytes / 64;
}

static enum status jinja_array_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
                                         unsigned depth, struct jinja_value *value) {
    struct jinja_list *list;
    size_t n = json_array_size(json);
    TRY(jinja_list_new(run, n, &list));
    for (size_t i = 0; i < n; i++) {
        struct jinja_value item;
        TRY(jinja_from_json(run, json_array_get(json, i), is_plain, depth + 1, &item));
        TRY(jinja_list_push(run, list, item));
    }
    *value = jinja_list_value(JINJA_LIST, list);
    return STATUS_OK;
}

static enum status jinja_object_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
                                          unsigned depth, struct jinja_value *value) {
    struct jinja_dict *dict;
    json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators change nothing */
    TRY(jinja_dict_new(run, json_object_size(json), &dict));
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct jinja_value key;
        struct jinja_value item;
        jinja_box_credit(run, json_object_iter_key_len(at));
        TRY(jinja_string_new(run, json_object_iter_key(at), json_object_iter_key_len(at), is_plain,
                             &key));
        TRY(jinja_from_json(run, json_object_iter_value(at), is_plain, depth + 1, &item));
        TRY(jinja_push_pair(run, dict, key, item));
    }
    *value = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
    return STATUS_OK;
}

enum status jinja_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
                            unsigned depth, struct jinja_value *value) {
    if (depth > JINJA_VALUE_DEPTH_MAX)
        return jinja_fail(run, STATUS_LIMIT, "the request is nested more than %u deep",
                          JINJA_VALUE_DEPTH_MAX);
    jinja_box_credit(run, json_is_string(json) ? json_string_length(json) : 0);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return jinja_object_from_json(run, json, is_plain, depth, value);
    case JSON_ARRAY:
        return jinja_array_from_json(run, json, is_plain, depth, value);
    case JSON_STRING:
        return jinja_string_new(run, json_string_value(json), json_string_length(json), is_plain,
                                value);
    case JSON_INTEGER:
        *value = jinja_int(json_integer_value(json));
        value->is_plain = is_plain;
        return STATUS_OK;
    case JSON_REAL:
        *value = jinja_float(json_real_value(json));
        value->is_plain = is_plain;
        return STATUS_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *value = jinja_bool(json_is_true(json));
        return STATUS_OK;
    case JSON_NULL:
        break;
    }
    *value = jinja_none();
    return STATUS_OK;
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
        TRY(jinja_list_of(run, value.dict->keys, value.dict->n, &list));
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
        struct jinja_value parts[] = {from->keys[i], from->values[i]};
        struct jinja_list *pair;
        TRY(jinja_list_of(run, parts, 2, &pair));
        TRY(jinja_list_push(run, list, jinja_list_value(JINJA_TUPLE, pair)));
    }
    *value = jinja_list_value(kind, list);
    return STATUS_OK;
}
