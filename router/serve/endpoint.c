#include "router/serve/endpoint.h"

#include "base/buf.h"
#include "base/http/exchange.h"
#include "router/api/dialect.h"
#include "router/call/client.h"
#include "router/call/serving.h"
#include "router/serve/server.h"

#include <string.h>

static struct client endpoint_client_of(const struct server *server,
                                        const struct endpoint_request *request) {
    return (struct client){.exchanges = server->serving.exchanges,
                           .form = request->form,
                           .exchange = request->exchange->id,
                           .origin = request->origin};
}

void endpoint_reply(struct server *server, const struct endpoint_request *request, unsigned status,
                    const char *content_type, struct buf *body) {
    struct client client = endpoint_client_of(server, request);
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

void endpoint_text(struct server *server, const struct endpoint_request *request, unsigned status,
                   const char *text) {
    struct buf body;
    buf_init(&body, 0);
    buf_puts(&body, text);
    endpoint_reply(server, request, status, NULL, &body);
}

/* If-None-Match: "a", "b"; or *. */
static bool endpoint_is_known(const struct exchange *exchange, const char *tag) {
    const char *tags = exchange_header(exchange, "if-none-match");
    return tags && (strcmp(tags, "*") == 0 || strstr(tags, tag));
}

void endpoint_constant(struct server *server, const struct endpoint_request *request,
                       const char *tag, struct exchange_reply *reply) {
    if (endpoint_is_known(request->exchange, tag)) {
        reply->status = 304;
        reply->content_type = NULL;
        reply->n_body = 0;
    }
    exchange_reply(server->serving.exchanges, request->exchange->id, reply);
}

void endpoint_error(struct server *server, const struct endpoint_request *request,
                    const struct api_error *error) {
    struct client client = endpoint_client_of(server, request);
    client_refuse(&client, &server->serving, error);
}
