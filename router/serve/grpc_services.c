/* What gRPC's clients ask about the server itself: models, the cluster's state. */
#include "router/api/grpc.h"
#include "router/call/calls.h"
#include "router/call/serving.h"
#include "router/serve/grpc_question.h"
#include "router/serve/server.h"

#include <tandem_inference.pb-c.h>

GRPC_ANSWER(answer_models, tandem__v1__list_models_request__descriptor) {
    Tandem__V1__ListModelsResponse answer = TANDEM__V1__LIST_MODELS_RESPONSE__INIT;
    Tandem__V1__Model model = TANDEM__V1__MODEL__INIT, *models[] = {&model};
    model.id = grpc_text(server->serving.model);
    model.created = server->created_s;
    model.max_model_len = serving_context(&server->serving);
    answer.n_models = 1;
    answer.models = models;
    grpc_answer(server, request, &answer.base);
}

GRPC_ANSWER(answer_status, tandem__v1__get_cluster_status_request__descriptor) {
    Tandem__V1__GetClusterStatusResponse answer = TANDEM__V1__GET_CLUSTER_STATUS_RESPONSE__INIT;
    answer.ready = serving_ready(&server->serving);
    answer.draining = server->serving.draining;
    answer.n_workers = serving_n_workers(&server->serving);
    answer.n_calls = calls_count(server->serving.calls);
    answer.version = grpc_text(TANDEM_VERSION);
    grpc_answer(server, request, &answer.base);
}

const struct dialect dialect_grpc_models =
    DIALECT_ANSWER("grpc_models", "POST", "/tandem.v1.Inference/ListModels", grpc_form,
                   answer_models, .body_max = GRPC_QUESTION_BYTES);
const struct dialect dialect_grpc_status =
    DIALECT_ANSWER("grpc_status", "POST", "/tandem.v1.Inference/GetClusterStatus", grpc_form,
                   answer_status, .body_max = GRPC_QUESTION_BYTES);
