/* router/core/request.h: the sequences a router holds, in a fixed pool.
 *
 * A request is named outside by request_id.lo = generation and index, so a name that is over finds
 * nothing. Inside, pointers live only during one event. Only requests_init() allocates. */
#pragma once

#include "base/list.h"
#include "base/status.h"
#include "router/core/router.h"
#include "router/core/slot.h"

#include <stdbool.h>
#include <stdint.h>

enum request_state {
    REQUEST_FREE,
    REQUEST_WAITING,   /* in the queue: no worker has it */
    REQUEST_RESERVING, /* a decode worker was asked for blocks */
    REQUEST_RUNNING,   /* submitted */
    REQUEST_ENDING,    /* its outcome is decided */
};

/* One worker's part in the current attempt. */
struct part {
    struct list link;   /* in the slot's list */
    uint32_t slot;      /* SLOT_NONE: no part */
    bool reflected;     /* the worker's own load figures count it */
    bool listed;        /* was in the digest that is being read */
    uint8_t n_missing;  /* digests in a row that should list it and do not */
    uint8_t last_state; /* enum sequence_state of the last digest, or 255 */
    uint64_t sent_seq;  /* of the message that told the worker */
    uint64_t sent_ns;
    uint64_t work_seen;     /* the worker's prefill or hand-off counter at the last digest */
    uint64_t queued_own_ns; /* when it was first listed as queued since its last token;
                             * UINT64_MAX: not yet */
    uint64_t silent_ns;     /* slot.silent_own_ns when the attempt advanced last */
    uint32_t n_tokens;      /* to be computed by a prefill there */
    uint32_t epoch;         /* of the worker's trust when it began */
    uint32_t n_given;       /* tokens that came from it while on trial */
};

struct request {
    struct list link; /* the free list, the queue, or those whose end is due */
    uint32_t index;
    uint64_t generation; /* rises with each use; 40 bits */
    enum request_state state;
    enum request_stage stage;
    struct request_spec spec;
    struct request_id id;

    uint64_t arrival; /* order among equal priorities */
    uint32_t tenant;  /* its index among those of turns.h */
    struct list turn; /* among those of its tenant that wait */
    uint64_t admitted_ns;
    uint64_t dispatched_ns; /* first time; 0: never */
    uint64_t submitted_ns;  /* the same */
    uint64_t first_token_ns;
    uint32_t n_emitted;
    uint32_t first_cached_tokens;

    const char *waits;   /* why it has no worker: a constant; NULL: it was not asked for one */
    const char *choice;  /* why it got the next ones: a constant */
    uint32_t to_prefill; /* place.c's choice for dispatch.c: slots; SLOT_NONE: no hand-off */
    uint32_t to_decode;

    /* the current attempt; 0: none yet */
    uint32_t attempt;
    struct part prefill; /* of a hand-off, until the decode worker speaks */
    struct part decode;  /* of a hand-off, or the one worker that does both */
    uint32_t prefilled_by;
    uint32_t gen;
    uint32_t cached_tokens;
    uint64_t transfer_id;
    bool handoff;
    bool was_refused;         /* no blocks were free for its last hand-over */
    bool has_token;           /* this attempt brought a new token */
    bool computing;           /* its next token needs a prefill first */
    uint64_t advanced_own_ns; /* last sign of life of this attempt, in the router's own time */
    uint64_t hold_ns;         /* not placed again before this */
    uint64_t unfit_ns;   /* since then all ready workers are too small for it; 0: one was not */
    uint64_t verdict_ns; /* prefill worker lost after token 0: decode must speak by then; 0 */
    uint64_t resend_ns;  /* last RESEND; 0: none */
    bool outgrown;       /* a worker's context ended it once: it may end so */

    uint32_t n_losses; /* in a row without a new token */
    uint32_t n_replays;
    bool alone;           /* must run alone until its next token */
    bool has_numerics;    /* tokens were emitted under `numerics` */
    bool counted_inexact; /* of the current attempt */
    uint8_t numerics[FINGERPRINT_BYTES];
    uint64_t *too_long; /* owned by the pool: bit per slot that said so */
    uint64_t *failed;   /* the same: bit per slot that failed it */

    struct trust *blamed; /* who failed it last without a token since; NULL */
    enum reason verdict;  /* of that one: what it says of the request itself; REASON_NONE */

    struct request_end outcome;
};

struct requests {
    struct request *all; /* owned (capacity) */
    uint64_t *bits;      /* owned (2 * capacity * n_words) */
    uint32_t capacity;
    uint32_t n_used;
    uint32_t n_fresh; /* were used before: an idle router does not touch the others' memory */
    uint32_t n_words; /* of `too_long` */
    struct list free;
};

NODISCARD enum status requests_init(struct requests *requests, uint32_t capacity, uint32_t n_slots);
void requests_fini(struct requests *requests);

/* NULL when all are in use. */
struct request *request_take(struct requests *requests, uint64_t router_id);
void request_give(struct requests *requests, struct request *req);

/* By request_id.lo; NULL when it is over or never was. */
struct request *request_find(const struct requests *requests, uint64_t lo);

/* The part that `slot` has in the current attempt, or NULL. */
struct part *request_part(struct request *req, uint32_t slot);

/* The slot gets another worker. */
void request_forget_slot(struct request *req, uint32_t slot);

/* The order of requests that wait, of one tenant and in the queue: by priority, then arrival. */
static inline bool request_before(const struct request *a, const struct request *b) {
    if (a->spec.priority != b->spec.priority)
        return a->spec.priority < b->spec.priority;
    return a->arrival < b->arrival;
}

static inline uint32_t request_n_tokens(const struct request *req) {
    return req->spec.n_prompt + req->n_emitted;
}

static inline bool request_failed_at(const struct request *req, uint32_t slot) {
    return req->failed[slot / 64] >> (slot % 64) & 1;
}

static inline void request_set_failed(struct request *req, uint32_t slot) {
    req->failed[slot / 64] |= 1ull << (slot % 64);
}

static inline bool request_too_long(const struct request *req, uint32_t slot) {
    return req->too_long[slot / 64] >> (slot % 64) & 1;
}
