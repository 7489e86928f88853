#include "worker/admin.h"

#include "base/allocator.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/http/exchange.h"
#include "base/http/listener.h"
#include "base/metrics.h"
#include "base/net/loop.h"
#include "base/process.h"
#include "base/span.h"
#include "worker/step/figures.h"
#include "worker/step/step.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 32   /* connections at once */
#define HEAD_MAX  8192 /* bytes of a request's head */
#define BODY_MAX  4096 /* nothing reads it */
#define CALL_NS   (10 * NS_PER_S)
#define ALIVE_NS  (10 * NS_PER_S) /* an engine that says nothing for this long hangs */
#define REPLY_MAX (1u << 20)

/* Figures that are exported. */
#define AT(member) METRIC_AT(struct figures, member)
#define NOT_AHEAD(reason, repeat)                                                                  \
    {                                                                                              \
        "tandem_worker_steps_not_ahead_total",                                                     \
            "steps whose results the next one waited for, by reason", METRIC_COUNTER,              \
            AT(repeats.n[repeat]), .labels = (const struct metric_label[]){{"reason", reason}},    \
                                   .n_labels = 1                                                   \
    }
static const struct metric_row rows[] = {
    {"tandem_worker_chunk_tokens", "tokens of a step that fit its time, as measured so far",
     METRIC_GAUGE, AT(chunk_tokens)},
    {"tandem_worker_blocks", "KV blocks of the pool", METRIC_GAUGE, AT(load.blocks_total)},
    {"tandem_worker_blocks_free", "free KV blocks", METRIC_GAUGE, AT(load.blocks_free)},
    {"tandem_worker_blocks_used", "KV blocks of running sequences", METRIC_GAUGE,
     AT(load.blocks_used)},
    {"tandem_worker_blocks_reserved", "KV blocks waiting for a hand-off", METRIC_GAUGE,
     AT(load.blocks_reserved)},
    {"tandem_worker_blocks_quarantined",
     "KV blocks given up while this worker still copies into them", METRIC_GAUGE,
     AT(load.blocks_quarantined)},
    {"tandem_worker_blocks_cached", "KV blocks of cached prefixes that no sequence uses",
     METRIC_GAUGE, AT(load.blocks_cached)},
    {"tandem_worker_sequences_running", "sequences that compute", METRIC_GAUGE, AT(load.n_running)},
    {"tandem_worker_sequences_waiting", "sequences that wait", METRIC_GAUGE, AT(load.n_waiting)},
    {"tandem_worker_prefill_tokens_queued", "prompt tokens not computed yet", METRIC_GAUGE,
     AT(load.prefill_tokens_queued)},
    {"tandem_worker_tokens_per_second", "tokens of the last second", METRIC_GAUGE,
     AT(load.tokens_per_s)},
    {"tandem_worker_turns_total", "turns of the engine loop, and steps and layers that ended",
     METRIC_COUNTER, AT(load.progress)},
    {"tandem_worker_steps_total", "steps computed", METRIC_COUNTER, AT(load.n_steps)},
    {"tandem_worker_tokens_total", "tokens generated", METRIC_COUNTER, AT(load.n_tokens)},
    {"tandem_worker_prompt_tokens_total", "prompt tokens computed", METRIC_COUNTER,
     AT(load.n_prompt_tokens)},
    {"tandem_worker_prefix_queries_total", "prompt tokens looked up in the prefix cache",
     METRIC_COUNTER, AT(load.prefix_queries)},
    {"tandem_worker_prefix_hits_total", "prompt tokens found in the prefix cache", METRIC_COUNTER,
     AT(load.prefix_hits)},
    {"tandem_worker_preemptions_total", "sequences put back for lack of blocks", METRIC_COUNTER,
     AT(load.n_preemptions)},
    {"tandem_worker_handoffs_in_total", "hand-offs taken", METRIC_COUNTER, AT(load.n_handoffs_in)},
    {"tandem_worker_handoffs_out_total", "hand-offs given", METRIC_COUNTER,
     AT(load.n_handoffs_out)},
    {"tandem_worker_handoff_bytes_total", "bytes of KV handed over", METRIC_COUNTER,
     AT(load.handoff_bytes)},
    {"tandem_worker_stale_dropped_total",
     "messages dropped because their session or attempt had ended", METRIC_COUNTER,
     AT(load.n_stale_dropped)},
    {"tandem_worker_steps_ahead_total", "steps that began before the one before was read",
     METRIC_COUNTER, AT(repeats.n[REPEAT_GRANTED])},
    NOT_AHEAD("prompt", REPEAT_PROMPT),
    NOT_AHEAD("left", REPEAT_LEFT),
    NOT_AHEAD("full", REPEAT_FULL),
    NOT_AHEAD("history", REPEAT_HISTORY),
    NOT_AHEAD("others", REPEAT_OTHERS),
    NOT_AHEAD("waiting", REPEAT_WAITING),
    NOT_AHEAD("blocks", REPEAT_BLOCKS),
    {"tandem_worker_tokens_dropped_total", "tokens computed after the end of their answer",
     METRIC_COUNTER, AT(repeats.n_dropped)},
};

