#include "router/call/meter.h"

#include "base/clock.h"
#include "base/log_writer.h"
#include "base/metrics.h"
#include "router/api/json_tree.h"
#include "router/core/router.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS_MAX MESSAGE_PEERS_MAX

/* Bucket bounds of vLLM's own histograms (vllm/v1/metrics/loggers.py), in seconds. */
static const double long_s[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double token_s[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                 .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double ttft_s[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double tokens_n[] = {1,   2,    5,    10,   20,    50,    100,   200,
                                  500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
static const double choices_n[] = {1, 2, 5, 10, 20};
#define BOUNDS(list) list, sizeof(list) / sizeof(list)[0]

/* A counter that is a sum over workers, of which each tells its own total. */
enum total {
    TOTAL_PREEMPTIONS,
    TOTAL_PREFIX_QUERIES,
    TOTAL_PREFIX_HITS,
    TOTAL_HANDOFF_BYTES,
    TOTAL_HANDOFFS,
    TOTAL_STEPS,
    TOTALS
};

/* A total of the core. */
enum core_total {
    CORE_REPLAYS,
    CORE_INEXACT,
    CORE_STALE,
    CORE_FENCED,
    CORE_POISONED,
    CORE_RESENDS,
    CORE_HANDOFFS,
    CORE_LOCAL,
    CORE_TOTALS
};

struct meter {
    struct metrics *metrics; /* borrowed */
    const char *model;       /* borrowed */
    struct metric *running, *waiting, *kv_usage;
    struct metric *prompt_tokens, *generation_tokens, *cached_tokens;
    struct metric *success_stop, *success_length, *success_abort, *success_error;
    struct metric *ttft, *gap, *per_token, *e2e, *queue, *inference, *prefill, *decode;
    struct metric *n_prompt, *n_generated, *n_max, *n_choices;
    struct metric *totals[TOTALS];
    struct metric *core[CORE_TOTALS];
    uint64_t core_seen[CORE_TOTALS];
    struct metric *workers_ready, *calls, *connections;
    struct metric *turn_wall, *turn_cpu, *body_bytes, *tree_bytes, *http_crowded;
    struct metric *workers_refused[REFUSAL_COUNT];
    struct metric *cache_info; /* its labels are the figures: made anew when they change */
    uint64_t cache_blocks;
    struct metric *http_accepted, *http_refused, *handshakes_failed, *log_lost;
    uint64_t http_seen[3], handshakes_seen, log_seen;
    struct seen {
        uint64_t incarnation;
        uint64_t totals[TOTALS];
    } seen[WORKERS_MAX];
};

static struct metric_spec named(const struct meter *meter, const char *name, const char *help,
                                struct metric_label labels[3]) {
    labels[0] = (struct metric_label){"model_name", meter->model};
    labels[1] = (struct metric_label){"engine", "0"};
    return (struct metric_spec){.name = name, .help = help, .labels = labels, .n_labels = 2};
}

static struct metric *gauge(struct meter *meter, const char *name, const char *help) {
    struct metric_label labels[3];
    return metrics_gauge(meter->metrics, named(meter, name, help, labels));
}

static struct metric *counter(struct meter *meter, const char *name, const char *help) {
    struct metric_label labels[3];
    return metrics_counter(meter->metrics, named(meter, name, help, labels));
}

static struct metric *success(struct meter *meter, const char *reason) {
    struct metric_label labels[3];
    struct metric_spec spec = named(meter, "vllm:request_success_total",
                                    "Calls that ended, by their first choice's end.", labels);
    labels[2] = (struct metric_label){"finished_reason", reason};
    spec.n_labels = 3;
    return metrics_counter(meter->metrics, spec);
}

static struct metric *histogram(struct meter *meter, const char *name, const char *help,
                                const double *bounds, unsigned n) {
    struct metric_label labels[3];
    return metrics_histogram(meter->metrics, named(meter, name, help, labels), bounds, n);
}

static struct metric *own_gauge(struct meter *meter, const char *name, const char *help) {
    return metrics_gauge(meter->metrics, (struct metric_spec){.name = name, .help = help});
}

static struct metric *own_counter(struct meter *meter, const char *name, const char *help) {
    return metrics_counter(meter->metrics, (struct metric_spec){.name = name, .help = help});
}

static void register_vllm(struct meter *m) {
    m->running = gauge(m, "vllm:num_requests_running", "Sequences with a worker.");
    m->waiting = gauge(m, "vllm:num_requests_waiting", "Sequences that wait for a worker.");
    m->kv_usage = gauge(m, "vllm:kv_cache_usage_perc", "KV blocks in use, 0 to 1, all workers.");
    m->prompt_tokens = counter(m, "vllm:prompt_tokens_total", "Prompt tokens of ended calls.");
    m->generation_tokens =
        counter(m, "vllm:generation_tokens_total", "Generated tokens of ended calls.");
    m->cached_tokens =
        counter(m, "vllm:prompt_tokens_cached_total", "Prompt tokens found in a prefix cache.");
    m->success_stop = success(m, "stop");
    m->success_length = success(m, "length");
    m->success_abort = success(m, "abort");
    m->success_error = success(m, "error");
    m->totals[TOTAL_PREEMPTIONS] =
        counter(m, "vllm:num_preemptions_total", "Sequences put back by workers for lack of room.");
    m->totals[TOTAL_PREFIX_QUERIES] =
        counter(m, "vllm:prefix_cache_queries_total", "Tokens looked up in prefix caches.");
    m->totals[TOTAL_PREFIX_HITS] =
        counter(m, "vllm:prefix_cache_hits_total", "Tokens found in prefix caches.");
    /* No cache outside the workers: zero, so that dashboards find them. */
    counter(m, "vllm:external_prefix_cache_queries_total", "Tokens looked up in outside caches.");
    counter(m, "vllm:external_prefix_cache_hits_total", "Tokens found in outside caches.");
    m->ttft = histogram(m, "vllm:time_to_first_token_seconds",
                        "From a call's last byte to its first token.", BOUNDS(ttft_s));
    m->gap = histogram(m, "vllm:inter_token_latency_seconds", "Between a sequence's tokens.",
                       BOUNDS(token_s));
    m->per_token = histogram(m, "vllm:request_time_per_output_token_seconds",
                             "Mean time per token after the first.", BOUNDS(token_s));
    m->e2e = histogram(m, "vllm:e2e_request_latency_seconds", "A whole call.", BOUNDS(long_s));
    m->queue = histogram(m, "vllm:request_queue_time_seconds", "Until a worker was chosen.",
                         BOUNDS(long_s));
    m->inference = histogram(m, "vllm:request_inference_time_seconds",
                             "From the choice of a worker to the end.", BOUNDS(long_s));
    m->prefill = histogram(m, "vllm:request_prefill_time_seconds",
                           "From the choice of a worker to the first token.", BOUNDS(long_s));
    m->decode = histogram(m, "vllm:request_decode_time_seconds", "From the first token to the end.",
                          BOUNDS(long_s));
    m->n_prompt =
        histogram(m, "vllm:request_prompt_tokens", "Prompt tokens of a call.", BOUNDS(tokens_n));
    m->n_generated = histogram(m, "vllm:request_generation_tokens", "Generated tokens of a call.",
                               BOUNDS(tokens_n));
    m->n_max = histogram(m, "vllm:request_params_max_tokens",
                         "The tokens a call asked for at most.", BOUNDS(tokens_n));
    m->n_choices =
        histogram(m, "vllm:request_params_n", "The choices a call asked for.", BOUNDS(choices_n));
}

static struct metric *loop_gauge(struct meter *meter, const char *clock) {
    const struct metric_label labels[] = {{"loop", "router"}, {"clock", clock}};
    struct metric_spec spec = {.name = "tandem_loop_turn_seconds",
                               .help = "Longest turn of an event loop in the last 10 s.",
                               .labels = labels,
                               .n_labels = 2};
    return metrics_gauge(meter->metrics, spec);
}

static void register_own(struct meter *m) {
    m->workers_ready = own_gauge(m, "tandem_router_workers_ready", "Workers that can serve.");
    for (unsigned i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++) {
        struct metric_label reason = {"reason", refusal_name((enum refusal)i)};
        m->workers_refused[i] = metrics_gauge(
            m->metrics, (struct metric_spec){.name = "tandem_router_workers_refused",
                                             .help = "Workers that get nothing, and why.",
                                             .labels = &reason,
                                             .n_labels = 1});
    }
    m->calls = own_gauge(m, "tandem_router_calls", "Calls in any stage.");
    m->connections = own_gauge(m, "tandem_http_connections", "Open client connections.");
    m->turn_wall = loop_gauge(m, "wall");
    m->turn_cpu = loop_gauge(m, "cpu");
    m->body_bytes = own_gauge(m, "tandem_http_body_bytes", "Bytes of bodies that are kept now.");
    m->tree_bytes = own_gauge(m, "tandem_json_tree_bytes", "Bytes of JSON trees that live now.");
    m->http_crowded = own_counter(m, "tandem_http_crowded_total",
                                  "Requests refused because all bodies together were too large.");
    m->http_accepted =
        own_counter(m, "tandem_http_connections_accepted_total", "Connections accepted.");
    m->http_refused =
        own_counter(m, "tandem_http_refused_total", "Requests refused before they were parsed.");
    m->handshakes_failed = own_counter(m, "tandem_handshakes_failed_total",
                                       "Workers' greetings with other keys or none.");
    m->log_lost = own_counter(m, "tandem_log_lines_lost_total", "Log lines nobody took.");
    m->totals[TOTAL_HANDOFFS] =
        own_counter(m, "tandem_kv_transfers_total", "Sequences handed from worker to worker.");
    m->totals[TOTAL_HANDOFF_BYTES] =
        own_counter(m, "tandem_kv_transfer_bytes_total", "KV bytes handed from worker to worker.");
    m->totals[TOTAL_STEPS] = own_counter(m, "tandem_worker_steps_total", "Steps of all engines.");
    static const char *const core[CORE_TOTALS][2] = {
        [CORE_REPLAYS] = {"tandem_router_replays_total", "Attempts started again elsewhere."},
        [CORE_INEXACT] = {"tandem_router_inexact_total",
                          "Streams that went on where numbers may differ."},
        [CORE_STALE] = {"tandem_router_stale_dropped_total",
                        "Messages of attempts that were over."},
        [CORE_FENCED] = {"tandem_router_fenced_total", "Workers fenced for silence."},
        [CORE_POISONED] = {"tandem_router_poisoned_total", "Requests refused as poisoned."},
        [CORE_RESENDS] = {"tandem_router_resends_total", "Tokens asked for again."},
        [CORE_HANDOFFS] = {"tandem_router_handoffs_total", "Prompts prefilled elsewhere."},
        [CORE_LOCAL] = {"tandem_router_local_total", "Prompts prefilled where they decode."},
    };
    for (unsigned i = 0; i < CORE_TOTALS; i++)
        m->core[i] = own_counter(m, core[i][0], core[i][1]);
}

enum status meter_new(struct metrics *metrics, const char *model, struct meter **out) {
    struct meter *meter = calloc(1, sizeof *meter);
    if (!meter)
        return STATUS_NOMEM;
    meter->metrics = metrics;
    meter->model = model;
    register_vllm(meter);
    register_own(meter);
    *out = meter;
    return STATUS_OK;
}

void meter_free(struct meter *meter) {
    free(meter);
}

static double seconds(uint64_t ns) {
    return (double)ns / (double)NS_PER_S;
}

void meter_gap(struct meter *meter, uint64_t gap_ns, uint32_t n_tokens) {
    if (n_tokens > 0)
        metric_observe(meter->gap, seconds(gap_ns));
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

static void count_outcome(struct meter *meter, enum meter_outcome outcome) {
    struct metric *const counters[METER_OUTCOMES] = {
        [METER_STOP] = meter->success_stop,
        [METER_LENGTH] = meter->success_length,
        [METER_ABORT] = meter->success_abort,
        [METER_ERROR] = meter->success_error,
    };
    metric_add(counters[outcome], 1);
}

static void observe_times(struct meter *meter, const struct meter_call *call, uint64_t now_ns) {
    uint64_t total_ns = now_ns - call->received_ns;
    uint64_t dispatched_ns = call->tokenized_ns + call->queued_ns;
    metric_observe(meter->e2e, seconds(total_ns));
    metric_observe(meter->queue, seconds(call->queued_ns));
    if (call->first_token_ns == 0)
        return;
    uint64_t decode_ns = now_ns - call->first_token_ns;
    metric_observe(meter->ttft, seconds(call->first_token_ns - call->received_ns));
    metric_observe(meter->decode, seconds(decode_ns));
    if (call->first_token_ns > dispatched_ns) {
        metric_observe(meter->prefill, seconds(call->first_token_ns - dispatched_ns));
        metric_observe(meter->inference, seconds(now_ns - dispatched_ns));
    }
    if (call->n_first > 1)
        metric_observe(meter->per_token, seconds(decode_ns) / (call->n_first - 1));
}

void meter_call(struct meter *meter, const struct meter_call *call) {
    count_outcome(meter, call->outcome);
    metric_add(meter->prompt_tokens, call->n_prompt_tokens);
    metric_add(meter->generation_tokens, call->n_completion_tokens);
    metric_add(meter->cached_tokens, call->n_cached_tokens);
    observe_times(meter, call, clock_now_ns());
    metric_observe(meter->n_prompt, call->n_prompt_tokens);
    metric_observe(meter->n_generated, call->n_completion_tokens);
    metric_observe(meter->n_choices, call->n_choices);
    if (call->has_max_new)
        metric_observe(meter->n_max, call->max_new);
}

/* A worker's totals only grow while its incarnation lives; a new one begins at zero. */
static void take_totals(struct meter *meter, struct seen *seen, const struct worker_view *view) {
    const struct load *load = &view->load;
    uint64_t now[TOTALS] = {
        [TOTAL_PREEMPTIONS] = load->n_preemptions, [TOTAL_PREFIX_QUERIES] = load->prefix_queries,
        [TOTAL_PREFIX_HITS] = load->prefix_hits,   [TOTAL_HANDOFF_BYTES] = load->handoff_bytes,
        [TOTAL_HANDOFFS] = load->n_handoffs_in,    [TOTAL_STEPS] = load->n_steps,
    };
    if (seen->incarnation != view->welcome.incarnation)
        *seen = (struct seen){.incarnation = view->welcome.incarnation};
    for (unsigned i = 0; i < TOTALS; i++) {
        if (now[i] > seen->totals[i])
            metric_add(meter->totals[i], now[i] - seen->totals[i]);
        seen->totals[i] = now[i];
    }
}

static void refresh_cache_info(struct meter *meter, uint32_t block_tokens, uint64_t n_blocks) {
    char size[24], blocks[24];
    if (meter->cache_info && meter->cache_blocks == n_blocks)
        return;
    if (meter->cache_info)
        metrics_remove(meter->metrics, meter->cache_info);
    snprintf(size, sizeof size, "%u", block_tokens);
    snprintf(blocks, sizeof blocks, "%llu", (unsigned long long)n_blocks);
    struct metric_label labels[] = {{"model_name", meter->model},
                                    {"engine", "0"},
                                    {"block_size", size},
                                    {"num_gpu_blocks", blocks}};
    meter->cache_info = metrics_gauge(
        meter->metrics, (struct metric_spec){.name = "vllm:cache_config_info",
                                             .help = "KV blocks of all workers; the value is 1.",
                                             .labels = labels,
                                             .n_labels = 4});
    metric_set(meter->cache_info, 1);
    meter->cache_blocks = n_blocks;
}

static void refresh_workers(struct meter *meter, const struct router *core) {
    uint64_t used = 0, total = 0;
    unsigned refused[REFUSAL_COUNT] = {0};
    uint32_t block_tokens = 16;
    unsigned ready = 0;
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        struct worker_view view;
        if (router_worker(core, slot, &view) != STATUS_OK || view.welcome.incarnation == 0)
            continue;
        take_totals(meter, &meter->seen[slot], &view);
        if (view.state == SLOT_REFUSED)
            refused[view.refusal]++;
        if (view.state != SLOT_READY && view.state != SLOT_DRAINING)
            continue;
        ready += view.state == SLOT_READY;
        used += view.load.blocks_total - view.load.blocks_free - view.load.blocks_cached;
        total += view.load.blocks_total;
        block_tokens = view.welcome.kv.block_tokens;
    }
    refresh_cache_info(meter, block_tokens, total);
    metric_set(meter->workers_ready, ready);
    for (unsigned i = REFUSAL_NONE + 1; i < REFUSAL_COUNT; i++)
        metric_set(meter->workers_refused[i], refused[i]);
    metric_set(meter->kv_usage, total > 0 ? (double)used / (double)total : 0);
}

static void raise_to(struct metric *metric, uint64_t *seen, uint64_t now) {
    if (now > *seen)
        metric_add(metric, now - *seen);
    *seen = now;
}

void meter_refresh(struct meter *meter, const struct meter_now *now) {
    struct router_stats stats;
    router_stats(now->core, &stats);
    metric_set(meter->running, stats.n_running);
    metric_set(meter->waiting, stats.n_queued);
    metric_set(meter->calls, now->n_calls);
    refresh_workers(meter, now->core);
    uint64_t totals[CORE_TOTALS] = {
        [CORE_REPLAYS] = stats.n_replays,     [CORE_INEXACT] = stats.n_inexact,
        [CORE_STALE] = stats.n_stale_dropped, [CORE_FENCED] = stats.n_fenced,
        [CORE_POISONED] = stats.n_poisoned,   [CORE_RESENDS] = stats.n_resends,
        [CORE_HANDOFFS] = stats.n_handoffs,   [CORE_LOCAL] = stats.n_local,
    };
    for (unsigned i = 0; i < CORE_TOTALS; i++)
        raise_to(meter->core[i], &meter->core_seen[i], totals[i]);
    const struct listener_counts *http = &now->http;
    metric_set(meter->connections, (double)http->n_open);
    raise_to(meter->http_accepted, &meter->http_seen[0], http->n_accepted);
    raise_to(meter->http_refused, &meter->http_seen[1], http->n_refused);
    raise_to(meter->handshakes_failed, &meter->handshakes_seen, now->n_handshakes_failed);
    raise_to(meter->log_lost, &meter->log_seen, log_writer_lost());
    raise_to(meter->http_crowded, &meter->http_seen[2], http->n_crowded);
    metric_set(meter->turn_wall, seconds(now->turn.wall_ns));
    metric_set(meter->turn_cpu, seconds(now->turn.cpu_ns));
    metric_set(meter->body_bytes, (double)now->body_bytes);
    metric_set(meter->tree_bytes, (double)json_trees_bytes());
}
