#include "router/call/meter.h"

#include "base/allocator.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/log/log_writer.h"
#include "base/metrics.h"
#include "base/process.h"
#include "router/api/json_tree.h"
#include "router/core/router.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX MESSAGE_PEERS_MAX

/* Bucket bounds of vLLM's own histograms (vllm/v1/metrics/loggers.py), in seconds. */
static const double long_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                     30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double token_bounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                      .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double ttft_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                     1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double count_bounds[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                      500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
static const double choice_bounds[] = {1, 2, 5, 10, 20};
static const double stage_bounds[] = {.00001, .0001, .001, .005, .01, .05, .1,
                                      .5,     1,     5,    10,   60,  300};
#define BOUNDS(list) .bounds = (list), .n_bounds = sizeof(list) / sizeof(list)[0]

/* What the rows below show. */
struct meter_figures {
    struct meter_now now;
    struct router_stats core;
    struct load workers; /* its totals, summed over all workers there ever were */
    uint32_t workers_ready;
    uint32_t workers_aside;
    uint32_t workers_cut_off;
    double kv_usage;
    double turn_wall_s, turn_cpu_s;
    double queue_age_s;
    double formats_s;
    uint64_t tree_bytes, log_lost;
    uint64_t n_prompt_tokens, n_completion_tokens, n_cached_tokens; /* of ended calls */
    uint64_t n_ended[METER_OUTCOMES];
    uint64_t n_outside; /* zero: there is no cache outside the workers */
};
#define AT(member) METRIC_AT(struct meter_figures, member)

#define LABEL(name, value) .labels = &(const struct metric_label){name, value}, .n_labels = 1

#define ENDED(reason, outcome)                                                                     \
    {                                                                                              \
        "vllm:request_success_total", "Calls that ended, by their first choice's end.",            \
            METRIC_COUNTER, AT(n_ended[outcome]), LABEL("finished_reason", reason)                 \
    }

/* Under vLLM's names and with its labels, so that dashboards find them. */
static const struct metric_row vllm_rows[] = {
    {"vllm:num_requests_running", "Sequences with a worker.", METRIC_GAUGE, AT(core.n_running)},
    {"vllm:num_requests_waiting", "Sequences that wait for a worker.", METRIC_GAUGE,
     AT(core.n_queued)},
    {"vllm:kv_cache_usage_perc", "KV blocks in use, 0 to 1, all workers.", METRIC_GAUGE,
     AT(kv_usage)},
    {"vllm:prompt_tokens_total", "Prompt tokens of ended calls.", METRIC_COUNTER,
     AT(n_prompt_tokens)},
    {"vllm:generation_tokens_total", "Generated tokens of ended calls.", METRIC_COUNTER,
     AT(n_completion_tokens)},
    {"vllm:prompt_tokens_cached_total", "Prompt tokens found in a prefix cache.", METRIC_COUNTER,
     AT(n_cached_tokens)},
    ENDED("stop", METER_STOP),
    ENDED("length", METER_LENGTH),
    ENDED("abort", METER_ABORT),
    ENDED("error", METER_ERROR),
    {"vllm:num_preemptions_total", "Sequences put back by workers for lack of room.",
     METRIC_COUNTER, AT(workers.n_preemptions)},
    {"vllm:prefix_cache_queries_total", "Tokens looked up in prefix caches.", METRIC_COUNTER,
     AT(workers.prefix_queries)},
    {"vllm:prefix_cache_hits_total", "Tokens found in prefix caches.", METRIC_COUNTER,
     AT(workers.prefix_hits)},
    {"vllm:external_prefix_cache_queries_total", "Tokens looked up in outside caches.",
     METRIC_COUNTER, AT(n_outside)},
    {"vllm:external_prefix_cache_hits_total", "Tokens found in outside caches.", METRIC_COUNTER,
     AT(n_outside)},
};

#define SPANS(result, member)                                                                      \
    {                                                                                              \
        "tandem_traces_spans_total",                                                               \
            "Spans of requests: sent to the collector, dropped as too many, failed to be taken.",  \
            METRIC_COUNTER, AT(member), LABEL("result", result)                                    \
    }

#define LOOP_TURN(clock, member)                                                                   \
    {                                                                                              \
        "tandem_loop_turn_seconds", "Longest turn of an event loop in the last 10 s.",             \
            METRIC_GAUGE, AT(member),                                                              \
            .labels = (const struct metric_label[]){{"loop", "router"}, {"clock", clock}},         \
            .n_labels = 2                                                                          \
    }

static const struct metric_row own_rows[] = {
    {"tandem_router_workers_ready", "Workers that can serve.", METRIC_GAUGE, AT(workers_ready)},
    {"tandem_router_workers_aside", "Workers put aside because they keep failing, or on trial.",
     METRIC_GAUGE, AT(workers_aside)},
    {"tandem_router_workers_cut_off", "Workers whose hand-overs all fail.", METRIC_GAUGE,
     AT(workers_cut_off)},
    {"tandem_router_queue_age_seconds", "How long a sequence has waited for a worker, at most.",
     METRIC_GAUGE, AT(queue_age_s)},
    {"tandem_router_calls", "Calls in any stage.", METRIC_GAUGE, AT(now.n_calls)},
    {"tandem_http_connections", "Open client connections.", METRIC_GAUGE, AT(now.http.n_open)},
    LOOP_TURN("wall", turn_wall_s),
    LOOP_TURN("cpu", turn_cpu_s),
    {"tandem_http_body_bytes", "Bytes of bodies that are kept now.", METRIC_GAUGE,
     AT(now.body_bytes)},
    {"tandem_http_output_bytes", "Bytes of answers that clients have not taken yet.", METRIC_GAUGE,
     AT(now.output_bytes)},
    {"tandem_json_tree_bytes", "Bytes of JSON trees that live now.", METRIC_GAUGE, AT(tree_bytes)},
    {"tandem_http_crowded_total", "Requests refused because all bodies together were too large.",
     METRIC_COUNTER, AT(now.http.n_crowded)},
    {"tandem_http_unread_total",
     "Replies refused because all answers that clients have not read were too large.",
     METRIC_COUNTER, AT(now.http.n_unread)},
    {"tandem_http_connections_accepted_total", "Connections accepted.", METRIC_COUNTER,
     AT(now.http.n_accepted)},
    {"tandem_http_refused_total", "Requests refused before they were parsed.", METRIC_COUNTER,
     AT(now.http.n_refused)},
    {"tandem_http2_connections_total", "Connections that began to speak HTTP/2.", METRIC_COUNTER,
     AT(now.http.n_http2)},
    {"tandem_http2_floods_total", "HTTP/2 connections ended for too many frames without use.",
     METRIC_COUNTER, AT(now.http.n_floods)},
    {"tandem_tls_handshakes_total", "TLS handshakes of clients, by their outcome.", METRIC_COUNTER,
     AT(now.tls.n_failed), LABEL("outcome", "failed")},
    {"tandem_tls_handshakes_total", "TLS handshakes of clients, by their outcome.", METRIC_COUNTER,
     AT(now.tls.n_resumed), LABEL("outcome", "resumed")},
    {"tandem_tls_handshakes_total", "TLS handshakes of clients, by their outcome.", METRIC_COUNTER,
     AT(now.tls.n_full), LABEL("outcome", "full")},
    {"tandem_tls_certificate_not_after_seconds",
     "Unix time at which the server's certificate ends to be valid; 0 without TLS.", METRIC_GAUGE,
     AT(now.tls_ends_s)},
    {"tandem_formats_total",
     "Answer formats (schemas, expressions, grammars) of requests, by outcome.", METRIC_COUNTER,
     AT(now.formats.n_compiled), LABEL("outcome", "compiled")},
    {"tandem_formats_total",
     "Answer formats (schemas, expressions, grammars) of requests, by outcome.", METRIC_COUNTER,
     AT(now.formats.n_known), LABEL("outcome", "known")},
    {"tandem_formats_total",
     "Answer formats (schemas, expressions, grammars) of requests, by outcome.", METRIC_COUNTER,
     AT(now.formats.n_refused), LABEL("outcome", "refused")},
    {"tandem_formats_seconds_total", "Time spent compiling answer formats.", METRIC_COUNTER,
     AT(formats_s)},
    {"tandem_handshakes_failed_total", "Handshakes of workers that failed: other keys or none.",
     METRIC_COUNTER, AT(now.n_handshakes_failed)},
    SPANS("sent", now.traces.n_sent),
    SPANS("dropped", now.traces.n_dropped),
    SPANS("failed", now.traces.n_failed),
    {"tandem_log_lines_lost_total", "Log lines dropped because standard error took no more.",
     METRIC_COUNTER, AT(log_lost)},
    {"tandem_kv_transfers_total", "Sequences handed from worker to worker.", METRIC_COUNTER,
     AT(workers.n_handoffs_in)},
    {"tandem_kv_transfer_bytes_total", "KV bytes handed from worker to worker.", METRIC_COUNTER,
     AT(workers.handoff_bytes)},
    {"tandem_worker_steps_total", "Steps of all engines.", METRIC_COUNTER, AT(workers.n_steps)},
    {"tandem_router_replays_total", "Attempts started again elsewhere.", METRIC_COUNTER,
     AT(core.n_replays)},
    {"tandem_router_inexact_total", "Streams that continued on a worker with other numerics.",
     METRIC_COUNTER, AT(core.n_inexact)},
    {"tandem_router_stale_dropped_total", "Messages of attempts that were over.", METRIC_COUNTER,
     AT(core.n_stale_dropped)},
    {"tandem_router_fenced_total", "Workers fenced because they were silent.", METRIC_COUNTER,
     AT(core.n_fenced)},
    {"tandem_router_poisoned_total", "Requests refused as poisoned.", METRIC_COUNTER,
     AT(core.n_poisoned)},
    {"tandem_router_put_aside_total", "Times a worker was put aside.", METRIC_COUNTER,
     AT(core.n_put_aside)},
    {"tandem_router_pairs_failed_total", "Times two workers were not paired after a failure.",
     METRIC_COUNTER, AT(core.n_pairs_failed)},
    {"tandem_router_resends_total", "Tokens that were requested again.", METRIC_COUNTER,
     AT(core.n_resends)},
    {"tandem_router_handoffs_total", "Prompts prefilled elsewhere.", METRIC_COUNTER,
     AT(core.n_handoffs)},
    {"tandem_router_local_total", "Prompts prefilled where they decode.", METRIC_COUNTER,
     AT(core.n_local)},
};

/* What a call tells when it ends; NAN: nothing of the kind happened. */
struct observed {
    double ttft_s, per_token_s, e2e_s, queue_s, inference_s, prefill_s, decode_s;
    double n_prompt, n_generated, n_longest, n_max, n_choices;
};
#define HISTOGRAM(member, bounds)                                                                  \
    METRIC_HISTOGRAM, METRIC_AT(struct observed, member), BOUNDS(bounds)

static const struct metric_row call_rows[] = {
    {"vllm:time_to_first_token_seconds", "From a call's last byte to its first token.",
     HISTOGRAM(ttft_s, ttft_bounds)},
    {"vllm:request_time_per_output_token_seconds", "Mean time per token after the first.",
     HISTOGRAM(per_token_s, token_bounds)},
    {"vllm:e2e_request_latency_seconds", "A whole call.", HISTOGRAM(e2e_s, long_bounds)},
    {"vllm:request_queue_time_seconds", "Until a worker was chosen.",
     HISTOGRAM(queue_s, long_bounds)},
    {"vllm:request_inference_time_seconds", "From the choice of a worker to the end.",
     HISTOGRAM(inference_s, long_bounds)},
    {"vllm:request_prefill_time_seconds", "From the choice of a worker to the first token.",
     HISTOGRAM(prefill_s, long_bounds)},
    {"vllm:request_decode_time_seconds", "From the first token to the end.",
     HISTOGRAM(decode_s, long_bounds)},
    {"vllm:request_prompt_tokens", "Prompt tokens of a call.", HISTOGRAM(n_prompt, count_bounds)},
    {"vllm:request_generation_tokens", "Generated tokens of a call.",
     HISTOGRAM(n_generated, count_bounds)},
    {"vllm:request_max_num_generation_tokens", "Tokens of a call's longest choice.",
     HISTOGRAM(n_longest, count_bounds)},
    {"vllm:request_params_max_tokens", "The tokens a call asked for at most.",
     HISTOGRAM(n_max, count_bounds)},
    {"vllm:request_params_n", "The choices a call asked for.", HISTOGRAM(n_choices, choice_bounds)},
};

#define N(rows) (sizeof(rows) / sizeof(rows)[0])

struct meter {
    struct metrics *metrics;       /* borrowed */
    struct metric_label labels[2]; /* of vLLM's: model and engine */
    struct meter_figures figures;
    struct metric *vllm[N(vllm_rows)], *own[N(own_rows)], *call[N(call_rows)];
    struct metric *process[PROCESS_SERIES], *allocator[ALLOCATOR_SERIES];
    struct metric *gap;
    struct metric *stages[STAGE_COUNT];
    struct metric *workers_refused[REFUSAL_COUNT];
    struct metric *cache_info; /* its labels are the figures: made anew when they change */
    uint64_t cache_blocks;
    struct meter_seen {
        uint64_t incarnation;
        struct load load;
    } seen[WORKERS_MAX];
};

static void meter_register_labelled(struct meter *meter) {
    for (unsigned i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        struct metric_label reason = {"reason", refusal_name((enum refusal)i)};
        meter->workers_refused[i] = metrics_gauge(
            meter->metrics,
            (struct metric_spec){"tandem_router_workers_refused",
                                 "Workers that get no requests, by reason.", &reason, 1});
    }
    for (unsigned i = 0; i < STAGE_COUNT; i++) {
        struct metric_label stage = {"stage", stage_name((enum request_stage)i)};
        meter->stages[i] =
            metrics_histogram(meter->metrics,
                              (struct metric_spec){"tandem_stage_seconds",
                                                   "Time of a call in each stage.", &stage, 1},
                              stage_bounds, N(stage_bounds));
    }
    meter->gap =
        metrics_histogram(meter->metrics,
                          (struct metric_spec){"vllm:inter_token_latency_seconds",
                                               "Between a sequence's tokens.", meter->labels, 2},
                          token_bounds, N(token_bounds));
}

enum status meter_new(struct metrics *metrics, const char *model, struct meter **out) {
    struct meter *meter = calloc(1, sizeof *meter);
    if (!meter)
        return STATUS_NOMEM;
    meter->metrics = metrics;
    meter->labels[0] = (struct metric_label){"model_name", model};
    meter->labels[1] = (struct metric_label){"engine", "0"};
    metrics_add_rows(metrics, vllm_rows, N(vllm_rows), meter->labels, 2, meter->vllm);
    metrics_add_rows(metrics, call_rows, N(call_rows), meter->labels, 2, meter->call);
    metrics_add_rows(metrics, own_rows, N(own_rows), NULL, 0, meter->own);
    process_add_rows(metrics, meter->process);
    allocator_add_rows(metrics, meter->allocator);
    meter_register_labelled(meter);
    *out = meter;
    return STATUS_OK;
}

void meter_free(struct meter *meter) {
    free(meter);
}

static double meter_seconds(uint64_t ns) {
    return (double)ns / (double)NS_PER_S;
}

void meter_gap(struct meter *meter, uint64_t gap_ns, uint32_t n_tokens) {
    if (n_tokens > 0)
        metric_observe(meter->gap, meter_seconds(gap_ns));
}

void meter_http(struct meter *meter, const char *dialect, unsigned status) {
    char code[16];
    snprintf(code, sizeof code, "%u", status);
    struct metric_label labels[] = {{"dialect", dialect}, {"code", code}};
    struct metric_spec spec = {.name = "tandem_http_requests_total",
                               .help = "Requests answered.",
                               .labels = labels,
                               .n_labels = 2};
    metric_add(metrics_counter(meter->metrics, spec), 1);
}

void meter_stage(struct meter *meter, enum request_stage stage, uint64_t spent_ns) {
    metric_observe(meter->stages[stage], meter_seconds(spent_ns));
}

static struct observed meter_observe(const struct meter_call *call, uint64_t now_ns) {
    uint64_t dispatched_ns = call->tokenized_ns + call->queued_ns;
    struct observed seen = {.ttft_s = NAN,
                            .per_token_s = NAN,
                            .e2e_s = meter_seconds(now_ns - call->received_ns),
                            .queue_s = meter_seconds(call->queued_ns),
                            .inference_s = NAN,
                            .prefill_s = NAN,
                            .decode_s = NAN,
                            .n_prompt = call->n_prompt_tokens,
                            .n_generated = call->n_completion_tokens,
                            .n_longest = call->n_longest,
                            .n_max = call->has_max_new ? (double)call->max_new : NAN,
                            .n_choices = call->n_choices};
    if (call->first_token_ns == 0)
        return seen;
    seen.ttft_s = meter_seconds(call->first_token_ns - call->received_ns);
    seen.decode_s = meter_seconds(now_ns - call->first_token_ns);
    if (call->first_token_ns > dispatched_ns) {
        seen.prefill_s = meter_seconds(call->first_token_ns - dispatched_ns);
        seen.inference_s = meter_seconds(now_ns - dispatched_ns);
    }
    if (call->n_first > 1)
        seen.per_token_s = seen.decode_s / (call->n_first - 1);
    return seen;
}

void meter_call(struct meter *meter, const struct meter_call *call) {
    struct observed seen = meter_observe(call, clock_now_ns());
    metric_rows_take(call_rows, N(call_rows), meter->call, &seen);
    meter->figures.n_ended[call->outcome]++;
    meter->figures.n_prompt_tokens += call->n_prompt_tokens;
    meter->figures.n_completion_tokens += call->n_completion_tokens;
    meter->figures.n_cached_tokens += call->n_cached_tokens;
}

/* Adds what a worker's totals grew by. They only grow while its incarnation lives; a new one begins
 * at zero. */
static void meter_add_totals(struct load *sum, const struct metric_row *rows, size_t n,
                             const struct load *before, const struct load *now) {
    size_t from = offsetof(struct meter_figures, workers);
    for (size_t i = 0; i < n; i++) {
        size_t at = rows[i].at - from; /* of a row of another member: past the end */
        if (at >= sizeof *now)
            continue;
        ASSERT(rows[i].type == METRIC_UINT64);
        uint64_t old_total = *(const uint64_t *)(const void *)((const char *)before + at);
        uint64_t total = *(const uint64_t *)(const void *)((const char *)now + at);
        if (total > old_total)
            *(uint64_t *)(void *)((char *)sum + at) += total - old_total;
    }
}

static void meter_take_totals(struct meter *meter, struct meter_seen *seen,
                              const struct worker_view *view) {
    struct load *sum = &meter->figures.workers;
    if (seen->incarnation != view->welcome.incarnation)
        *seen = (struct meter_seen){.incarnation = view->welcome.incarnation};
    meter_add_totals(sum, vllm_rows, N(vllm_rows), &seen->load, &view->load);
    meter_add_totals(sum, own_rows, N(own_rows), &seen->load, &view->load);
    seen->load = view->load;
}

static void meter_refresh_cache_info(struct meter *meter, uint32_t block_tokens,
                                     uint64_t n_blocks) {
    char size[24], blocks[24];
    if (meter->cache_info && meter->cache_blocks == n_blocks)
        return;
    if (meter->cache_info)
        metrics_remove(meter->metrics, meter->cache_info);
    snprintf(size, sizeof size, "%u", block_tokens);
    snprintf(blocks, sizeof blocks, "%llu", (unsigned long long)n_blocks);
    struct metric_label labels[] = {
        meter->labels[0], meter->labels[1], {"block_size", size}, {"num_gpu_blocks", blocks}};
    meter->cache_info = metrics_gauge(
        meter->metrics, (struct metric_spec){.name = "vllm:cache_config_info",
                                             .help = "KV blocks of all workers; the value is 1.",
                                             .labels = labels,
                                             .n_labels = 4});
    metric_set(meter->cache_info, 1);
    meter->cache_blocks = n_blocks;
}

static void meter_refresh_workers(struct meter *meter, const struct router *core) {
    uint64_t used = 0, total = 0;
    unsigned refused[REFUSAL_COUNT] = {0};
    uint32_t block_tokens = 16;
    unsigned ready = 0, aside = 0, cut_off = 0;
    struct worker_view view;
    for (uint32_t slot = 0; router_next_worker(core, &slot, &view); slot++) {
        if (view.welcome.incarnation == 0)
            continue;
        meter_take_totals(meter, &meter->seen[slot], &view);
        if (view.state == SLOT_REFUSED)
            refused[view.refusal]++;
        if (view.state != SLOT_READY && view.state != SLOT_DRAINING)
            continue;
        ready += view.state == SLOT_READY;
        aside += view.standing == STANDING_ASIDE || view.standing == STANDING_TRIAL;
        cut_off += view.standing == STANDING_CUT_OFF;
        used += view.load.blocks_total - view.load.blocks_free - view.load.blocks_cached;
        total += view.load.blocks_total;
        block_tokens = view.welcome.kv.block_tokens;
    }
    meter_refresh_cache_info(meter, block_tokens, total);
    meter->figures.workers_ready = ready;
    meter->figures.workers_aside = aside;
    meter->figures.workers_cut_off = cut_off;
    for (unsigned i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++)
        metric_set(meter->workers_refused[i], refused[i]);
    meter->figures.kv_usage = total > 0 ? (double)used / (double)total : 0;
}

void meter_refresh(struct meter *meter, const struct meter_now *now) {
    struct meter_figures *figures = &meter->figures;
    figures->now = *now;
    router_stats(now->core, &figures->core);
    meter_refresh_workers(meter, now->core);
    uint64_t since_ns = router_waits_since_ns(now->core), now_ns = clock_now_ns();
    figures->queue_age_s = since_ns > 0 && now_ns > since_ns ? meter_seconds(now_ns - since_ns) : 0;
    figures->turn_wall_s = meter_seconds(now->turn.wall_ns);
    figures->turn_cpu_s = meter_seconds(now->turn.cpu_ns);
    figures->formats_s = meter_seconds(now->formats.ns);
    figures->tree_bytes = json_trees_bytes();
    figures->log_lost = log_writer_lost();
    metric_rows_take(vllm_rows, N(vllm_rows), meter->vllm, figures);
    metric_rows_take(own_rows, N(own_rows), meter->own, figures);
    process_show(meter->process);
    allocator_show(meter->allocator);
}
