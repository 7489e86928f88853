#include "router/serve/grpc_question.h"

#include "base/http/exchange.h"
#include "router/api/grpc.h"
#include "router/serve/endpoint.h"

void grpc_question(struct server *server, const struct endpoint_request *request,
                   const ProtobufCMessageDescriptor *type,
                   void (*answer)(struct server *server, const struct endpoint_request *request,
                                  const ProtobufCMessage *question)) {
    const struct exchange *exchange = request->exchange;
    const struct span body = {exchange->body, exchange->n_body};
    struct api_error error = {0};
    ProtobufCMessage *message = NULL;
    struct arena arena;
    arena_init(&arena, GRPC_QUESTION_BYTES * 16);
    error.status = grpc_unpack(&body, exchange_header(exchange, "grpc-encoding"), type, &arena,
                               &message, &error);
    if (error.status == STATUS_OK)
        answer(server, request, message);
    else
        endpoint_error(server, request, &error);
    arena_fini(&arena);
}

void grpc_answer(struct server *server, const struct endpoint_request *request,
                 const ProtobufCMessage *message) {
    struct buf body;
    buf_init(&body, 0);
    grpc_put(message, &body);
    endpoint_reply(server, request, 200, NULL, &body);
}
