#include "base/http/sse.h"
#include "router/api/about.h"
#include "router/api/json_tree.h"
#include "router/api/openai.h"

#include <string.h>
#include <strings.h>

static const char body_type[] = "application/json";

enum status ask_read_json(const struct span *body, struct ask *ask, struct api_error *error) {
    enum status status =
        json_tree_parse(body->bytes, body->n, &ask->tree, &ask->body, &error->error);
    if (status == STATUS_LIMIT)
        error->code = "body_too_large";
    return status;
}

void openai_begin_event(const struct reply *reply, const char *object, struct buf *out) {
    sse_begin(out);
    buf_putc(out, '{');
    reply_put_head(reply, object, out);
}

void openai_end_event(const struct reply *reply, struct buf *out) {
    reply_put_chunk_end(reply, out);
    buf_putc(out, '}');
    sse_end(out);
}

void openai_end_stream(const struct reply *reply, const char *object, struct buf *out) {
    if (reply->ask->include_usage) {
        openai_begin_event(reply, object, out);
        buf_puts(out, "\"choices\":[]");
        reply_put_usage(reply, true, out);
        buf_putc(out, '}');
        sse_end(out);
    }
    sse_done(out);
}

/* "application/json; charset=utf-8" is "application/json". */
static bool openai_is_type(const char *value, const char *type) {
    size_t n = strcspn(value, "; \t");
    return n == strlen(type) && strncasecmp(value, type, n) == 0;
}

static bool openai_is_json(const char *value) {
    size_t n = strcspn(value, "; \t");
    return openai_is_type(value, body_type) ||
           (n > 5 && strncasecmp(value + n - 5, "+json", 5) == 0);
}

/* Clients in the field send JSON under the names that their tools choose (curl -d: a form), or
 * none. */
static bool openai_takes(const char *type, bool is_strict) {
    static const char *const lenient[] = {"text/plain", "application/x-www-form-urlencoded",
                                          "application/octet-stream"};
    bool fits = type ? openai_is_json(type) : !is_strict;
    for (unsigned i = 0; !fits && !is_strict && i < sizeof lenient / sizeof *lenient; i++)
        fits = openai_is_type(type, lenient[i]);
    return fits;
}

static void openai_refuse(const struct api_error *error, struct dialect_refusal *refusal) {
    refusal->http = (unsigned)errors_http(error);
    errors_put(error, refusal->body);
}

static void openai_put_error_event(const struct api_error *error, struct buf *out) {
    sse_begin(out);
    errors_put(error, out);
    sse_end(out);
    sse_done(out);
}

const struct header openai_stream_headers[] = {{"Cache-Control", "no-cache"},
                                               {"X-Accel-Buffering", "no"}};

const char openai_error[] = SCHEMA({
    "type" : "object",
    "required" : ["error"],
    "properties" : {
        "error" : {
            "type" : "object",
            "required" : [ "message", "type", "param", "code" ],
            "properties" : {
                "message" : {"type" : "string"},
                "type" : {"type" : "string"},
                "param" : {"type" : [ "string", "null" ]},
                "code" : {"type" : [ "string", "null" ]}
            }
        }
    }
});

const struct dialect_form openai_form = {
    .content_type = body_type,
    .stream_type = SSE_CONTENT_TYPE,
    .stream_headers = openai_stream_headers,
    .n_stream_headers = OPENAI_STREAM_HEADERS,
    .error_name = OPENAI_ERROR_NAME,
    .error = openai_error,
    .takes = openai_takes,
    .refuse = openai_refuse,
    .error_event = openai_put_error_event,
    .ping = sse_ping,
};
