/* What gRPC's clients ask about the server itself: models, the cluster's state, health. */
#include "base/http/exchange.h"
#include "base/http/grpc.h"
#include "router/api/grpc.h"
#include "router/call/calls.h"
#include "router/call/serving.h"
#include "router/serve/api.h"
#include "router/serve/routes.h"
#include "router/serve/server.h"

#include <grpc/health/v1/health.pb-c.h>
#include <string.h>
#include <tandem_inference.pb-c.h>

#define QUESTION_BYTES 65536u

/* The question, unpacked into the arena; NULL: it was refused. */
static ProtobufCMessage *read_question(struct server *server, struct exchange *exchange,
                                       const ProtobufCMessageDescriptor *type,
                                       struct arena *arena) {
    const struct span body = {exchange->body, exchange->n_body};
    struct api_error error = {0};
    ProtobufCMessage *message = NULL;
    arena_init(arena, QUESTION_BYTES * 16);
    error.status = grpc_unpack(&body, exchange_header(exchange, "grpc-encoding"), type, arena,
                               &message, &error);
    if (error.status == STATUS_OK)
        return message;
    routes_error(server, exchange, &error);
    return NULL;
}

static void reply_with(struct server *server, struct exchange *exchange,
                       const ProtobufCMessage *message) {
    struct buf body;
    buf_init(&body, 0);
    grpc_put(message, &body);
    routes_reply(server, exchange, 200, grpc_form.content_type, &body);
    buf_fini(&body);
}

static ProtobufCBinaryData text_of(const char *text) {
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void answer_models(struct server *server, struct exchange *exchange, const char *rest) {
    struct arena arena;
    (void)rest;
    if (read_question(server, exchange, &tandem__v1__list_models_request__descriptor, &arena)) {
        Tandem__V1__ListModelsResponse answer = TANDEM__V1__LIST_MODELS_RESPONSE__INIT;
        Tandem__V1__Model model = TANDEM__V1__MODEL__INIT, *models[] = {&model};
        model.id = text_of(server->serving.model);
        model.created = server->created_s;
        model.max_model_len = serving_context(&server->serving);
        answer.n_models = 1;
        answer.models = models;
        reply_with(server, exchange, &answer.base);
    }
    arena_fini(&arena);
}

static void answer_status(struct server *server, struct exchange *exchange, const char *rest) {
    struct arena arena;
    (void)rest;
    if (read_question(server, exchange, &tandem__v1__get_cluster_status_request__descriptor,
                      &arena)) {
        Tandem__V1__GetClusterStatusResponse answer = TANDEM__V1__GET_CLUSTER_STATUS_RESPONSE__INIT;
        answer.ready = serving_ready(&server->serving);
        answer.draining = server->serving.draining;
        answer.n_workers = serving_n_workers(&server->serving);
        answer.n_calls = calls_count(server->serving.calls);
        answer.version = text_of(TANDEM_VERSION);
        reply_with(server, exchange, &answer.base);
    }
    arena_fini(&arena);
}

/* "" and "readiness" are ready when a request would be served, as each service is; "liveness" while
 * there is an answer at all. False: nobody has the service. */
static bool find_health(const struct server *server, ProtobufCBinaryData service, bool *serves) {
    static const char *const names[] = {"", "readiness", "tandem.v1.Inference"};
    const struct span name = {service.len > 0 ? (const char *)service.data : "", service.len};
    *serves = true;
    if (span_is(name, "liveness"))
        return true;
    *serves = serving_ready(&server->serving);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_is(name, names[i]))
            return true;
    return false;
}

static void answer_health(struct server *server, struct exchange *exchange, const char *rest) {
    struct arena arena;
    bool serves;
    (void)rest;
    ProtobufCMessage *message = read_question(
        server, exchange, &grpc__health__v1__health_check_request__descriptor, &arena);
    Grpc__Health__V1__HealthCheckResponse answer = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    const Grpc__Health__V1__HealthCheckRequest *question = (void *)message;
    if (message && find_health(server, question->service, &serves)) {
        answer.status = serves
                            ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                            : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
        reply_with(server, exchange, &answer.base);
    } else if (message) {
        struct api_error error = {.code = "service_not_found"};
        error.status = error_set(&error.error, STATUS_NOT_FOUND, "service: there is no such one");
        routes_error(server, exchange, &error);
    }
    arena_fini(&arena);
}

const struct dialect dialect_grpc_models = {
    .name = "grpc_models",
    .method = "POST",
    .path = "/tandem.v1.Inference/ListModels",
    .form = &grpc_form,
    .body_max = QUESTION_BYTES,
    .answer = answer_models,
};

const struct dialect dialect_grpc_status = {
    .name = "grpc_status",
    .method = "POST",
    .path = "/tandem.v1.Inference/GetClusterStatus",
    .form = &grpc_form,
    .body_max = QUESTION_BYTES,
    .answer = answer_status,
};

const struct dialect dialect_grpc_health = {
    .name = "grpc_health",
    .method = "POST",
    .path = "/grpc.health.v1.Health/Check",
    .form = &grpc_form,
    .is_open = true,
    .body_max = QUESTION_BYTES,
    .answer = answer_health,
};
