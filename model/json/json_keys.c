#include "model/json/json_keys.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const json_t *json_keys_get(const struct json_keys *keys, const char *key) {
    const json_t *value = json_object_get(keys->object, key);
    return json_is_null(value) ? NULL : value;
}

enum status json_keys_fail(const struct json_keys *keys, enum status status, const char *key,
                           const char *format, ...) {
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_field(keys->error, status, key, "%s: %s%s%s %s", keys->file,
                       keys->parent ? keys->parent : "", keys->parent ? "." : "", key, text);
}

static enum status wrong_type(const struct json_keys *keys, const char *key, const char *wanted) {
    /* The value is shown, but never more than a line of it. */
    char *shown = json_dumps(json_object_get(keys->object, key), JSON_ENCODE_ANY | JSON_COMPACT);
    enum status status = json_keys_fail(keys, STATUS_INVALID, key, "is %.60s, not %s",
                                        shown ? shown : "something else", wanted);
    free(shown);
    return status;
}

static enum status missing(const struct json_keys *keys, const char *key) {
    return json_keys_fail(keys, STATUS_INVALID, key, "is missing");
}

enum status json_keys_u32(const struct json_keys *keys, const char *key, uint32_t *value) {
    const json_t *found = json_keys_get(keys, key);
    if (!found)
        return missing(keys, key);
    json_int_t number = json_integer_value(found);
    if (!json_is_integer(found) || number < 0 || number > UINT32_MAX)
        return wrong_type(keys, key, "a whole number from 0 to 4294967295");
    *value = (uint32_t)number;
    return STATUS_OK;
}

enum status json_keys_u32_or(const struct json_keys *keys, const char *key, uint32_t *value) {
    return json_keys_get(keys, key) ? json_keys_u32(keys, key, value) : STATUS_OK;
}

enum status json_keys_f64(const struct json_keys *keys, const char *key, double *value) {
    const json_t *found = json_keys_get(keys, key);
    if (!found)
        return missing(keys, key);
    if (!json_is_number(found) || !isfinite(json_number_value(found)))
        return wrong_type(keys, key, "a number");
    *value = json_number_value(found);
    return STATUS_OK;
}

enum status json_keys_f64_or(const struct json_keys *keys, const char *key, double *value) {
    return json_keys_get(keys, key) ? json_keys_f64(keys, key, value) : STATUS_OK;
}

enum status json_keys_bool_or(const struct json_keys *keys, const char *key, bool *value) {
    const json_t *found = json_keys_get(keys, key);
    if (!found)
        return STATUS_OK;
    if (!json_is_boolean(found))
        return wrong_type(keys, key, "true or false");
    *value = json_is_true(found);
    return STATUS_OK;
}

enum status json_keys_text_or(const struct json_keys *keys, const char *key, const char **value) {
    const json_t *found = json_keys_get(keys, key);
    if (!found)
        return STATUS_OK;
    if (!json_is_string(found))
        return wrong_type(keys, key, "a text");
    *value = json_string_value(found);
    return STATUS_OK;
}

enum status json_keys_object_or(const struct json_keys *keys, const char *key,
                                struct json_keys *value) {
    const json_t *found = json_keys_get(keys, key);
    if (found && !json_is_object(found))
        return wrong_type(keys, key, "an object");
    *value = (struct json_keys){
        .object = found, .file = keys->file, .parent = key, .error = keys->error};
    return STATUS_OK;
}

enum status json_keys_want(const struct json_keys *keys, const char *key, bool wanted) {
    bool value = wanted;
    TRY(json_keys_bool_or(keys, key, &value));
    if (value != wanted)
        return json_keys_fail(keys, STATUS_UNSUPPORTED, key, "is %s: only %s is served",
                              value ? "true" : "false", wanted ? "true" : "false");
    return STATUS_OK;
}
