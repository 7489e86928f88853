#include "worker/admin.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/stream.h"
#include "base/tcp.h"
#include "worker/step/figures.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS_MAX   32   /* connections at once */
#define REQUEST_MAX 8192 /* bytes of a request's head */
#define CALL_NS     (10 * NS_PER_S)
#define ALIVE_NS    (10 * NS_PER_S) /* an engine that says nothing for this long hangs */
#define REPLY_MAX   (1u << 20)

/* Figures that are exported. */
static const struct row {
    const char *name;
    const char *help;
    size_t offset;
    bool is_wide; /* uint64_t and only rising, else uint32_t */
} rows[] = {
#define ROW32(field, name, help)                                                                   \
    { name, help, offsetof(struct figures, load.field), false }
#define ROW64(field, name, help)                                                                   \
    { name, help, offsetof(struct figures, load.field), true }
    {"tandem_worker_chunk_tokens", "tokens of a step that fit its time, as measured so far",
     offsetof(struct figures, chunk_tokens), false},
    ROW32(blocks_total, "tandem_worker_blocks_total", "KV blocks of the pool"),
    ROW32(blocks_free, "tandem_worker_blocks_free", "KV blocks that nobody holds"),
    ROW32(blocks_used, "tandem_worker_blocks_used", "KV blocks of running sequences"),
    ROW32(blocks_reserved, "tandem_worker_blocks_reserved", "KV blocks waiting for a hand-off"),
    ROW32(blocks_quarantined, "tandem_worker_blocks_quarantined", "KV blocks not yet safe"),
    ROW32(blocks_cached, "tandem_worker_blocks_cached", "KV blocks of prefixes nobody uses"),
    ROW32(n_running, "tandem_worker_sequences_running", "sequences that compute"),
    ROW32(n_waiting, "tandem_worker_sequences_waiting", "sequences that wait"),
    ROW32(prefill_tokens_queued, "tandem_worker_prefill_tokens_queued", "prompt tokens to do"),
    ROW32(tokens_per_s, "tandem_worker_tokens_per_second", "tokens of the last second"),
    ROW32(step_us_typical, "tandem_worker_step_us", "median microseconds of a step"),
    ROW64(progress, "tandem_worker_turns_total", "turns of the engine loop"),
    ROW64(n_steps, "tandem_worker_steps_total", "steps computed"),
    ROW64(n_tokens, "tandem_worker_tokens_total", "tokens generated"),
    ROW64(n_prompt_tokens, "tandem_worker_prompt_tokens_total", "prompt tokens computed"),
    ROW64(prefix_queries, "tandem_worker_prefix_queries_total", "tokens looked up in the cache"),
    ROW64(prefix_hits, "tandem_worker_prefix_hits_total", "tokens found there"),
    ROW64(n_preemptions, "tandem_worker_preemptions_total",
          "sequences put back for lack of blocks"),
    ROW64(n_handoffs_in, "tandem_worker_handoffs_in_total", "hand-offs taken"),
    ROW64(n_handoffs_out, "tandem_worker_handoffs_out_total", "hand-offs given"),
    ROW64(handoff_bytes, "tandem_worker_handoff_bytes_total", "bytes of KV handed over"),
    ROW64(n_stale_dropped, "tandem_worker_stale_dropped_total", "messages of what is over"),
};

struct call {
    struct admin *admin;   /* borrowed */
    struct stream *stream; /* owned; NULL: this entry is free */
    uint64_t until_ns;
    bool answered;
    size_t n;
    char head[REQUEST_MAX];
};

struct admin {
    struct loop *loop; /* owned, and everything on it: the admin thread's once it runs */
    struct tcp_listener *listener;
    struct loop_timer *timer;
    struct metrics *metrics;                           /* owned */
    struct metric *series[sizeof rows / sizeof *rows]; /* gauges; counters for the wide ones */
    struct metric *turns[2]; /* longest turn: by the wall's clock, by the thread's */
    struct call calls[CALLS_MAX];
    struct figures_box *published; /* borrowed */
    struct figures figures;        /* the admin thread's copy */
    pthread_t thread;
    bool running;
};

/* The published figures become the series' values. */
static void set_series(struct admin *admin) {
    const char *figures = (const char *)&admin->figures;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t wide;
        uint32_t narrow;
        if (rows[i].is_wide) {
            memcpy(&wide, figures + rows[i].offset, sizeof wide);
            metric_add(admin->series[i], wide - metric_count(admin->series[i]));
        } else {
            memcpy(&narrow, figures + rows[i].offset, sizeof narrow);
            metric_set(admin->series[i], narrow);
        }
    }
    struct loop_turn_max turn = loop_turn_max(admin->loop, clock_now_ns());
    metric_set(admin->turns[0], (double)turn.wall_ns / (double)NS_PER_S);
    metric_set(admin->turns[1], (double)turn.cpu_ns / (double)NS_PER_S);
}

static void call_free(struct call *call) {
    stream_close(call->stream);
    call->stream = NULL;
}

static void reply(struct call *call, const char *status, const char *type, const char *body,
                  size_t n) {
    char head[256];
    int n_head = snprintf(head, sizeof head,
                          "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                          "Connection: close\r\n\r\n",
                          status, type, n);
    call->answered = true;
    if (stream_write(call->stream, head, (size_t)n_head) != STATUS_OK ||
        stream_write(call->stream, body, n) != STATUS_OK) {
        call_free(call);
        return;
    }
    stream_shutdown(call->stream);
}

static void reply_text(struct call *call, const char *status, const char *body) {
    reply(call, status, "text/plain; charset=utf-8", body, strlen(body));
}