/* The longest turns of this thread's loop, in seconds. */
struct admin_turns {
    double wall_s, cpu_s;
};
#define LOOP_TURN(clock, member)                                                                   \
    {                                                                                              \
        "tandem_loop_turn_seconds", "Longest turn of an event loop in the last 10 s.",             \
            METRIC_GAUGE, METRIC_AT(struct admin_turns, member),                                   \
            .labels = (const struct metric_label[]){{"loop", "admin"}, {"clock", clock}},          \
            .n_labels = 2                                                                          \
    }
static const struct metric_row turn_rows[] = {LOOP_TURN("wall", wall_s), LOOP_TURN("cpu", cpu_s)};

#define N(rows) (sizeof(rows) / sizeof(rows)[0])

/* Seconds: from what a turn costs without a model to far beyond the step that is aimed at. */
static const double stage_bounds[] = {0.00001, 0.0001, 0.001, 0.003, 0.01, 0.03,
                                      0.06,    0.12,   0.25,  0.5,   1};

/* As vLLM's own (vllm/v1/metrics/loggers.py). */
static const double token_bounds[] = {1,   8,    16,   32,   64,   128,  256,
                                      512, 1024, 2048, 4096, 8192, 16384};

struct admin {
    struct loop *loop; /* owned, and everything on it: the admin thread's once it runs */
    struct listener *listener;
    struct metrics *metrics; /* owned */
    struct metric *series[N(rows)], *turns[N(turn_rows)], *allocator[ALLOCATOR_SERIES];
    struct metric *process[PROCESS_SERIES];
    struct metric *stages[STEP_STAGES], *step_tokens, *step_typical;
    struct figures_box *published; /* borrowed */
    struct figures figures;        /* the admin thread's copy */
    pthread_t thread;
    bool running;
};

/* The published figures become the series' values. */
static void worker_admin_set_series(struct admin *admin) {
    struct loop_turn_max turn = loop_turn_max(admin->loop, clock_now_ns());
    const struct admin_turns turns = {(double)turn.wall_ns / (double)NS_PER_S,
                                      (double)turn.cpu_ns / (double)NS_PER_S};
    metric_rows_take(rows, N(rows), admin->series, &admin->figures);
    metric_rows_take(turn_rows, N(turn_rows), admin->turns, &turns);
    metric_set(admin->step_typical, admin->figures.load.step_us_typical / 1e6);
    process_show(admin->process);
    allocator_show(admin->allocator);
}

static void worker_admin_reply(struct admin *admin, const struct exchange *exchange,
                               unsigned status, const char *type, struct span body) {
    const struct exchange_reply reply = {
        .status = status, .content_type = type, .body = body.bytes, .n_body = body.n};
    exchange_reply(listener_exchanges(admin->listener), exchange->id, &reply);
}

static void worker_admin_reply_text(struct admin *admin, const struct exchange *exchange,
                                    unsigned status, const char *text) {
    worker_admin_reply(admin, exchange, status, "text/plain; charset=utf-8",
                       (struct span){text, strlen(text)});
}

static void worker_admin_reply_metrics(struct admin *admin, const struct exchange *exchange) {
    struct buf out;
    buf_init(&out, REPLY_MAX);
    worker_admin_set_series(admin);
    metrics_write(admin->metrics, &out);
    if (buf_status(&out) == STATUS_OK)
        worker_admin_reply(admin, exchange, 200, METRICS_CONTENT_TYPE,
                           (struct span){out.data ? out.data : "", out.n});
    else
        worker_admin_reply_text(admin, exchange, 500, "out of memory\n");
    buf_fini(&out);
}

static bool worker_admin_asks_for(const struct exchange *exchange, const char *path) {
    return strcmp(exchange->method, "GET") == 0 && strcmp(exchange->path, path) == 0;
}

static void worker_admin_answer(void *user, struct exchange *exchange) {
    struct admin *admin = user;
    admin->figures = figures_latest(admin->published);
    bool alive = clock_now_ns() - admin->figures.at_ns < ALIVE_NS;
    bool ready = alive && !admin->figures.draining;
    const char *state = alive ? "ok\n" : "hung\n";
    if (worker_admin_asks_for(exchange, "/metrics"))
        worker_admin_reply_metrics(admin, exchange);
    else if (worker_admin_asks_for(exchange, "/livez"))
        worker_admin_reply_text(admin, exchange, alive ? 200 : 503, state);
    else if (worker_admin_asks_for(exchange, "/readyz"))
        worker_admin_reply_text(admin, exchange, ready ? 200 : 503,
                                admin->figures.draining ? "draining\n" : state);
    else
        worker_admin_reply_text(admin, exchange, 404, "there are /metrics, /livez and /readyz\n");
}

