#include "base/json/json_text.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json/json_read.h"
#include "base/remarks.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>

const struct json_limits json_limits_config = {
    .n_bytes = 4u << 20, .depth = 16, .n_values = 100000};

/* The largest tokenizer.json seen has 35 MB and 2 million values. */
const struct json_limits json_limits_tokenizer = {
    .n_bytes = 96u << 20, .depth = 64, .n_values = 8u << 20, .takes_nul = true};

bool json_text_count(struct span text, uint32_t depth_max, uint64_t *n_values, size_t *at) {
    uint32_t depth = 0;
    bool in_string = false;
    *n_values = 0;
    for (size_t i = 0; i < text.n; i++) {
        char byte = text.bytes[i];
        if (in_string) {
            if (byte == '\\')
                i++;
            else if (byte == '"')
                in_string = false;
        } else if (byte == '"') {
            in_string = true;
        } else if (byte == '{' || byte == '[') {
            ++*n_values;
            *at = i;
            if (++depth > depth_max)
                return false;
        } else if (byte == '}' || byte == ']') {
            depth -= depth > 0;
        } else if (byte == ',') {
            ++*n_values;
        }
    }
    return true;
}

static enum status json_check_bounds(struct span text, const char *name,
                                     const struct json_limits *limits, struct error *error) {
    uint64_t n_values;
    size_t at;
    if (!json_text_count(text, limits->depth, &n_values, &at))
        return error_set(error, STATUS_LIMIT, "%s: at byte %zu: nested deeper than %u levels", name,
                         at, limits->depth);
    if (n_values > limits->n_values)
        return error_set(error, STATUS_LIMIT,
                         "%s: %" PRIu64 " values, at most %" PRIu64 " are read", name, n_values,
                         limits->n_values);
    return STATUS_OK;
}

enum status json_text_parse(struct span text, const char *name, const struct json_limits *limits,
                            json_t **root, struct error *error) {
    json_error_t wrong;
    if (text.n > limits->n_bytes)
        return error_set(error, STATUS_LIMIT, "%s: %zu bytes of JSON, at most %" PRIu64 " are read",
                         name, text.n, limits->n_bytes);
    TRY(json_check_bounds(text, name, limits, error));
    size_t flags = JSON_REJECT_DUPLICATES | (limits->takes_nul ? JSON_ALLOW_NUL : 0);
    json_t *read = json_read(text.bytes, text.n, flags, &wrong);
    if (!read)
        return error_set(error, STATUS_CORRUPT, "%s: line %d, column %d: %s", name, wrong.line,
                         wrong.column, wrong.text);
    if (!json_is_object(read)) {
        json_decref(read);
        return error_set(error, STATUS_CORRUPT, "%s: no JSON object", name);
    }
    *root = read;
    return STATUS_OK;
}

enum status json_text_load(const char *path, const struct json_limits *limits, json_t **root,
                           struct error *error) {
    struct buf text;
    buf_init(&text, 0);
    enum status status = file_read(path, limits->n_bytes, &text, error);
    if (status == STATUS_OK)
        status = json_text_parse((struct span){text.data, text.n}, path, limits, root, error);
    buf_fini(&text);
    return status;
}

enum status json_text_load_helper(const char *path, const struct json_limits *limits, json_t **root,
                                  struct remarks *remarks, struct error *error) {
    enum status status = json_text_load(path, limits, root, error);
    if (status == STATUS_OK || status == STATUS_NOMEM)
        return status;
    remarks_add(remarks, "%s; it is not used", error->text);
    return STATUS_OK;
}
