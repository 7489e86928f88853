#include "router/api/dispatch.h"

#include "base/buf.h"
#include "router/api/api.h"
#include "router/api_keys.h"
#include "router/call.h"
#include "router/front/exchange.h"
#include "router/meter.h"
#include "router/serving.h"

#include <stdio.h>
#include <string.h>

#define JSON "application/json"

const char *dispatch_origin(const struct serving *serving, const struct exchange *exchange) {
    const char *origin = exchange_header(exchange, "origin");
    for (unsigned i = 0; origin && i < serving->n_origins; i++)
        if (strcmp(serving->origins[i], origin) == 0 || strcmp(serving->origins[i], "*") == 0)
            return serving->origins[i];
    return NULL;
}

/* The reply, with what CORS asks for where the page's origin is one of ours. */
static void reply_with(struct serving *serving, struct exchange *exchange,
                       struct exchange_reply *reply, const char *extra, const char *value) {
    struct header headers[4];
    unsigned n = 0;
    const char *origin = dispatch_origin(serving, exchange);
    if (extra)
        headers[n++] = (struct header){extra, value};
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
    reply_with(serving, exchange, &reply, NULL, NULL);
}

static void error_with(struct serving *serving, struct exchange *exchange,
                       const struct api_error *error, const char *extra, const char *value) {
    struct buf body;
    char seconds[16];
    int retry_s = errors_retry_after_s(error);
    buf_init(&body, 0);
    errors_put(error, &body);
    if (retry_s > 0) {
        snprintf(seconds, sizeof seconds, "%d", retry_s);
        extra = "Retry-After";
        value = seconds;
    }
    struct exchange_reply reply = {.status = (unsigned)errors_http(error),
                                   .content_type = JSON,
                                   .body = body.data,
                                   .n_body = body.n};
    reply_with(serving, exchange, &reply, extra, value);
    buf_fini(&body);
}

void dispatch_error(struct serving *serving, struct exchange *exchange,
                    const struct api_error *error) {
    error_with(serving, exchange, error, NULL, NULL);
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

static bool has_key(const struct serving *serving, const struct exchange *exchange) {
    static const char scheme[] = "Bearer ";
    const char *value = exchange_header(exchange, "authorization");
    if (!serving->keys)
        return true;
    if (!value || strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return false;
    return api_keys_has(serving->keys, value + sizeof scheme - 1);
}

static void refuse_path(struct serving *serving, struct exchange *exchange, const char *allow) {
    struct api_error error = {0};
    if (allow[0] != 0) {
        error.code = "method_not_allowed";
        error.status = error_set(&error.error, STATUS_UNSUPPORTED, "%s is not allowed here; use %s",
                                 exchange->method, allow);
        error_with(serving, exchange, &error, "Allow", allow);
    } else {
        error.status =
            error_set(&error.error, STATUS_NOT_FOUND, "There is nothing at %s", exchange->path);
        dispatch_error(serving, exchange, &error);
    }
}

void dispatch_exchange(void *user, struct exchange *exchange) {
    struct serving *serving = user;
    char allow[64];
    const char *rest = "";
    if (strcmp(exchange->method, "OPTIONS") == 0) {
        answer_options(serving, exchange);
        return;
    }
    const struct dialect *dialect = api_find(exchange->method, exchange->path, &rest, allow);
    if (!dialect) {
        meter_http(serving->meter, "none", allow[0] ? 405 : 404);
        refuse_path(serving, exchange, allow);
    } else if (!dialect->is_open && !has_key(serving, exchange)) {
        struct api_error error = {0};
        error.status = error_set(&error.error, STATUS_DENIED,
                                 "A valid API key is needed: Authorization: Bearer KEY");
        meter_http(serving->meter, dialect->name, 401);
        dispatch_error(serving, exchange, &error);
    } else if (dialect->answer) {
        dialect->answer(serving, exchange, rest);
    } else {
        calls_begin(serving, exchange, dialect);
    }
}
