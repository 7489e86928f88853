#include "model/template/jinja/value/jinja_box.h"

#include "model/template/jinja/value/jinja_compare.h"
#include "model/template/jinja/value/jinja_run.h"
#include "model/template/jinja/value/jinja_text.h"
#include "model/template/jinja/value/jinja_value.h"

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

static enum status push_pair(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                             struct jinja_value value) {
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
        return push_pair(run, dict, key, value);
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
static void credit(struct jinja_run *run, size_t n_bytes) {
    run->arena.limit += 256 + 16 * n_bytes;
    run->output_max += 16 + 2 * n_bytes;
    run->steps_max += 1 + n_bytes / 64;
}

static enum status array_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
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

static enum status object_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
                                    unsigned depth, struct jinja_value *value) {
    struct jinja_dict *dict;
    json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators change nothing */
    TRY(jinja_dict_new(run, json_object_size(json), &dict));
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        struct jinja_value key;
        struct jinja_value item;
        credit(run, json_object_iter_key_len(at));
        TRY(jinja_string_new(run, json_object_iter_key(at), json_object_iter_key_len(at), is_plain,
                             &key));
        TRY(jinja_from_json(run, json_object_iter_value(at), is_plain, depth + 1, &item));
        TRY(push_pair(run, dict, key, item));
    }
    *value = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
    return STATUS_OK;
}

enum status jinja_from_json(struct jinja_run *run, const json_t *json, bool is_plain,
                            unsigned depth, struct jinja_value *value) {
    if (depth > JINJA_VALUE_DEPTH_MAX)
        return jinja_fail(run, STATUS_LIMIT, "the request is nested more than %u deep",
                          JINJA_VALUE_DEPTH_MAX);
    credit(run, json_is_string(json) ? json_string_length(json) : 0);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return object_from_json(run, json, is_plain, depth, value);
    case JSON_ARRAY:
        return array_from_json(run, json, is_plain, depth, value);
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
