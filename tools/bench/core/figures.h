/* tools/bench/core/figures.h: what a level's records come to: rates, spreads, marks.
 *
 * Two sets. The honest one counts every request that was due in the window, takes tokens from the
 * server's usage, and has times from the moment a request was due beside those from its sending.
 * The compatible one follows the definitions of the two published formats, flaws included: see
 * figures_sweep() and figures_grid(). */
#pragma once

#include "base/clock.h"
#include "tools/bench/core/level.h"

/* A distribution in nanoseconds. */
struct spread {
    uint64_t n;
    double mean;
    uint64_t min;
    uint64_t p50;
    uint64_t p90;
    uint64_t p95;
    uint64_t p99;
    uint64_t max;
};

/* Why a row is not what it seems. mark_text() writes their letters. */
enum mark {
    MARK_SHORT = 1u << 0,      /* S: an answer had fewer tokens than asked */
    MARK_PROMPT = 1u << 1,     /* P: the server counted another prompt length than asked */
    MARK_FEW = 1u << 2,        /* N: fewer requests were sent than asked */
    MARK_FAILED = 1u << 3,     /* F: requests failed */
    MARK_OVERLOAD = 1u << 4,   /* O: fewer than 0.75 of the asked rate were completed */
    MARK_INCOMPLETE = 1u << 5, /* I: requests did not end in time */
    MARK_CACHED = 1u << 6,     /* C: more than 1 % of the prompt came from a prefix cache */
    MARK_LATE = 1u << 7,       /* L: the client was more than 10 ms behind its schedule */
    MARK_CONTEXT = 1u << 8,    /* X: an answer was cut by the context: "length" before max_tokens */
    MARK_UNCOUNTED = 1u << 9,  /* U: no usage: tokens are counted by chunks */
    MARK_KV = 1u << 10,        /* K: limited by what the server holds at a time, by its own count of
                         * preemptions or by how its queue moved (ceiling.h) */
};
#define MARK_TEXT_MAX 16
const char *mark_text(unsigned marks, char text[MARK_TEXT_MAX]); /* "SF"; "" without any */

/* A client further behind its schedule than this measures itself: MARK_LATE. */
#define FIGURES_LATE_NS (10 * NS_PER_MS)

struct slo {
    uint64_t ttft_p99_ns; /* 0: not asked for */
    uint64_t itl_p99_ns;
    uint64_t latency_p99_ns;
};

#define TIMELINE_BINS 100

struct figures {
    uint32_t n_sent; /* due in the window; the sum of the next three */
    uint32_t n_ok;
    uint32_t n_in_window; /* of these, which the rates count; the others ended in the drain */
    uint32_t n_incomplete;
    uint32_t n_failed;
    uint32_t n_faults[FAULT_N];
    double window_s;
    double requests_per_s;      /* completed in the window / window */
    double output_tokens_per_s; /* of these */
    double total_tokens_per_s;
    double steady_tokens_per_s; /* from 10 % to 90 % of the tokens; 0: too few */
    double goodput_per_s;       /* completed within the SLO, each by itself */
    struct spread ttft;         /* from sending */
    struct spread ttft_due;     /* from when it was due; unfinished ones as a lower bound */
    struct spread itl;          /* (last - first content) / (tokens - 1) of each request */
    struct spread tpot;         /* (latency - TTFT) / (tokens - 1) */
    struct spread gap;          /* between chunks, all requests together */
    struct spread latency;      /* from sending */
    struct spread latency_due;  /* from when it was due; unfinished ones as a lower bound */
    double concurrency;         /* mean number of requests in flight in the window */
    double decoding;            /* mean number between first and last content */
    double prompt_mean;
    double output_mean;
    uint32_t output_min;
    double cached_share;
    uint64_t late_max_ns; /* largest time from due to sent */
    uint64_t loop_late_max_ns;
    float timeline[TIMELINE_BINS]; /* chunks with content in each part of the level */
    double timeline_s;             /* how long that is */
    unsigned marks;
    bool slo_held; /* true without an SLO */
};

/* asked_rate: requests per second of an open level, else 0. STATUS_NOMEM. */
NODISCARD enum status figures_make(struct figures *figures, const struct level *level,
                                   double asked_rate, const struct slo *slo);

/* The six columns of a sweep as guidellm 0.1.0 works them out: successes that ended before the
 * level did, in completion order; duration from the sending of the first of them; the first chunk
 * counts even if it has no content; chunks count as tokens. */
struct figures_sweep {
    double requests_per_s;
    double latency_s;
    double ttft_ms;
    double itl_ms;
    double tokens_per_s;
};
void figures_sweep(struct figures_sweep *columns, const struct level *level);

/* The four columns of a grid's cell as ZJUICI's script works them out: whole times of `alone`
 * divided by tokens; the rates of `burst` over the time to its last answer. assumed: every answer
 * counts as max_tokens and all requests count, with or without an answer. n_asked: requests of the burst. */
struct figures_grid {
    double requests_per_s;
    double tokens_per_s;
    double ms_per_token;
    double ms_per_output_token;
};
void figures_grid(struct figures_grid *columns, const struct level *alone,
                  const struct level *burst, uint32_t n_asked, bool assumed);

/* Index of the knee: the last of `n` levels in rising order of rate whose completed rate is at
 * least 0.9 of the asked and whose p99 TTFT is at most 4 times that of the first; -1: none. */
int figures_knee(const struct figures *figures, const double *asked_rates, uint32_t n);

/* Requests per second that a sweep's rates lie between, of its first two levels: one request after the other, and all at once. A
 * burst may need longer than its level has: its drain counts where the level alone tells of no more than `alone` does. If
 * that is still no more, the rates go from 0 to that of `alone`. high: 0 where nothing was completed. */
struct figures_span {
    double low, high;
};
struct figures_span figures_span(const struct figures *alone, const struct figures *burst);