static void *worker_admin_run(void *user) {
    struct admin *admin = user;
    loop_run(admin->loop);
    return NULL;
}

static enum status worker_admin_listen_on(struct admin *admin, const char *address,
                                          struct error *error) {
    struct listener_config config = listener_config_default;
    config.limits.head_bytes = config.limits.line_bytes = HEAD_MAX;
    config.limits.body_bytes = BODY_MAX;
    config.n_connections_max = config.n_exchanges_max = CALLS_MAX;
    config.idle_ns = config.head_ns = config.body_ns = config.body_total_ns = CALL_NS;
    config.stall_ns = CALL_NS;
    config.one_request = true;
    const struct listener_calls calls = {.handler = worker_admin_answer, .user = admin};
    return listener_new(admin->loop, address, &config, &calls, &admin->listener, error);
}

/* A series that is 1, of the way that it names: what never changes, for those who look for workers that add up slowly. */
static void worker_admin_add_sums(struct admin *admin, const struct metric_label labels[2],
                                  const char *sums) {
    const struct metric_label of[] = {labels[0], labels[1], {"how", sums}};
    struct metric_spec spec = {.name = "tandem_worker_sums_info",
                               .help = "How the ranks' devices add up: device, nccl or host.",
                               .labels = of,
                               .n_labels = 3};
    if (sums[0])
        metric_set(metrics_gauge(admin->metrics, spec), 1);
}

static enum status worker_admin_open_all(struct admin *admin, const char *address, const char *name,
                                         const char *model, const char *sums, struct error *error) {
    const struct metric_label labels[] = {{"engine", name}, {"model_name", model}};
    TRY(loop_new(&admin->loop));
    TRY(worker_admin_listen_on(admin, address, error));
    TRY(metrics_new(96, &admin->metrics));
    metrics_add_rows(admin->metrics, rows, N(rows), labels, 2, admin->series);
    metrics_add_rows(admin->metrics, turn_rows, N(turn_rows), NULL, 0, admin->turns);
    process_add_rows(admin->metrics, admin->process);
    allocator_add_rows(admin->metrics, admin->allocator);
    for (unsigned i = 0; i < STEP_STAGES; i++) {
        const struct metric_label of[] = {labels[0], labels[1], {"stage", step_stage(i)}};
        struct metric_spec spec = {.name = "tandem_step_seconds",
                                   .help = "Time of each stage of the steps that computed.",
                                   .labels = of,
                                   .n_labels = 3};
        admin->stages[i] = metrics_histogram(admin->metrics, spec, stage_bounds, N(stage_bounds));
    }
    struct metric_spec typical = {.name = "tandem_worker_step_typical_seconds",
                                  .help = "median time of a step",
                                  .labels = labels,
                                  .n_labels = 2};
    admin->step_typical = metrics_gauge(admin->metrics, typical);
    worker_admin_add_sums(admin, labels, sums);
    struct metric_spec tokens = {.name = "vllm:iteration_tokens_total",
                                 .help = "Tokens that a step of the engine computed.",
                                 .labels = labels,
                                 .n_labels = 2};
    admin->step_tokens = metrics_histogram(admin->metrics, tokens, token_bounds, N(token_bounds));
    if (pthread_create(&admin->thread, NULL, worker_admin_run, admin) != 0)
        return STATUS_NOMEM;
    admin->running = true;
    return STATUS_OK;
}

enum status admin_new(const char *address, const char *name, const char *model, const char *sums,
                      struct figures_box *figures, struct admin **out, struct error *error) {
    *out = NULL;
    if (!address[0])
        return STATUS_OK;
    struct admin *admin = calloc(1, sizeof *admin);
    if (!admin)
        return error_set(error, STATUS_NOMEM, "no memory for the admin port");
    admin->published = figures;
    error->text[0] = '\0';
    enum status status = worker_admin_open_all(admin, address, name, model, sums, error);
    if (status != STATUS_OK) {
        if (!error->text[0])
            error_set(error, status, "%s", status_name(status));
        error_prefix(error, "admin");
        admin_free(admin);
        return status;
    }
    *out = admin;
    return STATUS_OK;
}

void admin_free(struct admin *admin) {
    if (!admin)
        return;
    if (admin->running) {
        loop_stop(admin->loop);
        pthread_join(admin->thread, NULL);
    }
    listener_free(admin->listener);
    metrics_free(admin->metrics);
    loop_free(admin->loop);
    free(admin);
}

struct metric *admin_stage(const struct admin *admin, unsigned stage) {
    return admin ? admin->stages[stage] : NULL;
}

struct metric *admin_step_tokens(const struct admin *admin) {
    return admin ? admin->step_tokens : NULL;
}

uint16_t admin_port(const struct admin *admin) {
    return admin ? listener_port(admin->listener) : 0;
}
