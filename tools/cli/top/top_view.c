#include "tools/cli/top/top_view.h"

#include "base/assert.h"
#include "base/clock.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_MS 2000 /* a worker that is well is heard each second */

void top_view_init(struct top_view *view, const char *server) {
    memset(view, 0, sizeof *view);
    snprintf(view->server, sizeof view->server, "%s", server);
}

__attribute__((format(printf, 3, 4))) static void top_view_tell(struct top_view *view, bool is_bad,
                                                                const char *format, ...) {
    unsigned n = view->n_events < TOP_EVENTS_MAX - 1 ? view->n_events : TOP_EVENTS_MAX - 1;
    memmove(view->events + 1, view->events, n * sizeof *view->events);
    view->n_events = n + 1;
    struct top_event *event = &view->events[0];
    *event = (struct top_event){.at_ns = view->now_ns, .is_bad = is_bad};
    va_list args;
    va_start(args, format);
    vsnprintf(event->text, sizeof event->text, format, args);
    va_end(args);
}

/* --- /admin/status -------------------------------------------------------------------------- */

static uint64_t top_view_number(const json_t *object, const char *group, const char *key) {
    json_int_t value =
        json_integer_value(json_object_get(group ? json_object_get(object, group) : object, key));
    return value > 0 ? (uint64_t)value : 0;
}

static void top_view_copy_text(const json_t *object, const char *key, char *out, size_t size) {
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(out, size, "%s", text ? text : "");
}

#define COPY(object, key, field) top_view_copy_text(object, key, field, sizeof(field))

static void top_view_read_router(const json_t *object, struct top_router *router) {
    COPY(object, "name", router->name);
    COPY(object, "model", router->model);
    router->uptime_s = top_view_number(object, NULL, "uptime_s");
    router->is_draining = json_is_true(json_object_get(object, "draining"));
    router->n_queued = top_view_number(object, "requests", "queued");
    router->n_running = top_view_number(object, "requests", "running");
    router->n_completed = top_view_number(object, "requests", "completed");
    router->n_failed = top_view_number(object, "requests", "failed");
    router->n_cancelled = top_view_number(object, "requests", "cancelled");
    router->n_refused = top_view_number(object, "requests", "refused");
    router->n_replays = top_view_number(object, "core", "replays");
    router->n_handoffs = top_view_number(object, "core", "handoffs");
    router->n_tokens = top_view_number(object, "core", "tokens");
}

static void top_view_note_worker(const json_t *object, struct top_worker *worker) {
    uint64_t silent_ms = top_view_number(object, NULL, "heard_ms_ago");
    uint64_t quarantined = top_view_number(object, "blocks", "quarantined");
    const char *reason = json_string_value(json_object_get(object, "reason"));
    if (reason)
        snprintf(worker->note, sizeof worker->note, "%s", reason);
    else if (json_object_get(object, "percent"))
        snprintf(worker->note, sizeof worker->note, "model %llu %% loaded",
                 (unsigned long long)top_view_number(object, NULL, "percent"));
    else if (silent_ms > SILENT_MS)
        snprintf(worker->note, sizeof worker->note, "silent for %.1f s", (double)silent_ms / 1e3);
    else if (quarantined > 0)
        snprintf(worker->note, sizeof worker->note, "%llu blocks quarantined",
                 (unsigned long long)quarantined);
}

static void top_view_read_worker(const json_t *object, struct top_worker *worker) {
    *worker = (struct top_worker){
        .n_running = top_view_number(object, "sequences", "running"),
        .n_waiting = top_view_number(object, "sequences", "waiting"),
        .blocks_total = top_view_number(object, "blocks", "total"),
        .blocks_used = top_view_number(object, "blocks", "used") +
                       top_view_number(object, "blocks", "reserved"),
        .tokens_per_s = json_number_value(json_object_get(object, "tokens_per_s")),
        .n_prompt_tokens = top_view_number(object, NULL, "prompt_tokens"),
        .pid = top_view_number(object, NULL, "pid"),
    };
    COPY(object, "name", worker->name);
    COPY(object, "role", worker->role);
    COPY(object, "state", worker->state);
    COPY(object, "incarnation", worker->incarnation);
    COPY(object, "host", worker->host);
    top_view_note_worker(object, worker);
}

/* --- two answers beside each other ---------------------------------------------------------- */

static double top_view_rate(uint64_t before, uint64_t after, double seconds) {
    return seconds > 0 && after > before ? (double)(after - before) / seconds : 0;
}

static const struct top_worker *top_view_find(const struct top_worker *workers, unsigned n,
                                              const struct top_worker *like) {
    for (unsigned i = 0; i < n; i++)
        if (workers[i].gone_ns == 0 && strcmp(workers[i].name, like->name) == 0 &&
            strcmp(workers[i].incarnation, like->incarnation) == 0)
            return &workers[i];
    return NULL;
}

static bool top_view_is_well(const char *state) {
    return strcmp(state, "ready") == 0 || strcmp(state, "loading") == 0 ||
           strcmp(state, "opening") == 0;
}

