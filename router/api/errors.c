#include "router/api/errors.h"

#include "router/api/json_put.h"

#include <stdio.h>
#include <string.h>

struct row {
    int http;
    const char *type;
    const char *code; /* NULL: null */
};

static const struct row rows[STATUS_COUNT] = {
    [STATUS_OK] = {500, "server_error", "internal_error"}, /* an error that says nothing is ours */
    [STATUS_BUSY] = {429, "rate_limit_error", "server_is_overloaded"},
    [STATUS_NOMEM] = {503, "server_error", "out_of_memory"},
    [STATUS_INVALID] = {400, "invalid_request_error", NULL},
    [STATUS_NOT_FOUND] = {404, "not_found_error", "not_found"},
    [STATUS_EXISTS] = {500, "server_error", "internal_error"},
    [STATUS_LIMIT] = {400, "invalid_request_error", "context_length_exceeded"},
    [STATUS_UNSUPPORTED] = {400, "invalid_request_error", "unsupported_parameter"},
    [STATUS_CORRUPT] = {500, "server_error", "internal_error"},
    [STATUS_CONFLICT] = {500, "server_error", "internal_error"},
    [STATUS_CLOSED] = {503, "server_error", "no_worker"},
    [STATUS_TIMEOUT] = {504, "server_error", "deadline_exceeded"},
    [STATUS_DENIED] = {401, "authentication_error", "invalid_api_key"},
    [STATUS_IO] = {500, "server_error", "internal_error"},
};

/* A code of its own can move a failure to another row of the HTTP page's table. */
static struct row find(const struct api_error *error) {
    struct row row = rows[error->status < STATUS_COUNT ? error->status : STATUS_IO];
    if (!error->code)
        return row;
    row.code = error->code;
    if (strcmp(error->code, "model_not_found") == 0)
        row.type = "invalid_request_error";
    else if (strcmp(error->code, "method_not_allowed") == 0)
        row = (struct row){405, "invalid_request_error", error->code};
    else if (strcmp(error->code, "unsupported_media_type") == 0)
        row = (struct row){415, "invalid_request_error", error->code};
    else if (strcmp(error->code, "body_too_large") == 0)
        row = (struct row){413, "invalid_request_error", error->code};
    else if (strcmp(error->code, "forbidden") == 0)
        row = (struct row){403, "permission_error", error->code};
    return row;
}

int errors_http(const struct api_error *error) {
    return find(error).http;
}

bool errors_want_retry(const struct api_error *error) {
    int http = errors_http(error);
    return http == 429 || http == 503;
}

enum status errors_too_long(struct error *error, const char *field, uint32_t context,
                            size_t n_prompt, uint32_t n_new) {
    static const char known[] = "This model's maximum context length is %u tokens. However, the "
                                "prompt is too long";
    char front[160];
    snprintf(front, sizeof front, known, context);
    if (n_prompt == 0)
        return error_field(error, STATUS_LIMIT, field, "%s: more than %u tokens.", front, context);
    if (n_new == 0)
        return error_field(error, STATUS_LIMIT, field, "%s: %zu tokens.", front, n_prompt);
    return error_field(error, STATUS_LIMIT, field,
                       "%s to be followed by %u tokens: it has %zu tokens.", front, n_new,
                       n_prompt);
}

void errors_put(const struct api_error *error, struct buf *out) {
    struct row row = find(error);
    const char *text = error->error.text;
    const char *field = error->error.field;
    buf_puts(out, "{\"error\":{\"message\":");
    json_put_string(out, text, strlen(text));
    buf_puts(out, ",\"type\":");
    json_put_string(out, row.type, strlen(row.type));
    buf_puts(out, ",\"param\":");
    json_put_string_or_null(out, field[0] ? field : NULL);
    buf_puts(out, ",\"code\":");
    json_put_string_or_null(out, row.code);
    buf_puts(out, "}}");
}

void errors_put_event(const struct api_error *error, struct buf *out) {
    buf_puts(out, "data: ");
    errors_put(error, out);
    buf_puts(out, "\n\n");
}
