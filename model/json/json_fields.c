#include "model/json/json_fields.h"

#include <jansson.h>

enum status json_field_text(const json_t *object, const char *key, struct span *text,
                            struct error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return error_field(error, STATUS_CORRUPT, key, "%s is %s", key,
                           value ? "not text" : "missing");
    *text = (struct span){json_string_value(value), json_string_length(value)};
    return STATUS_OK;
}

enum status json_field_u32(const json_t *object, const char *key, uint32_t *number,
                           struct error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= UINT32_MAX)
        return error_field(error, STATUS_CORRUPT, key, "%s is %s", key,
                           value ? "not a number from 0 on" : "missing");
    *number = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

enum status json_field_bool(const json_t *object, const char *key, bool *value,
                            struct error *error) {
    const json_t *found = json_object_get(object, key);
    if (!found || json_is_null(found))
        return STATUS_OK;
    if (!json_is_boolean(found))
        return error_field(error, STATUS_CORRUPT, key, "%s is neither true nor false", key);
    *value = json_is_true(found);
    return STATUS_OK;
}

enum status json_field_list(const json_t *object, const char *key, json_t **list,
                            struct error *error) {
    json_t *value = json_object_get(object, key);
    if (!json_is_array(value))
        return error_field(error, STATUS_CORRUPT, key, "%s is %s", key,
                           value ? "no list" : "missing");
    *list = value;
    return STATUS_OK;
}
