#include "router/serve/routes.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/http/exchange.h"
#include "router/call/calls.h"
#include "router/call/meter.h"
#include "router/call/quota.h"
#include "router/call/serving.h"
#include "router/serve/api.h"
#include "router/serve/api_keys.h"
#include "router/serve/server.h"

#include <stdio.h>
#include <string.h>

#define GET_BODY_MAX 4096u /* nothing reads it */

/* Admin routes are no page's business. */
const char *routes_origin(const struct server *server, const struct exchange *exchange) {
    if (strncmp(exchange->path, "/admin/", 7) == 0)
        return NULL;
    return guard_origin(&server->guard, exchange);
}

static const struct header no_header[1];

/* The reply, with further headers (up to a NULL name) and what CORS asks for where the page's origin
 * is one of ours. */
static void reply_with(struct server *server, struct exchange *exchange,
                       struct exchange_reply *reply, const struct header *extra) {
    struct header headers[DIALECT_HEADERS_MAX + 6];
    unsigned n = 0;
    const char *origin = routes_origin(server, exchange);
    for (; extra->name && n < DIALECT_HEADERS_MAX + 3; extra++)
        headers[n++] = *extra;
    if (origin) {
        headers[n++] = (struct header){"Access-Control-Allow-Origin", origin};
        headers[n++] = (struct header){"Vary", "Origin"};
    }
    if (reply->status == 401)
        headers[n++] = (struct header){"WWW-Authenticate", "Bearer"};
    reply->headers = headers;
    reply->n_headers = n;
    exchange_reply(server->serving.exchanges, exchange->id, reply);
    reply->headers = NULL; /* they were ours */
}

/* The form in which a failure is told: the dialect's whose path it is, whatever the method. */
static const struct dialect_form *form_of(const struct exchange *exchange) {
    const struct dialect *dialect = api_at(exchange->path);
    return dialect ? dialect->form : api_form(exchange_header(exchange, "content-type"));
}

void routes_reply(struct server *server, struct exchange *exchange, unsigned status,
                  const char *content_type, const struct buf *body) {
    if (buf_status(body) != STATUS_OK) {
        struct api_error error = {.status = STATUS_NOMEM};
        error_set(&error.error, STATUS_NOMEM, "No memory for the reply");
        routes_error(server, exchange, &error);
        return;
    }
    const struct dialect_form *form = form_of(exchange);
    struct exchange_reply reply = {.status = status,
                                   .content_type = content_type,
                                   .body = body->data,
                                   .n_body = body->n,
                                   .trailers = form->trailers,
                                   .n_trailers = form->n_trailers};
    reply_with(server, exchange, &reply, no_header);
}

static void error_with(struct server *server, struct exchange *exchange,
                       const struct api_error *error, const struct header *extra) {
    struct buf body;
    struct serving_retry retry;
    struct header headers[DIALECT_HEADERS_MAX + 3];
    struct dialect_refusal refusal = {.body = &body};
    const struct dialect_form *form = form_of(exchange);
    unsigned n = 0;
    buf_init(&body, 0);
    form->refuse(error, &refusal);
    for (; n < refusal.n_headers; n++)
        headers[n] = refusal.headers[n];
    if (serving_retry(&server->serving, error, &retry)) {
        headers[n++] = (struct header){"Retry-After", retry.s};
        headers[n++] = (struct header){"retry-after-ms", retry.ms};
    } else if (extra->name) {
        headers[n++] = *extra;
    }
    headers[n] = (struct header){0};
    struct exchange_reply reply = {.status = refusal.http,
                                   .content_type = form->content_type,
                                   .body = body.data,
                                   .n_body = body.n};
    reply_with(server, exchange, &reply, headers);
    buf_fini(&body);
}

void routes_error(struct server *server, struct exchange *exchange, const struct api_error *error) {
    error_with(server, exchange, error, no_header);
}

