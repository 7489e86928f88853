#include "router/serve/routes.h"

#include "base/assert.h"
#include "base/http/exchange.h"
#include "router/call/calls.h"
#include "router/call/meter.h"
#include "router/call/serving.h"
#include "router/serve/api.h"
#include "router/serve/cors.h"
#include "router/serve/endpoint.h"
#include "router/serve/quotas.h"
#include "router/serve/server.h"

#include <stdio.h>
#include <string.h>

#define GET_BODY_MAX 4096u /* nothing reads it */

/* The configured origin that this request names, or NULL: no other page may read our answers. Admin
 * routes are not for pages. */
static const char *routes_origin_of(const struct server *server, const struct exchange *exchange) {
    if (strncmp(exchange->path, "/admin/", strlen("/admin/")) == 0)
        return NULL;
    return guard_origin(&server->guard, exchange);
}

/* OPTIONS: what the path takes; a browser's preflight is answered for our own origins alone. */
static void routes_answer_options(struct server *server, const struct endpoint_request *request,
                                  const char *allow) {
    if (allow[0] == 0)
        allow = "GET, HEAD, POST, OPTIONS"; /* "*" and unknown paths */
    const char *origin = request->origin;
    const char *asked = exchange_header(request->exchange, "access-control-request-headers");
    char allowed[CORS_HEADERS_MAX + 1];
    struct header headers[] = {
        {"Allow", allow},
        {"Access-Control-Allow-Origin", origin ? origin : ""},
        {"Access-Control-Allow-Methods", allow},
        {"Access-Control-Allow-Headers", cors_headers(asked, allowed)},
        {"Access-Control-Max-Age", "600"},
        {"Vary", "Origin, Access-Control-Request-Headers"},
    };
    struct exchange_reply reply = {.status = 204,
                                   .headers = headers,
                                   .n_headers = origin ? sizeof headers / sizeof *headers : 1};
    exchange_reply(server->serving.exchanges, request->exchange->id, &reply);
}

static void routes_refuse_path(struct server *server, const struct endpoint_request *request,
                               const char *allow) {
    const struct exchange *exchange = request->exchange;
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
    meter_http(server->serving.meter, "none", (unsigned)errors_http(&error));
    endpoint_error(server, request, &error);
}

/* Refuses a request whose dialect is known, and counts it there. */
static void routes_refuse(struct server *server, const struct endpoint_request *request,
                          const struct api_error *error) {
    meter_http(server->serving.meter, request->dialect->name, (unsigned)errors_http(error));
    endpoint_error(server, request, error);
}

/* What the exchange may send, and as what it counts. */
static void routes_let_in(struct exchange *exchange, const struct dialect *dialect) {
    size_t body_max = strcmp(dialect->method, "GET") == 0 ? GET_BODY_MAX : dialect->body_max;
    if (body_max > 0 && body_max < exchange->body_max)
        exchange->body_max = body_max;
    exchange->body_piece = dialect->piece;
    exchange->is_probe = dialect->is_probe;
    exchange->user = (void *)(uintptr_t)dialect;
}

void routes_head(void *user, struct exchange *exchange) {
    struct server *server = user;
    struct api_match match;
    struct api_error error = {0};
    api_find(exchange->method, exchange->path, &match);
    const struct endpoint_request request = {
        .exchange = exchange,
        .dialect = match.dialect,
        .form = match.at_path ? match.at_path->form
                              : api_form(exchange_header(exchange, "content-type")),
        .rest = match.rest,
        .origin = routes_origin_of(server, exchange)};
    /* A proxy in front may keep strangers from /admin/ by the path as it was sent: other spellings of
     * it are not admin routes. */
    bool is_hidden = match.at_path && match.at_path->is_admin && !exchange->path_as_sent;
    if (guard_host(&server->guard, exchange, &error) != STATUS_OK) {
        meter_http(server->serving.meter, "none", (unsigned)errors_http(&error));
        endpoint_error(server, &request, &error);
    } else if (strcmp(exchange->method, "OPTIONS") == 0) {
        routes_answer_options(server, &request, match.allow);
    } else if (!match.dialect || is_hidden) {
        routes_refuse_path(server, &request, is_hidden ? "" : match.allow);
    } else if (guard_request(&server->guard, exchange, match.dialect, &error) != STATUS_OK) {
        routes_refuse(server, &request, &error);
    } else {
        routes_let_in(exchange, match.dialect);
    }
}

void routes_exchange(void *user, struct exchange *exchange) {
    struct server *server = user;
    const struct dialect *dialect = exchange->user;
    ASSERT(dialect); /* the gate has found it */
    exchange->user = NULL;
    const struct endpoint_request request = {.exchange = exchange,
                                             .dialect = dialect,
                                             .form = dialect->form,
                                             .rest = api_rest(dialect, exchange->path),
                                             .origin = routes_origin_of(server, exchange)};
    struct quota *quota;
    struct api_error error = {0};
    if (dialect->answer)
        dialect->answer(server, &request);
    else if (quotas_take(server, exchange, &quota, &error) != STATUS_OK)
        routes_refuse(server, &request, &error);
    else
        calls_begin(&server->serving, exchange, dialect, request.origin, quota);
}
