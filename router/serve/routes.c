#include "router/serve/routes.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/http/exchange.h"
#include "router/call/calls.h"
#include "router/call/client.h"
#include "router/call/meter.h"
#include "router/call/serving.h"
#include "router/serve/api.h"
#include "router/serve/quotas.h"
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

/* Who is answered at once, in the form of the dialect whose path it is, whatever the method. */
static struct client client_of(const struct server *server, const struct exchange *exchange) {
    const struct dialect *dialect = api_at(exchange->path);
    const char *type = exchange_header(exchange, "content-type");
    return (struct client){.exchanges = server->serving.exchanges,
                           .form = dialect ? dialect->form : api_form(type),
                           .exchange = exchange->id,
                           .origin = routes_origin(server, exchange)};
}

void routes_reply(struct server *server, struct exchange *exchange, unsigned status,
                  const char *content_type, struct buf *body) {
    struct client client = client_of(server, exchange);
    struct api_error error = {.status = buf_status(body)};
    if (error.status == STATUS_OK) {
        client_reply(&client, status, content_type ? content_type : client.form->content_type,
                     body);
    } else {
        error.status = error_set(&error.error, STATUS_NOMEM, "No memory for the reply");
        client_refuse(&client, &server->serving, &error);
    }
    buf_fini(body);
}

void routes_text(struct server *server, struct exchange *exchange, unsigned status,
                 const char *text) {
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, text);
    routes_reply(server, exchange, status, NULL, &body);
}

void routes_error(struct server *server, struct exchange *exchange, const struct api_error *error) {
    struct client client = client_of(server, exchange);
    client_refuse(&client, &server->serving, error);
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
        error.allow = allow;
    } else {
        char near[256];
        bool has_near = api_near(exchange->path, near);
        error.status = error_set(&error.error, STATUS_NOT_FOUND, "There is nothing at %s%s%s%s",
                                 exchange->path, has_near ? "; did you mean " : "",
                                 has_near ? near : "", has_near ? "?" : "");
    }
    routes_error(server, exchange, &error);
}

/* A proxy in front may keep strangers from /admin/ by the path as it was sent: other spellings of it
 * are no admin routes. */
static bool is_hidden_admin(const struct exchange *exchange) {
    const struct dialect *dialect = exchange->path_as_sent ? NULL : api_at(exchange->path);
    return dialect && dialect->is_admin;
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
    if (is_hidden_admin(exchange)) {
        dialect = NULL;
        allow[0] = 0;
    }
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
    if (dialect && !error.status) {
        exchange->body_piece = dialect->piece;
        exchange->is_probe = dialect->is_probe;
    }
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
    } else if (quotas_take(server, exchange, &quota, &error) != STATUS_OK) {
        meter_http(server->serving.meter, dialect->name, (unsigned)errors_http(&error));
        routes_error(server, exchange, &error);
    } else {
        calls_begin(&server->serving, exchange, dialect, routes_origin(server, exchange), quota);
    }
}