static bool top_view_has_name(const struct top_worker *workers, unsigned n, const char *name) {
    for (unsigned i = 0; i < n; i++)
        if (strcmp(workers[i].name, name) == 0)
            return true;
    return false;
}

/* What is in `before` and not in the answer's n workers: it stays for a while behind them, but not
 * beside its successor of the same name. */
static unsigned top_view_keep_gone(struct top_view *view, const struct top_worker *before,
                                   unsigned n_before, unsigned n) {
    unsigned n_answer = n;
    for (unsigned i = 0; i < n_before && n < TOP_WORKERS_MAX; i++) {
        const struct top_worker *old = &before[i];
        if (old->gone_ns == 0 && top_view_find(view->workers, n_answer, old))
            continue;
        if (old->gone_ns == 0)
            top_view_tell(view, true, "worker %s is gone (%s, %llu running)", old->name, old->role,
                          (unsigned long long)old->n_running);
        if (top_view_has_name(view->workers, n_answer, old->name) ||
            (old->gone_ns != 0 && view->now_ns - old->gone_ns > TOP_GONE_NS))
            continue;
        struct top_worker *gone = &view->workers[n++];
        *gone = (struct top_worker){.gone_ns = old->gone_ns ? old->gone_ns : view->now_ns,
                                    .blocks_total = old->blocks_total};
        memcpy(gone->name, old->name, sizeof gone->name);
        memcpy(gone->role, old->role, sizeof gone->role);
        snprintf(gone->state, sizeof gone->state, "gone");
    }
    return n;
}

static void top_view_compare_workers(struct top_view *view, const struct top_worker *before,
                                     unsigned n_before, unsigned n, double seconds, bool is_first) {
    for (unsigned i = 0; i < n; i++) {
        struct top_worker *worker = &view->workers[i];
        const struct top_worker *old = top_view_find(before, n_before, worker);
        if (old) {
            worker->prompt_per_s =
                top_view_rate(old->n_prompt_tokens, worker->n_prompt_tokens, seconds);
            if (strcmp(old->state, worker->state) == 0)
                continue;
        }
        if (!is_first || !top_view_is_well(worker->state))
            top_view_tell(view, !top_view_is_well(worker->state), "worker %s is %s%s%s",
                          worker->name, worker->state, worker->note[0] ? ": " : "", worker->note);
    }
}

static void top_view_compare_totals(struct top_view *view, const struct top_router *old,
                                    double seconds) {
    const struct top_router *now = &view->router;
    view->requests_per_s =
        top_view_rate(old->n_completed + old->n_failed + old->n_cancelled,
                      now->n_completed + now->n_failed + now->n_cancelled, seconds);
    view->tokens_per_s = top_view_rate(old->n_tokens, now->n_tokens, seconds);
    if (now->n_replays > old->n_replays)
        top_view_tell(view, true, "streams that went on elsewhere (replays): %llu",
                      (unsigned long long)(now->n_replays - old->n_replays));
    if (now->n_failed > old->n_failed)
        top_view_tell(view, true, "requests that failed: %llu",
                      (unsigned long long)(now->n_failed - old->n_failed));
    unsigned n = view->n_history < TOP_HISTORY ? view->n_history : TOP_HISTORY - 1;
    memmove(view->history, view->history + view->n_history - n, n * sizeof *view->history);
    view->history[n] = view->tokens_per_s;
    view->n_history = n + 1;
}

static void top_view_take_status(struct top_view *view, const json_t *root, uint64_t now_ns) {
    static struct top_worker before[TOP_WORKERS_MAX]; /* 50 KiB: not for a stack */
    const struct top_router old = view->router;
    unsigned n_before = view->n_workers, n = 0;
    bool is_first = view->answered_ns == 0;
    double seconds = is_first ? 0 : (double)(now_ns - view->answered_ns) / (double)NS_PER_S;
    size_t i;
    json_t *row;
    memcpy(before, view->workers, sizeof before);
    view->now_ns = now_ns;
    if (view->lost_ns != 0 && !is_first)
        top_view_tell(view, false, "the server answers again");
    top_view_read_router(json_array_get(json_object_get(root, "routers"), 0), &view->router);
    json_array_foreach(json_object_get(root, "workers"), i, row) {
        if (n < TOP_WORKERS_MAX)
            top_view_read_worker(row, &view->workers[n++]);
    }
    bool is_restarted = !is_first && view->router.uptime_s < old.uptime_s;
    if (is_restarted)
        top_view_tell(view, true, "the router was restarted");
    view->n_workers = top_view_keep_gone(view, before, n_before, n);
    top_view_compare_workers(view, before, n_before, n, seconds, is_first);
    if (!is_first)
        top_view_compare_totals(view, is_restarted ? &view->router : &old, seconds);
    view->answered_ns = now_ns;
    view->lost_ns = 0;
    view->trouble[0] = '\0';
}

