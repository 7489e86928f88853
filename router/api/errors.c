#include "router/api/errors.h"

#include "router/api/json_put.h"

#include <stdio.h>
#include <string.h>

/* gRPC's status codes (grpc/grpc, doc/statuscodes.md). */
enum grpc_code {
    GRPC_CANCELLED = 1,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16
};

struct error_row {
    int http;
    enum grpc_code grpc;
    const char *type;
    const char *code; /* NULL: null */
};

static const struct error_row rows[STATUS_COUNT] = {
    /* an error that says nothing is ours */
    [STATUS_OK] = {500, GRPC_INTERNAL, "server_error", "internal_error"},
    [STATUS_BUSY] = {429, GRPC_RESOURCE_EXHAUSTED, "rate_limit_error", "server_is_overloaded"},
    [STATUS_NOMEM] = {503, GRPC_UNAVAILABLE, "server_error", "out_of_memory"},
    [STATUS_INVALID] = {400, GRPC_INVALID_ARGUMENT, "invalid_request_error", NULL},
    [STATUS_NOT_FOUND] = {404, GRPC_UNIMPLEMENTED, "not_found_error", "not_found"},
    [STATUS_EXISTS] = {500, GRPC_INTERNAL, "server_error", "internal_error"},
    [STATUS_LIMIT] = {400, GRPC_INVALID_ARGUMENT, "invalid_request_error",
                      "context_length_exceeded"},
    [STATUS_UNSUPPORTED] = {400, GRPC_INVALID_ARGUMENT, "invalid_request_error",
                            "unsupported_parameter"},
    [STATUS_CORRUPT] = {500, GRPC_INTERNAL, "server_error", "internal_error"},
    [STATUS_CONFLICT] = {500, GRPC_INTERNAL, "server_error", "internal_error"},
    [STATUS_CLOSED] = {503, GRPC_UNAVAILABLE, "server_error", "no_worker"},
    [STATUS_TIMEOUT] = {504, GRPC_DEADLINE_EXCEEDED, "server_error", "deadline_exceeded"},
    [STATUS_DENIED] = {401, GRPC_UNAUTHENTICATED, "authentication_error", "invalid_api_key"},
    [STATUS_IO] = {500, GRPC_INTERNAL, "server_error", "internal_error"},
};

/* Codes that move a failure to another row of the HTTP page's table. */
static const struct error_row moved[] = {
    {404, GRPC_NOT_FOUND, "invalid_request_error", "model_not_found"},
    {404, GRPC_NOT_FOUND, "not_found_error", "service_not_found"},
    {405, GRPC_UNIMPLEMENTED, "invalid_request_error", "method_not_allowed"},
    {505, GRPC_UNIMPLEMENTED, "invalid_request_error", "http2_needed"},
    {415, GRPC_INVALID_ARGUMENT, "invalid_request_error", "unsupported_media_type"},
    {413, GRPC_RESOURCE_EXHAUSTED, "invalid_request_error", "body_too_large"},
    {409, GRPC_CANCELLED, "invalid_request_error", "aborted"},
    {403, GRPC_PERMISSION_DENIED, "permission_error", "forbidden"},
    {501, GRPC_UNIMPLEMENTED, "invalid_request_error", "not_implemented"},
    {400, GRPC_UNIMPLEMENTED, "invalid_request_error", "unknown_compression"},
    {400, GRPC_UNIMPLEMENTED, "invalid_request_error", "not_one_message"},
};

static struct error_row errors_find_row(const struct api_error *error) {
    struct error_row row = rows[error->status < STATUS_COUNT ? error->status : STATUS_IO];
    if (!error->code)
        return row;
    row.code = error->code;
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        if (strcmp(moved[i].code, error->code) == 0)
            return moved[i];
    return row;
}

int errors_grpc(const struct api_error *error) {
    return (int)errors_find_row(error).grpc;
}

int errors_http(const struct api_error *error) {
    return errors_find_row(error).http;
}

const char *errors_code(const struct api_error *error) {
    return errors_find_row(error).code;
}

bool errors_want_retry(const struct api_error *error) {
    int http = errors_http(error);
    return http == 429 || http == 503;
}

enum status errors_too_long(struct error *error, const char *field, uint32_t context,
                            size_t n_prompt) {
    static const char known[] = "This model's maximum context length is %u tokens. However, the "
                                "prompt is too long";
    char front[160];
    snprintf(front, sizeof front, known, context);
    if (n_prompt == 0)
        return error_field(error, STATUS_LIMIT, field, "%s: more than %u tokens.", front, context);
    return error_field(error, STATUS_LIMIT, field, "%s%s: %zu tokens.", front,
                       n_prompt == context ? " to be followed by an answer" : "", n_prompt);
}

enum status errors_no_memory(struct error *error) {
    return error_set(error, STATUS_NOMEM, "no memory for the request");
}

void errors_put(const struct api_error *error, struct buf *out) {
    struct error_row row = errors_find_row(error);
    const char *field = error->error.field;
    buf_puts(out, "{\"error\":{");
    json_put_member(out, "message", error->error.text);
    json_put_member(out, "type", row.type);
    buf_puts(out, "\"param\":");
    json_put_string_or_null(out, field[0] ? field : NULL);
    buf_puts(out, ",\"code\":");
    json_put_string_or_null(out, row.code);
    buf_puts(out, "}}");
}
