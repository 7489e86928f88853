#include "model/json_file.h"

#include "base/buf.h"
#include "base/file.h"

#include <jansson.h>

enum status json_file_load(const char *path, struct json_t **root, struct error *error) {
    struct buf text;
    json_error_t problem;
    buf_init(&text, 0);
    enum status status = file_read(path, JSON_FILE_BYTES_MAX, &text, error);
    if (status != STATUS_OK) {
        buf_fini(&text);
        return status;
    }
    json_t *value = json_loadb(text.data ? text.data : "", text.n,
                               JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &problem);
    buf_fini(&text);
    if (!value)
        return error_set(error, STATUS_CORRUPT, "%s: line %d: %s", path, problem.line,
                         problem.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return error_set(error, STATUS_CORRUPT, "%s: no JSON object", path);
    }
    *root = value;
    return STATUS_OK;
}
