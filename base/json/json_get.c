#include "base/json/json_get.h"

#include "base/json/json_read.h"
#include "base/json/json_text.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum status json_get_parse(const char *bytes, size_t n, json_t **root, struct error *error) {
    if (n == 0)
        return error_set(error, STATUS_INVALID, "the request has no body; it must be JSON");
    uint64_t n_values;
    if (!json_text_count((struct span){bytes, n}, JSON_DEPTH_MAX, &n_values, &(size_t){0}))
        return error_set(error, STATUS_INVALID, "the JSON is nested deeper than %d levels",
                         JSON_DEPTH_MAX);
    json_error_t found;
    json_t *parsed =
        json_read(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &found);
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

struct json_get json_get_part(const json_t *object, struct error *error) {
    return (struct json_get){.object = object, .error = error, .file = "", .wrong = STATUS_CORRUPT};
}

const json_t *json_get_member(const struct json_get *get, const char *name) {
    const json_t *value = json_object_get(get->object, name);
    return value && !json_is_null(value) ? value : NULL;
}

enum status(json_get_fail)(const struct json_get *get, enum status status, const char *name,
                           const char *format, ...) {
    char field[sizeof get->error->field];
    char text[ERROR_TEXT_MAX];
    snprintf(field, sizeof field, "%s%s%s", get->parent ? get->parent : "", get->parent ? "." : "",
             name);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!get->file)
        return error_field(get->error, status, field, "`%s` %s", field, text);
    return error_field(get->error, status, field, "%s%s%s %s", get->file, *get->file ? ": " : "",
                       field, text);
}

static enum status json_get_wrong(const struct json_get *get) {
    return get->wrong != STATUS_OK ? get->wrong : STATUS_INVALID;
}

/* The beginning of a value's text. */
struct shown {
    size_t n;
    char text[61];
};

static int json_show_value(const char *bytes, size_t n, void *into) {
    struct shown *shown = into;
    size_t n_free = sizeof shown->text - 1 - shown->n;
    size_t n_taken = n < n_free ? n : n_free;
    memcpy(shown->text + shown->n, bytes, n_taken);
    shown->n += n_taken;
    return n_taken < n ? -1 : 0; /* ends the dump: the value may be megabytes */
}

/* "NAME must be WANTED", and of a file what is there instead. */
static enum status json_get_unlike(const struct json_get *get, const char *name,
                                   const char *wanted) {
    struct shown shown = {0};
    if (get->file)
        json_dump_callback(json_object_get(get->object, name), json_show_value, &shown,
                           JSON_ENCODE_ANY | JSON_COMPACT);
    return json_get_fail(get, json_get_wrong(get), name, "must be %s%s%s", wanted,
                         get->file ? ", not " : "", shown.text);
}

enum status json_get_bool(const struct json_get *get, const char *name, bool *value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_boolean(member))
        return json_get_unlike(get, name, "true or false");
    *value = json_is_true(member);
    return STATUS_OK;
}

bool json_get_is_huge(const json_t *value) {
    return json_is_real(value) && fabs(json_real_value(value)) >= 0x1p63;
}

bool json_get_whole(const json_t *value, int64_t *whole) {
    double real = json_real_value(value);
    if (json_is_integer(value))
        *whole = json_integer_value(value);
    else if (json_is_real(value) && !json_get_is_huge(value) && real == trunc(real))
        *whole = (int64_t)real;
    else
        return false;
    return true;
}

enum status json_get_int(const struct json_get *get, const char *name, int64_t min, int64_t max,
                         int64_t *value) {
    char range[64];
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    int64_t number;
    bool is_whole = json_get_whole(member, &number);
    if (!is_whole && !json_get_is_huge(member))
        return json_get_unlike(get, name, "an integer");
    if (!is_whole || number < min || number > max) {
        snprintf(range, sizeof range, "between %lld and %lld", (long long)min, (long long)max);
        return json_get_unlike(get, name, range);
    }
    *value = number;
    return STATUS_OK;
}

enum status json_get_u32(const struct json_get *get, const char *name, uint32_t *value) {
    int64_t number = *value;
    TRY(json_get_int(get, name, 0, UINT32_MAX, &number));
    *value = (uint32_t)number;
    return STATUS_OK;
}

enum status json_get_real(const struct json_get *get, const char *name, double min, double max,
                          double *value) {
    char range[64];
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_number(member))
        return json_get_unlike(get, name, "a number");
    double number = json_number_value(member);
    if (!(number >= min && number <= max)) {
        snprintf(range, sizeof range, "between %g and %g", min, max);
        return json_get_unlike(get, name, range);
    }
    *value = number;
    return STATUS_OK;
}

enum status json_get_f64(const struct json_get *get, const char *name, double *value) {
    return json_get_real(get, name, -DBL_MAX, DBL_MAX, value);
}

enum status json_get_text(const struct json_get *get, const char *name, size_t max,
                          struct span *value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_string(member))
        return json_get_unlike(get, name, "a string");
    if (json_string_length(member) > max)
        return json_get_fail(get, json_get_wrong(get), name, "must be at most %zu bytes long", max);
    *value = (struct span){json_string_value(member), json_string_length(member)};
    return STATUS_OK;
}

enum status json_get_string(const struct json_get *get, const char *name, const char **value) {
    struct span text = {.bytes = *value};
    TRY(json_get_text(get, name, SIZE_MAX, &text));
    *value = text.bytes;
    return STATUS_OK;
}

enum status json_get_object(const struct json_get *get, const char *name, struct json_get *inner) {
    const json_t *member = json_get_member(get, name);
    if (member && !json_is_object(member))
        return json_get_unlike(get, name, "an object");
    *inner = *get;
    inner->object = member;
    inner->parent = name;
    return STATUS_OK;
}

enum status json_get_array(const struct json_get *get, const char *name, size_t n_max,
                           const json_t **value) {
    const json_t *member = json_get_member(get, name);
    if (!member)
        return STATUS_OK;
    if (!json_is_array(member))
        return json_get_unlike(get, name, "a list");
    if (json_array_size(member) > n_max)
        return json_get_fail(get, json_get_wrong(get), name, "must have at most %zu entries",
                             n_max);
    *value = member;
    return STATUS_OK;
}

enum status json_get_want(const struct json_get *get, const char *name, bool wanted) {
    bool value = wanted;
    TRY(json_get_bool(get, name, &value));
    if (value != wanted)
        return json_get_fail(get, STATUS_UNSUPPORTED, name, "is %s: only %s is served",
                             value ? "true" : "false", wanted ? "true" : "false");
    return STATUS_OK;
}

static enum status json_get_need(const struct json_get *get, const char *name) {
    return json_get_member(get, name) ? STATUS_OK
                                      : json_get_fail(get, json_get_wrong(get), name, "is missing");
}

enum status json_need_u32(const struct json_get *get, const char *name, uint32_t *value) {
    TRY(json_get_need(get, name));
    return json_get_u32(get, name, value);
}

enum status json_need_f64(const struct json_get *get, const char *name, double *value) {
    TRY(json_get_need(get, name));
    return json_get_f64(get, name, value);
}

enum status json_need_text(const struct json_get *get, const char *name, struct span *value) {
    TRY(json_get_need(get, name));
    return json_get_text(get, name, SIZE_MAX, value);
}

enum status json_need_array(const struct json_get *get, const char *name, const json_t **value) {
    TRY(json_get_need(get, name));
    return json_get_array(get, name, SIZE_MAX, value);
}