static void reply_metrics(struct call *call) {
    struct buf out;
    buf_init(&out, REPLY_MAX);
    set_series(call->admin);
    metrics_write(call->admin->metrics, &out);
    if (buf_status(&out) == STATUS_OK)
        reply(call, "200 OK", METRICS_CONTENT_TYPE, out.data ? out.data : "", out.n);
    else
        reply_text(call, "500 Internal Server Error", "out of memory\n");
    buf_fini(&out);
}

static bool asks_for(const struct call *call, const char *path) {
    size_t n = strlen(path);
    return strncmp(call->head, "GET ", 4) == 0 && strncmp(call->head + 4, path, n) == 0 &&
           (call->head[4 + n] == ' ' || call->head[4 + n] == '?');
}

static void answer(struct call *call) {
    struct admin *admin = call->admin;
    admin->figures = figures_latest(admin->published);
    bool alive = clock_now_ns() - admin->figures.at_ns < ALIVE_NS;
    if (asks_for(call, "/metrics"))
        reply_metrics(call);
    else if (asks_for(call, "/livez"))
        reply_text(call, alive ? "200 OK" : "503 Service Unavailable", alive ? "ok\n" : "hung\n");
    else if (asks_for(call, "/readyz"))
        reply_text(call, alive && !admin->figures.draining ? "200 OK" : "503 Service Unavailable",
                   admin->figures.draining ? "draining\n"
                   : alive                 ? "ok\n"
                                           : "hung\n");
    else
        reply_text(call, "404 Not Found", "there are /metrics, /livez and /readyz\n");
}

static void call_data(void *user, const char *bytes, size_t n) {
    struct call *call = user;
    if (call->answered)
        return;
    if (n >= sizeof call->head - call->n) {
        reply_text(call, "431 Request Header Fields Too Large", "too long\n");
        return;
    }
    memcpy(call->head + call->n, bytes, n);
    call->n += n;
    call->head[call->n] = '\0';
    if (strstr(call->head, "\r\n\r\n"))
        answer(call);
}

static void call_gone(void *user, enum status status) {
    struct call *call = user;
    (void)status;
    call_free(call);
}

static const struct stream_events call_events = {.data = call_data, .gone = call_gone};

static void accept_call(void *user, int fd) {
    struct admin *admin = user;
    for (int i = 0; i < CALLS_MAX; i++) {
        struct call *call = &admin->calls[i];
        if (call->stream)
            continue;
        *call = (struct call){.admin = admin, .until_ns = clock_now_ns() + CALL_NS};
        if (stream_new(admin->loop, fd, &call_events, call, &call->stream) != STATUS_OK) {
            call->stream = NULL;
            break;
        }
        return;
    }
    close(fd);
}

static void end_slow_calls(void *user) {
    struct admin *admin = user;
    uint64_t now_ns = clock_now_ns();
    for (int i = 0; i < CALLS_MAX; i++)
        if (admin->calls[i].stream && now_ns >= admin->calls[i].until_ns)
            call_free(&admin->calls[i]);
    loop_timer_after(admin->timer, NS_PER_S);
}

static void *run(void *user) {
    struct admin *admin = user;
    loop_run(admin->loop);
    return NULL;
}

static enum status open_all(struct admin *admin, const char *address, const char *name,
                            const char *model, struct error *error) {
    const struct metric_label labels[] = {{"engine", name}, {"model_name", model}};
    TRY(loop_new(&admin->loop));
    TRY(tcp_listen(admin->loop, address, accept_call, admin, &admin->listener, error));
    TRY(loop_timer_new(admin->loop, end_slow_calls, admin, &admin->timer));
    TRY(metrics_new(64, &admin->metrics));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct metric_spec spec = {
            .name = rows[i].name, .help = rows[i].help, .labels = labels, .n_labels = 2};
        admin->series[i] = rows[i].is_wide ? metrics_counter(admin->metrics, spec)
                                           : metrics_gauge(admin->metrics, spec);
    }
    static const char *const clocks[] = {"wall", "cpu"};
    for (unsigned i = 0; i < 2; i++) {
        const struct metric_label of[] = {{"loop", "admin"}, {"clock", clocks[i]}};
        struct metric_spec spec = {.name = "tandem_loop_turn_seconds",
                                   .help = "Longest turn of an event loop in the last 10 s.",
                                   .labels = of,
                                   .n_labels = 2};
        admin->turns[i] = metrics_gauge(admin->metrics, spec);
    }
    loop_timer_after(admin->timer, NS_PER_S);
    if (pthread_create(&admin->thread, NULL, run, admin) != 0)
        return STATUS_NOMEM;
    admin->running = true;
    return STATUS_OK;
}

enum status admin_new(const char *address, const char *name, const char *model,
                      struct figures_box *figures, struct admin **out, struct error *error) {
    *out = NULL;
    if (!address[0])
        return STATUS_OK;
    struct admin *admin = calloc(1, sizeof *admin);
    if (!admin)
        return error_set(error, STATUS_NOMEM, "no memory for the admin port");
    admin->published = figures;
    error->text[0] = '\0';
    enum status status = open_all(admin, address, name, model, error);
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
    for (int i = 0; i < CALLS_MAX; i++)
        call_free(&admin->calls[i]);
    tcp_listener_free(admin->listener);
    loop_timer_free(admin->timer);
    metrics_free(admin->metrics);
    loop_free(admin->loop);
    free(admin);
}

uint16_t admin_port(const struct admin *admin) {
    return admin ? tcp_listener_port(admin->listener) : 0;
}
