/* /v1/models: the one model that is served. Answers while the cluster loads, too. */
#include "base/http/exchange.h"
#include "router/api/json_put.h"
#include "router/api/openai.h"
#include "router/call/serving.h"
#include "router/serve/routes.h"
#include "router/serve/server.h"

#include <string.h>

static void put_model(const struct server *server, struct buf *out) {
    buf_putc(out, '{');
    json_put_member(out, "id", server->serving.model);
    json_put_member(out, "object", "model");
    json_put_number(out, "created", (uint64_t)server->created_s);
    json_put_member(out, "owned_by", "tandem");
    json_put_member(out, "root", server->serving.model);
    json_put_number(out, "max_model_len", serving_context(&server->serving));
    buf_puts(out, "\"parent\":null,\"permission\":[]}");
}

static void answer_list(struct server *server, struct exchange *exchange, const char *rest) {
    struct buf body;
    (void)rest;
    buf_init(&body, 0);
    buf_puts(&body, "{\"object\":\"list\",\"data\":[");
    put_model(server, &body);
    buf_puts(&body, "]}");
    routes_reply(server, exchange, 200, "application/json", &body);
}

static void answer_one(struct server *server, struct exchange *exchange, const char *rest) {
    if (strcmp(rest, server->serving.model) != 0) {
        struct api_error error = {.code = "model_not_found"};
        error.status = error_field(&error.error, STATUS_NOT_FOUND, "model",
                                   "The model `%.256s` does not exist", rest);
        routes_error(server, exchange, &error);
        return;
    }
    struct buf body;
    buf_init(&body, 0);
    put_model(server, &body);
    routes_reply(server, exchange, 200, "application/json", &body);
}

const struct dialect dialect_models =
    DIALECT_ANSWER("models", "GET", "/v1/models", openai_form, answer_list);
const struct dialect dialect_model =
    DIALECT_ANSWER("model", "GET", "/v1/models/", openai_form, answer_one);
