/* vllm.grpc.engine.VllmEngine: what gateways ask about the engine beside Generate, and Abort. */
#include "base/clock.h"
#include "router/api/grpc.h"
#include "router/call/calls.h"
#include "router/call/serving.h"
#include "router/core/router.h"
#include "router/serve/grpc_question.h"
#include "router/serve/server.h"

#include <string.h>
#include <time.h>
#include <vllm_engine.pb-c.h>

GRPC_ANSWER(answer_health, vllm__grpc__engine__health_check_request__descriptor) {
    Vllm__Grpc__Engine__HealthCheckResponse answer =
        VLLM__GRPC__ENGINE__HEALTH_CHECK_RESPONSE__INIT;
    answer.healthy = serving_ready(&server->serving);
    answer.message = grpc_text(answer.healthy             ? "ok"
                               : server->serving.draining ? "draining"
                                                          : "no worker");
    grpc_answer(server, request, &answer.base);
}

GRPC_ANSWER(answer_model, vllm__grpc__engine__get_model_info_request__descriptor) {
    Vllm__Grpc__Engine__GetModelInfoResponse answer =
        VLLM__GRPC__ENGINE__GET_MODEL_INFO_RESPONSE__INIT;
    answer.model_path = answer.served_model_name = grpc_text(server->serving.model);
    answer.is_generation = true;
    answer.max_context_length = serving_context(&server->serving);
    answer.max_req_input_len = (int32_t)answer.max_context_length;
    answer.vocab_size = server->serving.limits.n_tokens;
    grpc_answer(server, request, &answer.base);
}

GRPC_ANSWER(answer_server, vllm__grpc__engine__get_server_info_request__descriptor) {
    Vllm__Grpc__Engine__GetServerInfoResponse answer =
        VLLM__GRPC__ENGINE__GET_SERVER_INFO_RESPONSE__INIT;
    answer.active_requests = calls_count(server->serving.calls);
    answer.is_paused = server->serving.draining;
    answer.uptime_seconds = (double)(clock_now_ns() - server->started_ns) / NS_PER_S;
    answer.server_type = grpc_text("tandem");
    answer.data_parallel_size = 1;
    grpc_answer(server, request, &answer.base);
}

/* What all workers hold, as they said last. */
static void grpc_vllm_add_workers(const struct router *core,
                                  Vllm__Grpc__Engine__SchedulerLoad *load) {
    uint64_t used = 0, total = 0;
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(core, &slot, &view); slot++) {
        if (view.state != SLOT_READY)
            continue;
        used += view.load.blocks_used + view.load.blocks_reserved;
        total += view.load.blocks_total;
        load->gen_throughput += (double)view.load.tokens_per_s;
    }
    load->token_usage = total > 0 ? (double)used / (double)total : 0;
}

GRPC_ANSWER(answer_loads, vllm__grpc__engine__get_loads_request__descriptor) {
    Vllm__Grpc__Engine__GetLoadsResponse answer = VLLM__GRPC__ENGINE__GET_LOADS_RESPONSE__INIT;
    Vllm__Grpc__Engine__SchedulerLoad load = VLLM__GRPC__ENGINE__SCHEDULER_LOAD__INIT,
                                      *loads[] = {&load};
    struct router_stats stats;
    char now[32];
    time_t unix_s = (time_t)clock_unix_s();
    struct tm utc;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&unix_s, &utc));
    router_stats(server->serving.core, &stats);
    load.num_running_reqs = (int32_t)stats.n_running;
    load.num_waiting_reqs = (int32_t)stats.n_queued;
    load.num_total_reqs = load.num_running_reqs + load.num_waiting_reqs;
    grpc_vllm_add_workers(server->serving.core, &load);
    answer.timestamp = grpc_text(now);
    answer.version = grpc_text(TANDEM_VERSION);
    answer.dp_rank_count = 1;
    answer.n_loads = 1;
    answer.loads = loads;
    grpc_answer(server, request, &answer.base);
}

/* Gateways name what they abort: whoever knows a call's id and has a key may end it. */
GRPC_ANSWER(answer_abort, vllm__grpc__engine__abort_request__descriptor) {
    const Vllm__Grpc__Engine__AbortRequest *abort = (const void *)question;
    Vllm__Grpc__Engine__AbortResponse answer = VLLM__GRPC__ENGINE__ABORT_RESPONSE__INIT;
    for (size_t i = 0; i < abort->n_request_ids; i++)
        calls_abort(server->serving.calls, &dialect_vllm_generate,
                    grpc_span(abort->request_ids[i]));
    grpc_answer(server, request, &answer.base);
}

#define VLLM_CALL(call, does)                                                                      \
    DIALECT_ANSWER("vllm_engine", "POST", "/vllm.grpc.engine.VllmEngine/" call, grpc_form, does,   \
                   .body_max = GRPC_QUESTION_BYTES)

const struct dialect dialect_vllm_health = VLLM_CALL("HealthCheck", answer_health);
const struct dialect dialect_vllm_model = VLLM_CALL("GetModelInfo", answer_model);
const struct dialect dialect_vllm_server = VLLM_CALL("GetServerInfo", answer_server);
const struct dialect dialect_vllm_loads = VLLM_CALL("GetLoads", answer_loads);
const struct dialect dialect_vllm_abort = VLLM_CALL("Abort", answer_abort);
