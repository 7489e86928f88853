/* tools/bench/core/level.h: one level of load: one schedule, and a record for each request of it.
 *
 * Pure: one event in (level_event), actions out (level_next, until it says to wait). A level
 * issues requests, then drains: what runs when nothing is issued any more may end for `drain_ns`,
 * the rest is cancelled and counts as incomplete. One owner thread. */
#pragma once

#include "base/histogram.h"
#include "base/status.h"
#include "tools/bench/core/schedule.h"

#define LEVEL_LABEL_MAX 64

struct level_spec {
    char label[LEVEL_LABEL_MAX]; /* "synchronous", "constant@1.27" */
    struct schedule_spec schedule;
    uint32_t n_prompt; /* tokens; a trace has its own */
    uint32_t n_output;
    uint64_t serial;     /* of the first request's prompt */
    uint64_t warmup_ns;  /* at the begin, not measured */
    uint64_t drain_ns;   /* how long requests may end after the last was issued */
    uint64_t timeout_ns; /* of a request */
    uint64_t silence_ns; /* of a request, without any byte */
};

enum level_state { LEVEL_ISSUING, LEVEL_DRAINING, LEVEL_OVER };

struct level {
    struct level_spec spec;
    struct schedule schedule;
    enum level_state state;
    uint64_t begin_ns;
    uint64_t issued_ns;     /* when issuing ended: the end of the window */
    uint64_t end_ns;        /* when the last request was over */
    struct record *records; /* owned (n_records of size) */
    uint32_t n_records;
    uint32_t size;
    uint32_t *running; /* owned (size): indices of the records that run */
    uint32_t *place;   /* owned (size): a record's place in `running` */
    uint32_t n_running;
    uint32_t n_looked; /* of `running`, in the look at deadlines that goes on */
    uint64_t look_ns;  /* when the next one begins */
    uint32_t n_ok;
    uint32_t n_failed;
    uint64_t n_texts;          /* chunks with content that came */
    uint64_t loop_late_max_ns; /* the client's own loop */
    uint64_t n_preempted;      /* requests that the server put back meanwhile, by its own count */
    struct histogram *gaps;    /* owned: between chunks of a request, all requests together */
    uint32_t *tokens_at;       /* owned (n_bins): chunks with content per millisecond */
    uint32_t n_bins;
};

/* STATUS_NOMEM. */
NODISCARD enum status level_begin(struct level *level, const struct level_spec *spec,
                                  uint64_t now_ns);
void level_fini(struct level *level);

/* STATUS_NOMEM; events of a request that is over are dropped. */
NODISCARD enum status level_event(struct level *level, const struct event *event);

enum action_kind { ACTION_SEND, ACTION_CANCEL, ACTION_WAIT, ACTION_OVER };

struct action {
    enum action_kind kind;
    uint32_t request; /* SEND, CANCEL: index of the record */
    uint64_t at_ns;   /* WAIT: a tick is wanted then at the latest */
};

/* What to do now. A SEND is followed by the request's EVENT_SENT. STATUS_NOMEM. */
NODISCARD enum status level_next(struct level *level, uint64_t now_ns, struct action *action);

/* Nothing more is issued: the user broke off. */
void level_stop(struct level *level, uint64_t now_ns);
