#include "router/serve/grpc_question.h"

#include "base/http/exchange.h"
#include "router/api/grpc.h"
#include "router/serve/routes.h"

void grpc_question(struct server *server, struct exchange *exchange,
                   const ProtobufCMessageDescriptor *type,
                   void (*answer)(struct server *server, struct exchange *exchange,
                                  const ProtobufCMessage *question)) {
    const struct span body = {exchange->body, exchange->n_body};
    struct api_error error = {0};
    ProtobufCMessage *message = NULL;
    struct arena arena;
    arena_init(&arena, GRPC_QUESTION_BYTES * 16);
    error.status = grpc_unpack(&body, exchange_header(exchange, "grpc-encoding"), type, &arena,
                               &message, &error);
    if (error.status == STATUS_OK)
        answer(server, exchange, message);
    else
        routes_error(server, exchange, &error);
    arena_fini(&arena);
}

void grpc_answer(struct server *server, struct exchange *exchange,
                 const ProtobufCMessage *message) {
    struct buf body;
    buf_init(&body, 0);
    grpc_put(message, &body);
    routes_reply(server, exchange, 200, NULL, &body);
}
