/* tools/cli/top/top_view.h: what `tandem top` knows of a server, gathered from its answers.
 *
 * Pure: bytes and the time come in, figures and rates come out. A worker that is in an answer no
 * more stays for TOP_GONE_NS as "gone", so that its end is seen. One thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_WORKERS_MAX 128 /* 64 that a router knows, and as many that are gone */
#define TOP_EVENTS_MAX  32
#define TOP_HISTORY     120 /* rates kept for the curve */
#define TOP_SAMPLES     32  /* of a histogram, in TOP_WINDOW_NS */
#define TOP_BOUNDS_MAX  32
#define TOP_WINDOW_NS   (60 * 1000000000ull)
#define TOP_GONE_NS     (60 * 1000000000ull)

struct top_worker {
    char name[64], role[16], state[16]; /* as /admin/status has them; a state of ours: "gone" */
    char incarnation[24];
    char host[64]; /* where its process is, */
    uint64_t pid;
    char note[96]; /* why it is not served, or what is unusual; "": nothing */
    uint64_t n_running, n_waiting;
    uint64_t blocks_total, blocks_used; /* reserved ones are used */
    double tokens_per_s;                /* generated, as the worker says */
    double prompt_per_s;                /* prompt tokens computed, between the last two answers */
    uint64_t n_prompt_tokens;
    uint64_t gone_ns; /* when it was missed first; 0: it is there */
};

struct top_router {
    char name[64], model[128];
    uint64_t uptime_s;
    bool is_draining;
    uint64_t n_queued, n_running, n_completed, n_failed, n_cancelled, n_refused;
    uint64_t n_replays, n_handoffs, n_tokens;
};

struct top_event {
    uint64_t at_ns;
    char text[160];
    bool is_bad;
};

/* A histogram's buckets: count[i] observations were at most bound[i], the last without a bound. */
struct top_buckets {
    unsigned n;
    double bound_s[TOP_BOUNDS_MAX];
    uint64_t count[TOP_BOUNDS_MAX];
};

struct top_latency {
    struct top_buckets samples[TOP_SAMPLES]; /* a ring: the last stands before `next` */
    uint64_t at_ns[TOP_SAMPLES];
    unsigned n, next;
};

struct top_view {
    char server[256];
    uint64_t now_ns;      /* of the last call */
    uint64_t answered_ns; /* of the last status; 0: there was none */
    uint64_t lost_ns;     /* since when there is no answer; 0: there is */
    char trouble[200];    /* why; "" while there is */
    struct top_router router;
    double requests_per_s, tokens_per_s; /* between the last two answers */
    struct top_worker workers[TOP_WORKERS_MAX];
    unsigned n_workers;
    struct top_event events[TOP_EVENTS_MAX]; /* the newest first */
    unsigned n_events;
    double history[TOP_HISTORY]; /* tokens_per_s, the newest last */
    unsigned n_history;
    struct top_latency ttft, itl;
};

void top_view_init(struct top_view *view, const char *server);

/* Takes the body of /admin/status. STATUS_INVALID with a reason when it is none; nothing changes
 * then. */
NODISCARD enum status top_view_status(struct top_view *view, const char *json, size_t n,
                                      uint64_t now_ns, struct error *error);

/* Takes the body of /metrics: the histograms of TTFT and ITL. What it lacks is not shown. */
void top_view_metrics(struct top_view *view, const char *text, size_t n, uint64_t now_ns);

/* There was no answer, for this reason. What was known stays. */
void top_view_lost(struct top_view *view, const char *reason, uint64_t now_ns);

/* The time below which `share` (0 to 1) of the observations of the last minute lie, by linear
 * interpolation in their bucket, as Prometheus' histogram_quantile(); past the last bound: that
 * bound. Negative when there were none. */
double top_latency_s(const struct top_latency *latency, double share);
