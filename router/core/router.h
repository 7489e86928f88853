/* router/core/router.h: the router's decisions, pure.
 *
 * No I/O, no clock, no randomness of its own, no threads, no allocation after init. Each call is
 * one event and makes at most a bounded number of calls on the sink, which turns them into bytes
 * and must not call back in. The same code runs in the daemon, in unit tests and in tests/sim. One
 * owner thread.
 *
 * A request here is one sequence (one choice of one client call); `user` is the shell's name for
 * it. Workers are named by slot numbers; a slot represents one (name, incarnation) and its link. */
#pragma once

#include "base/status.h"
#include "proto/message.h"
#include "router/core/stage.h"

#include <stdbool.h>
#include <stdint.h>

struct note;
struct router;

enum roles {
    ROLES_LOAD, /* they yield to it: router/core/roles.h */
    ROLES_FIXED /* they do not, while both are there */
};

struct router_config {
    uint64_t router_id; /* this router's incarnation: the high half of request ids */
    uint64_t seed;      /* of everything the core draws */
    char name[MESSAGE_NAME_MAX];
    uint32_t max_requests; /* sequences alive at once */
    uint32_t max_queue;    /* of them waiting for a worker: more are refused with STATUS_BUSY */
    uint32_t max_workers;
    uint32_t max_prompt; /* tokens; and ids of one SUBMIT */
    uint32_t n_vocab;    /* token ids are below it: others are a worker's failure */
    const char *policy;  /* of a row of policy/policy.c */
    enum roles roles;
    uint32_t local_prefill_tokens;
    uint64_t no_worker_wait_ns;          /* running requests wait this long for a worker */
    uint64_t hang_ns_min;                /* lower bound of "hung" */
    uint64_t prefix_key;                 /* seed of the cluster's prefix hashes */
    uint8_t model_fp[FINGERPRINT_BYTES]; /* the router's own: workers of another one are refused */
    uint8_t tokenizer_fp[FINGERPRINT_BYTES];
};

/* A sequence to be served. All pointers are borrowed until the sink's `end` for it. */
struct request_spec {
    uint64_t user;
    uint32_t *tokens; /* (capacity) the prompt's ids first; the core appends what is emitted */
    uint32_t n_prompt;
    uint32_t capacity;            /* n_prompt + sampling.max_new at least */
    const struct map_key *hashes; /* of the prompt's full blocks */
    uint32_t n_hashes;
    uint64_t salt;
    uint32_t priority;
    uint64_t tenant;      /* whose it is: tenants take turns (turns.h); equal at all routers */
    uint64_t deadline_ns; /* absolute; 0: none */
    bool has_trace;
    struct trace trace; /* that it belongs to: workers are told */
    struct sampling sampling;
};

/* Tokens for the client, in order, each index exactly once. */
struct token_run {
    uint32_t first_index;
    uint32_t n_tokens;
    const uint32_t *tokens;
    const struct token_logprobs *logprobs; /* (n_tokens); NULL where the spec wants none */
};

enum end_kind {
    END_DONE,      /* finish says how */
    END_CANCELLED, /* the client left or the shell stopped it */
    END_REFUSED,   /* never served: queue deadline, too long, poisoned before its first token */
    END_FAILED,    /* an error after it had begun, or attempts used up */
};

struct request_end {
    enum end_kind kind;
    enum finish finish;
    enum status
        status; /* for END_REFUSED and END_FAILED: CLOSED (no worker), TIMEOUT (deadline), LIMIT
                   (too long for every worker), IO (its workers keep dying: attempts used up or
                   poisoned), CORRUPT (unusable numbers), INVALID (a worker says so) */
    enum reason reason;
    uint32_t n_emitted;
    uint32_t cached_tokens; /* of the prompt, at the first attempt */
    uint32_t n_replays;
    enum request_stage stage;  /* where it was when its end was decided */
    uint64_t queued_ns;        /* admit to first dispatch */
    uint64_t dispatch_ns;      /* from there until its workers were told everything */
    uint64_t first_token_ns;   /* admit to first token; 0: none */
    struct attempt_id attempt; /* the last one: what workers called it */
    char prefill_worker[MESSAGE_NAME_MAX];
    char decode_worker[MESSAGE_NAME_MAX];
};

struct router_sink {
    void *context;
    /* Opens a fresh link to a worker incarnation and names it `slot` from now on. */
    void (*open_link)(void *context, uint32_t slot, const struct announce *announce);
    void (*close_link)(void *context, uint32_t slot);
    /* Queues a message; the shell never loses one silently: a lost link comes back as
     * router_link_lost(). Cancels and pings overtake submits there, and a cancel removes queued
     * work of its request. session is set; seq is the core's own count of messages on this link,
     * which a shell that reorders may write anew as they leave. */
    void (*send)(void *context, uint32_t slot, const struct message *message);
    void (*tokens)(void *context, uint64_t user, const struct token_run *run);
    /* The last word on a request; its spec's memory is the shell's again. */
    void (*end)(void *context, uint64_t user, const struct request_end *end);
    /* An event came: router_deadline() may be another once it is handled. May be NULL. */
    void (*touched)(void *context);
    /* For the log; its `request` is a spec's `user`. May be NULL. */
    void (*note)(void *context, const struct note *note);
};

NODISCARD enum status router_new(const struct router_config *config, const struct router_sink *sink,
                                 struct router **router);
void router_free(struct router *router);

/* Admission. STATUS_BUSY: queue full (429). STATUS_CLOSED: no worker can serve it (503).
 * STATUS_LIMIT: longer than any worker's context. STATUS_OK: `*request` names it. The first sink
 * calls for it may come before this returns. */