enum status top_view_status(struct top_view *view, const char *json, size_t n, uint64_t now_ns,
                            struct error *error) {
    json_t *root = json_loadb(json, n, 0, NULL);
    if (!json_is_array(json_object_get(root, "routers")) ||
        !json_is_array(json_object_get(root, "workers"))) {
        json_decref(root);
        return error_set(error, STATUS_INVALID,
                         "no Tandem server: its /admin/status has no "
                         "`routers` and `workers`");
    }
    top_view_take_status(view, root, now_ns);
    json_decref(root);
    return STATUS_OK;
}

void top_view_lost(struct top_view *view, const char *reason, uint64_t now_ns) {
    view->now_ns = now_ns;
    if (view->lost_ns == 0) {
        view->lost_ns = now_ns;
        if (view->answered_ns != 0)
            top_view_tell(view, true, "no answer: %s", reason);
    }
    snprintf(view->trouble, sizeof view->trouble, "%s", reason);
}

/* --- /metrics ------------------------------------------------------------------------------- */

/* Adds a line NAME_bucket{...,le="0.5"} 12; series with other labels count together. */
static void top_view_take_bucket(struct top_buckets *buckets, const char *labels) {
    const char *le = strstr(labels, "le=\"");
    const char *value = strchr(labels, '}');
    if (!le || !value || le > value)
        return;
    double bound_s = strtod(le + 4, NULL); /* "+Inf" is infinity */
    unsigned at = 0;
    while (at < buckets->n && buckets->bound_s[at] != bound_s)
        at++;
    if (at == TOP_BOUNDS_MAX)
        return;
    if (at == buckets->n) {
        buckets->n++;
        buckets->bound_s[at] = bound_s;
        buckets->count[at] = 0;
    }
    buckets->count[at] += strtoull(value + 1, NULL, 10);
}

static void top_view_read_histogram(const char *text, const char *name,
                                    struct top_buckets *buckets) {
    size_t n = strlen(name);
    buckets->n = 0;
    while (text) {
        if (strncmp(text, name, n) == 0 && strncmp(text + n, "_bucket{", 8) == 0) {
            char line[512];
            snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
            top_view_take_bucket(buckets, line + n + 8);
        }
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
}

static void top_view_add_sample(struct top_latency *latency, const struct top_buckets *buckets,
                                uint64_t now_ns) {
    if (buckets->n == 0)
        return;
    latency->samples[latency->next] = *buckets;
    latency->at_ns[latency->next] = now_ns;
    latency->next = (latency->next + 1) % TOP_SAMPLES;
    latency->n += latency->n < TOP_SAMPLES;
}

void top_view_metrics(struct top_view *view, const char *text, size_t n, uint64_t now_ns) {
    struct top_buckets buckets;
    char *copy = strndup(text, n);
    view->now_ns = now_ns;
    top_view_read_histogram(copy, "vllm:time_to_first_token_seconds", &buckets);
    top_view_add_sample(&view->ttft, &buckets, now_ns);
    top_view_read_histogram(copy, "vllm:inter_token_latency_seconds", &buckets);
    top_view_add_sample(&view->itl, &buckets, now_ns);
    free(copy);
}

/* The newest sample, less the oldest one of the window: *since is NULL where that alone is there. */
static const struct top_buckets *top_view_window_of(const struct top_latency *latency,
                                                    const struct top_buckets **since) {
    *since = NULL;
    if (latency->n == 0)
        return NULL;
    unsigned last = (latency->next + TOP_SAMPLES - 1) % TOP_SAMPLES;
    const struct top_buckets *now = &latency->samples[last];
    for (unsigned back = latency->n - 1; back > 0; back--) {
        unsigned at = (last + TOP_SAMPLES - back) % TOP_SAMPLES;
        const struct top_buckets *old = &latency->samples[at];
        if (latency->at_ns[last] - latency->at_ns[at] > TOP_WINDOW_NS || old->n != now->n ||
            old->count[old->n - 1] > now->count[now->n - 1])
            continue; /* too old, or of a router that was restarted since */
        *since = old;
        break;
    }
    return now;
}

double top_latency_s(const struct top_latency *latency, double share) {
    const struct top_buckets *since, *now = top_view_window_of(latency, &since);
    if (!now)
        return -1;
    ASSERT(now->n > 0);
    uint64_t counts[TOP_BOUNDS_MAX];
    for (unsigned i = 0; i < now->n; i++)
        counts[i] =
            now->count[i] - (since && since->count[i] <= now->count[i] ? since->count[i] : 0);
    uint64_t all = counts[now->n - 1];
    if (all == 0)
        return -1;
    double rank = share * (double)all;
    unsigned at = 0;
    while (at + 1 < now->n && (double)counts[at] < rank)
        at++;
    if (at + 1 == now->n)
        return at > 0 ? now->bound_s[at - 1] : -1;
    double low_s = at > 0 ? now->bound_s[at - 1] : 0;
    double below = at > 0 ? (double)counts[at - 1] : 0, in = (double)counts[at] - below;
    return low_s + (now->bound_s[at] - low_s) * (in > 0 ? (rank - below) / in : 1);
}
