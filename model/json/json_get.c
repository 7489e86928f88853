#include "model/json/json_get.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Counts brackets outside strings, because jansson's own bound (2,048) is compiled in and its
 * parser recurses. Malformed text is left for the parser to name. */
static bool too_deep(const char *bytes, size_t n) {
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX)
                return true;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

enum status json_get_parse(const char *bytes, size_t n, json_t **root, struct error *error) {
    if (n == 0)
        return error_set(error, STATUS_INVALID, "the request has no body; it must be JSON");
    if (too_deep(bytes, n))
        return error_set(error, STATUS_INVALID, "the JSON is nested deeper than %d levels",
                         JSON_DEPTH_MAX);
    json_error_t found;
    json_t *parsed =
        json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &found);
    if (!parsed) {
        if (json_error_code(&found) == json_error_out_of_memory)
            return error_set(error, STATUS_NOMEM, "no memory to parse the request");
        return error_set(error, STATUS_INVALID, "invalid JSON at line %d column %d: %s", found.line,
                         found.column, found.text);
    }
    if (!json_is_object(parsed)) {
        json_decref(parsed);
        return error_set(error, STATUS_INVALID, "the request must be a JSON object");
    }
    *root = parsed;
    return STATUS_OK;
}

const json_t *json_get_member(const struct json_get *get, const char *name) {
    const json_t *value = json_object_get(get->object, name);
    return value && !json_is_null(value) ? value : NULL;
}

enum status json_get_fail(const struct json_get *get, enum status status, const char *name,
                          const char *format, ...) {
    char field[sizeof get->error->field];
    char text[ERROR_TEXT_MAX];
    snprintf(field, sizeof field, "%s%s", get->prefix, name);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_field(get->error, status, field, "`%s` %s", field, text);
}

enum status json_get_bool(const struct json_get *get, const char *name, bool *value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_boolean(member))
        return json_get_fail(get, STATUS_INVALID, name, "must be true or false");
    *value = json_is_true(member);
    return STATUS_OK;
}

enum status json_get_int(const struct json_get *get, const char *name, int64_t min, int64_t max,
                         int64_t *value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_integer(member))
        return json_get_fail(get, STATUS_INVALID, name, "must be an integer");
    int64_t number = json_integer_value(member);
    if (number < min || number > max)
        return json_get_fail(get, STATUS_INVALID, name, "must be between %lld and %lld",
                             (long long)min, (long long)max);
    *value = number;
    return STATUS_OK;
}

enum status json_get_real(const struct json_get *get, const char *name, double min, double max,
                          double *value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_number(member))
        return json_get_fail(get, STATUS_INVALID, name, "must be a number");
    double number = json_number_value(member);
    if (!(number >= min && number <= max))
        return json_get_fail(get, STATUS_INVALID, name, "must be between %g and %g", min, max);
    *value = number;
    return STATUS_OK;
}

enum status json_get_text(const struct json_get *get, const char *name, size_t max,
                          struct span *value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_string(member))
        return json_get_fail(get, STATUS_INVALID, name, "must be a string");
    if (json_string_length(member) > max)
        return json_get_fail(get, STATUS_INVALID, name, "must be at most %zu bytes long", max);
    *value = (struct span){json_string_value(member), json_string_length(member)};
    return STATUS_OK;
}

enum status json_get_object(const struct json_get *get, const char *name, const json_t **value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_object(member))
        return json_get_fail(get, STATUS_INVALID, name, "must be an object");
    *value = member;
    return STATUS_OK;
}

enum status json_get_array(const struct json_get *get, const char *name, size_t n_max,
                           const json_t **value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_array(member))
        return json_get_fail(get, STATUS_INVALID, name, "must be a list");
    if (json_array_size(member) > n_max)
        return json_get_fail(get, STATUS_INVALID, name, "must have at most %zu entries", n_max);
    *value = member;
    return STATUS_OK;
}