NODISCARD enum status router_request(struct router *router, uint64_t now_ns,
                                     const struct request_spec *spec, uint64_t *request);

/* The sequences of one call (n > 0): all of them are let in, or none and nothing has happened.
 * STATUS_BUSY also where more of them than the queue holds would find no place at a worker; as
 * router_request() otherwise. Fills requests (n). */
NODISCARD enum status router_request_all(struct router *router, uint64_t now_ns,
                                         const struct request_spec *specs, uint32_t n,
                                         uint64_t *requests);

/* The client left, or does not want more. `end` follows at once, END_CANCELLED. */
void router_cancel(struct router *router, uint64_t now_ns, uint64_t request);

/* A stop string matched: the answer ends after `n_tokens` tokens. `end` follows: END_DONE. */
void router_stop(struct router *router, uint64_t now_ns, uint64_t request, uint32_t n_tokens);

void router_announce(struct router *router, uint64_t now_ns, const struct announce *announce);
void router_message(struct router *router, uint64_t now_ns, uint32_t slot,
                    const struct message *message);

/* The link's other end is gone (closed socket, failed handshake, send without a listener). The
 * shell drops what it has of it: close_link is not called for it. */
void router_link_lost(struct router *router, uint64_t now_ns, uint32_t slot);

void router_tick(struct router *router, uint64_t now_ns);
uint64_t router_deadline(const struct router *router); /* when router_tick() is wanted, ns */

/* Asks a worker by name to drain; with `exits` its process ends once it is empty. Twice is once.
 * STATUS_NOT_FOUND. */
NODISCARD enum status router_drain_worker(struct router *router, uint64_t now_ns, const char *name,
                                          bool exits);

/* Takes a drain back, from any source; of a worker that drains because its process was told to end,
 * nothing comes of it. STATUS_NOT_FOUND. */
NODISCARD enum status router_resume_worker(struct router *router, uint64_t now_ns,
                                           const char *name);

struct router_stats {
    uint32_t n_queued, n_running;
    uint64_t n_admitted, n_completed, n_failed, n_cancelled, n_refused;
    uint64_t n_replays, n_inexact, n_stale_dropped, n_fenced, n_poisoned, n_resends;
    uint64_t n_tokens, n_prompt_tokens, n_handoffs, n_local;
    uint64_t n_put_aside, n_pairs_failed; /* workers; hand-overs between two */
};
void router_stats(const struct router *router, struct router_stats *stats);

/* Since when the request waits that has waited longest for a worker, a replay from its last sign of
 * life; 0: none waits. Walks the queue. */
uint64_t router_waits_since_ns(const struct router *router);

enum slot_state {
    SLOT_FREE,
    SLOT_OPENING,
    SLOT_READY,
    SLOT_SUSPECT,
    SLOT_DRAINING,
    SLOT_REFUSED,
    SLOT_RIVAL,   /* another live worker may have its name: it waits to know */
    SLOT_LOADING, /* announced, but it still reads its model */
    SLOT_STATES
};
const char *slot_state_name(enum slot_state state); /* as status shows it */

/* May a worker be trusted with requests (trust.h)? */
enum standing {
    STANDING_GOOD,
    STANDING_ASIDE,   /* it failed too often: it gets nothing for a time */
    STANDING_TRIAL,   /* that time is over: it gets one request */
    STANDING_CUT_OFF, /* no hand-over with it works: it gets whole requests only */
    STANDINGS
};

struct worker_view {
    enum slot_state state;
    enum refusal refusal;   /* of a REFUSED or RIVAL one: why it is not served */
    struct welcome welcome; /* as it introduced itself; name, incarnation and role always */
    uint32_t loading;       /* percent of its model; of a LOADING one */
    struct load load;       /* latest */
    uint32_t n_assigned;    /* sequences with an attempt there */
    enum standing standing; /* of one in session */
    const char *why;        /* it is put aside: a constant; NULL: it is not */
    uint64_t aside_ns;      /* for how long still */
    uint64_t heard_ns;      /* last message */
    const char *endpoint;   /* where it listens; borrowed until the next event */
};
/* STATUS_NOT_FOUND for a free slot; slots run from 0 to max_workers - 1. */
NODISCARD enum status router_worker(const struct router *router, uint32_t slot,
                                    struct worker_view *view);

/* Its state, as status and page show it: a ready one that is put aside is "aside" or "trial". */
const char *router_worker_state(const struct worker_view *view);
/* Why it is in that state: "numerics", "other_model"; NULL: there is nothing to say. */
const char *router_worker_reason(const struct worker_view *view);

/* The first worker from *slot on: for (uint32_t slot = 0; router_next_worker(...); slot++). */
bool router_next_worker(const struct router *router, uint32_t *slot, struct worker_view *view);

/* A request's present state. */
struct request_view {
    enum request_stage stage;
    const char *waits; /* why it has no worker: a constant; NULL: it has one, or never looked */
    struct attempt_id attempt; /* the current one, or the last; .attempt 0: none yet */
    uint32_t n_replays;
    uint32_t n_tokens; /* generated */
    uint64_t admitted_ns;
    const char *prefill_worker; /* borrowed until the next event; "" and */
    const char *decode_worker;  /* "": none now */
};
/* STATUS_NOT_FOUND for one that is over. */
NODISCARD enum status router_view_request(const struct router *router, uint64_t request,
                                          struct request_view *view);

/* Could a request be served now? */
bool router_ready(const struct router *router);

/* Every ledger and bound of the core, for tests: answers NULL, or what is broken. */
const char *router_check(const struct router *router);
