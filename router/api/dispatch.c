#include "router/api/dispatch.h"

#include "base/assert.h"
#include "base/buf.h"
#include "router/api/api.h"
#include "router/call.h"
#include "router/front/exchange.h"
#include "router/meter.h"
#include "router/serving.h"

#include <stdio.h>
#include <string.h>

#define JSON         "application/json"
#define GET_BODY_MAX 4096u /* nothing reads it */

/* Admin routes are no page's business. */
const char *dispatch_origin(const struct serving *serving, const struct exchange *exchange) {
    if (strncmp(exchange->path, "/admin/", 7) == 0)
        return NULL;
    return guard_origin(&serving->guard, exchange);
}

static const struct header no_header[1];

/* The reply, with further headers (at most two, up to a NULL name) and what CORS asks for where the
 * page's origin is one of ours. */
static void reply_with(struct serving *serving, struct exchange *exchange,
                       struct exchange_reply *reply, const struct header *extra) {
    struct header headers[5];
    unsigned n = 0;
    const char *origin = dispatch_origin(serving, exchange);
    for (; extra->name && n < 2; extra++)
        headers[n++] = *extra;
    if (origin) {
        headers[n++] = (struct header){"Access-Control-Allow-Origin", origin};
        headers[n++] = (struct header){"Vary", "Origin"};
    }
    if (reply->status == 401)
        headers[n++] = (struct header){"WWW-Authenticate", "Bearer"};
    reply->headers = headers;
    reply->n_headers = n;
    exchange_reply(serving->exchanges, exchange->id, reply);
}

void dispatch_reply(struct serving *serving, struct exchange *exchange, unsigned status,
                    const char *content_type, const struct buf *body) {
    if (buf_status(body) != STATUS_OK) {
        struct api_error error = {.status = STATUS_NOMEM};
        error_set(&error.error, STATUS_NOMEM, "No memory for the reply");
        dispatch_error(serving, exchange, &error);
        return;
    }
    struct exchange_reply reply = {
        .status = status, .content_type = content_type, .body = body->data, .n_body = body->n};
    reply_with(serving, exchange, &reply, no_header);
}

static void error_with(struct serving *serving, struct exchange *exchange,
                       const struct api_error *error, const struct header *extra) {
    struct buf body;
    struct serving_retry retry;
    struct header again[3] = {{"Retry-After", retry.s}, {"retry-after-ms", retry.ms}};
    buf_init(&body, 0);
    errors_put(error, &body);
    if (serving_retry(serving, error, &retry))
        extra = again;
    struct exchange_reply reply = {.status = (unsigned)errors_http(error),
                                   .content_type = JSON,
                                   .body = body.data,
                                   .n_body = body.n};
    reply_with(serving, exchange, &reply, extra);
    buf_fini(&body);
}

void dispatch_error(struct serving *serving, struct exchange *exchange,
                    const struct api_error *error) {
    error_with(serving, exchange, error, no_header);
}

/* OPTIONS: what the path takes; a browser's preflight is answered for our own origins alone. */
static void answer_options(struct serving *serving, struct exchange *exchange) {
    char allow[64];
    const char *rest;
    api_find("", exchange->path, &rest, allow);
    if (allow[0] == 0)
        snprintf(allow, sizeof allow, "GET, HEAD, POST, OPTIONS"); /* "*" and unknown paths */
    const char *origin = dispatch_origin(serving, exchange);
    struct header headers[] = {
        {"Allow", allow},
        {"Access-Control-Allow-Origin", origin ? origin : ""},
        {"Access-Control-Allow-Methods", allow},
        {"Access-Control-Allow-Headers", "authorization, content-type, x-request-id"},
        {"Access-Control-Max-Age", "600"},
        {"Vary", "Origin"},
    };
    struct exchange_reply reply = {.status = 204,
                                   .headers = headers,
                                   .n_headers = origin ? sizeof headers / sizeof *headers : 1};
    exchange_reply(serving->exchanges, exchange->id, &reply);
}

static void refuse_path(struct serving *serving, struct exchange *exchange, const char *allow) {
    struct api_error error = {0};
    if (allow[0] != 0) {
        error.code = "method_not_allowed";
        error.status = error_set(&error.error, STATUS_UNSUPPORTED, "%s is not allowed here; use %s",
                                 exchange->method, allow);
        error_with(serving, exchange, &error, (struct header[]){{"Allow", allow}, {0}});
    } else {
        char near[256];
        bool has_near = api_near(exchange->path, near);
        error.status = error_set(&error.error, STATUS_NOT_FOUND, "There is nothing at %s%s%s%s",
                                 exchange->path, has_near ? "; did you mean " : "",
                                 has_near ? near : "", has_near ? "?" : "");
        dispatch_error(serving, exchange, &error);
    }
}

void dispatch_head(void *user, struct exchange *exchange) {
    struct serving *serving = user;
    struct api_error error = {0};
    char allow[64];
    const char *rest;
    if (guard_host(&serving->guard, exchange, &error) != STATUS_OK) {
        meter_http(serving->meter, "none", 403);
        dispatch_error(serving, exchange, &error);
        return;
    }
    if (strcmp(exchange->method, "OPTIONS") == 0) {
        answer_options(serving, exchange);
        return;
    }
    const struct dialect *dialect = api_find(exchange->method, exchange->path, &rest, allow);
    if (!dialect) {
        meter_http(serving->meter, "none", allow[0] ? 405 : 404);
        refuse_path(serving, exchange, allow);
    } else if (guard_request(&serving->guard, exchange, dialect, &error) != STATUS_OK) {
        meter_http(serving->meter, dialect->name, (unsigned)errors_http(&error));
        dispatch_error(serving, exchange, &error);
    } else if (strcmp(dialect->method, "GET") == 0) {
        exchange->body_max = GET_BODY_MAX;
    } else if (dialect->body_max > 0 && dialect->body_max < exchange->body_max) {
        exchange->body_max = dialect->body_max;
    }
}

void dispatch_exchange(void *user, struct exchange *exchange) {
    struct serving *serving = user;
    char allow[64];
    const char *rest = "";
    const struct dialect *dialect = api_find(exchange->method, exchange->path, &rest, allow);
    ASSERT(dialect); /* the gate has found it */
    if (dialect->answer)
        dialect->answer(serving, exchange, rest);
    else
        calls_begin(serving, exchange, dialect);
}