/* OPTIONS: what the path takes; a browser's preflight is answered for our own origins alone. */
static void answer_options(struct server *server, struct exchange *exchange) {
    char allow[64];
    const char *rest;
    api_find("", exchange->path, &rest, allow);
    if (allow[0] == 0)
        snprintf(allow, sizeof allow, "GET, HEAD, POST, OPTIONS"); /* "*" and unknown paths */
    const char *origin = routes_origin(server, exchange);
    struct header headers[] = {
        {"Allow", allow},
        {"Access-Control-Allow-Origin", origin ? origin : ""},
        {"Access-Control-Allow-Methods", allow},
        {"Access-Control-Allow-Headers",
         "authorization, content-type, x-api-key, x-request-id, x-request-timeout, traceparent"},
        {"Access-Control-Max-Age", "600"},
        {"Vary", "Origin"},
    };
    struct exchange_reply reply = {.status = 204,
                                   .headers = headers,
                                   .n_headers = origin ? sizeof headers / sizeof *headers : 1};
    exchange_reply(server->serving.exchanges, exchange->id, &reply);
}

static void refuse_path(struct server *server, struct exchange *exchange, const char *allow) {
    struct api_error error = {0};
    if (allow[0] != 0) {
        error.code = "method_not_allowed";
        error.status = error_set(&error.error, STATUS_UNSUPPORTED, "%s is not allowed here; use %s",
                                 exchange->method, allow);
        error_with(server, exchange, &error, (struct header[]){{"Allow", allow}, {0}});
    } else {
        char near[256];
        bool has_near = api_near(exchange->path, near);
        error.status = error_set(&error.error, STATUS_NOT_FOUND, "There is nothing at %s%s%s%s",
                                 exchange->path, has_near ? "; did you mean " : "",
                                 has_near ? near : "", has_near ? "?" : "");
        routes_error(server, exchange, &error);
    }
}

void routes_head(void *user, struct exchange *exchange) {
    struct server *server = user;
    struct api_error error = {0};
    char allow[64];
    const char *rest;
    if (guard_host(&server->guard, exchange, &error) != STATUS_OK) {
        meter_http(server->serving.meter, "none", 403);
        routes_error(server, exchange, &error);
        return;
    }
    if (strcmp(exchange->method, "OPTIONS") == 0) {
        answer_options(server, exchange);
        return;
    }
    const struct dialect *dialect = api_find(exchange->method, exchange->path, &rest, allow);
    if (!dialect) {
        meter_http(server->serving.meter, "none", allow[0] ? 405 : 404);
        refuse_path(server, exchange, allow);
    } else if (guard_request(&server->guard, exchange, dialect, &error) != STATUS_OK) {
        meter_http(server->serving.meter, dialect->name, (unsigned)errors_http(&error));
        routes_error(server, exchange, &error);
    } else if (strcmp(dialect->method, "GET") == 0) {
        exchange->body_max = GET_BODY_MAX;
    } else if (dialect->body_max > 0 && dialect->body_max < exchange->body_max) {
        exchange->body_max = dialect->body_max;
    }
    if (dialect && !error.status)
        exchange->body_piece = dialect->piece;
}

/* The quota of the request's key, which takes it; NULL: there are no keys. */
static enum status take_quota(struct server *server, const struct exchange *exchange,
                              struct quota **quota, struct api_error *error) {
    const char *key = guard_key(exchange);
    *quota = server->keys && key ? api_keys_quota(server->keys, key) : NULL;
    if (!*quota || quota_take(*quota, clock_now_ns(), &error->retry_ms) == STATUS_OK)
        return STATUS_OK;
    error->code = "rate_limit_exceeded";
    return error->status = error_set(&error->error, STATUS_BUSY,
                                     "This key has as many requests as it may have; try again in "
                                     "%u ms",
                                     error->retry_ms);
}

void routes_exchange(void *user, struct exchange *exchange) {
    struct server *server = user;
    char allow[64];
    const char *rest = "";
    const struct dialect *dialect = api_find(exchange->method, exchange->path, &rest, allow);
    ASSERT(dialect); /* the gate has found it */
    struct quota *quota;
    struct api_error error = {0};
    if (dialect->answer) {
        dialect->answer(server, exchange, rest);
    } else if (take_quota(server, exchange, &quota, &error) != STATUS_OK) {
        meter_http(server->serving.meter, dialect->name, (unsigned)errors_http(&error));
        routes_error(server, exchange, &error);
    } else {
        calls_begin(&server->serving, exchange, dialect, routes_origin(server, exchange), quota);
    }
}
