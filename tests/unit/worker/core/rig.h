/* tests/unit/worker/core/rig.h: a shell for engines without sockets or clocks.
 *
 * Workers with the `hash` model (each KV entry depends on all tokens before it, the next token on
 * all entries as read back from the blocks), fake routers that compare each token with what the
 * prompt alone says it must be, and KV links as queues in memory. Nothing moves by itself: a test
 * steps workers and delivers messages. */
#pragma once

#include "base/random.h"
#include "tests/support/suite.h"
#include "worker/core/block_hash.h"
#include "worker/core/engine.h"
#include "worker/core/engine_state.h"

#define RIG_WORKERS       3
#define RIG_ROUTERS       2
#define RIG_FIRST_KV_LINK 100 /* those below are routers */
#define RIG_LAYERS        4
#define RIG_CALLS         128
#define RIG_IDS           1024
#define RIG_PIPES         256
#define RIG_QUEUE         64
#define RIG_NOTES         64
#define RIG_BLOCK         16
#define RIG_CHUNK_ROOM    (RIG_LAYERS * RIG_BLOCK * 8 * 64)

/* What a router knows of a request. */
struct call {
    struct request_id req;
    uint32_t attempt;
    uint32_t n_prompt;
    uint32_t n_got;         /* tokens of the answer */
    uint32_t ids[RIG_IDS];  /* prompt, then what was received */
    uint32_t n_at_reserve;  /* ids of the attempt */
    uint32_t cached_tokens; /* of its last entry */
    enum finish finish;
    bool gap; /* tokens came that do not follow */
    bool reserved, refused, failed, cancelled;
    uint32_t n_reserved, n_failed;
    uint32_t gen, reserved_cached;
    enum reason reason;
    enum phase failed_phase;
    uint32_t n_logprobs;
    uint64_t salt;
    uint32_t priority;
    uint64_t tenant;
    bool has_trace;
    struct trace trace;
    struct sampling sampling;
};

/* A KV message under way. */
struct parcel {
    struct message message;
    uint32_t n_bytes;
    uint8_t *bytes;
};

struct pipe {
    bool open;
    bool announced; /* engine_kv_open() was called on both sides */
    uint32_t p, d;  /* workers */
    uint32_t link_p, link_d;
    struct parcel to_d[RIG_QUEUE], to_p[RIG_QUEUE];
    uint32_t n_to_d, n_to_p;
};

struct worker {
    struct rig *rig;
    uint32_t index;
    struct engine *engine;
    uint64_t *kv; /* (RIG_LAYERS, n_blocks, RIG_BLOCK) */
    uint32_t n_blocks;
    uint64_t incarnation;
    struct plan plan;       /* of the step in flight, the older one of two */
    struct plan ahead;      /* without rows: there is one only */
    uint32_t n_layers_done; /* of the step in flight */
    uint64_t *entries;      /* of its tokens */
    bool repeats;           /* rig_step() goes ahead where it may */
    uint32_t n_spoilt;      /* so many tokens come of unusable numbers */
    bool idle;              /* the last plan was empty */
    uint32_t busy;          /* so many sends to routers answer BUSY */
    bool routers_gone;      /* sends to routers answer CLOSED */
    uint32_t lose_steps;    /* so many STEPs vanish */
    uint32_t n_steps, n_welcomes, n_beats, n_digests, n_resets;
    uint32_t max_rows, max_tokens;
    enum reason reset_reason;
    struct digest_entry digest[256];
    uint32_t n_digest;
    struct load load;
    enum status constrain;                    /* what a grammar is answered with */
    uint32_t n_constrained, constrained_slot; /* grammars that came; where the last one belongs */
    uint64_t constrained_serial;
    bool is_stuck; /* no row has a token */
    uint32_t n_closed;
    char note[200];             /* its last one that is more than debug */
    char notes[RIG_NOTES][200]; /* its last ones of any level, the n-th at n modulo RIG_NOTES */
    uint32_t n_notes;
};

struct rig {
    uint64_t now_ns;
    struct random random;
    uint32_t credits;
    uint32_t busy_percent; /* chance that a send or push answers BUSY */
    uint32_t queue_max;    /* parcels in a pipe's direction */
    uint32_t corrupt;      /* so many chunks from now have a bit flipped */
    bool lose_in_take;     /* the next take_chunk loses its link from inside */
    uint32_t next_link;
    uint32_t n_workers;
    struct worker workers[RIG_WORKERS];
    uint32_t n_pipes;
    struct pipe pipes[RIG_PIPES];
    uint32_t n_calls;
    struct call calls[RIG_CALLS];
    uint64_t sessions[RIG_WORKERS][RIG_ROUTERS];
    uint64_t seqs[RIG_WORKERS][RIG_ROUTERS];
};

/* Defaults that a test may change before rig_add(). */
struct engine_config rig_config(void);

/* rig_sink.c: what a worker's engine calls. */
struct engine_sink rig_sink(struct worker *worker);
uint64_t *rig_cell(const struct worker *worker, uint32_t layer, uint32_t block);

/* Most tokens of a step: decode rows are bounded by max_batch alone. */
uint32_t rig_tokens(const struct engine_config *config);

struct rig *rig_new(uint64_t seed);
void rig_free(struct rig *rig);
struct worker *rig_add(struct rig *rig, struct engine_config config);

/* Router r says HELLO and PEERS to all workers under a new session. */
void rig_hello(struct rig *rig, uint32_t r);
uint32_t rig_link(uint32_t r); /* the router's link number at every worker */
void rig_send(struct rig *rig, uint32_t w, uint32_t r, struct message *message);

/* A new request with a random prompt. */
struct call *rig_call(struct rig *rig, uint32_t n_prompt, uint32_t max_new);

void rig_both(struct rig *rig, uint32_t w, struct call *call);
void rig_reserve(struct rig *rig, uint32_t w, struct call *call);
void rig_prefill(struct rig *rig, uint32_t w, uint32_t d, struct call *call);
void rig_decode(struct rig *rig, uint32_t w, uint32_t p, struct call *call);
void rig_cancel(struct rig *rig, uint32_t w, struct call *call);
void rig_forget(struct rig *rig, uint32_t w, struct call *call);
void rig_resend(struct rig *rig, uint32_t w, struct call *call, uint32_t from);

/* Whether a worker noted this, word for word; what it noted before `from` does not count. */
bool rig_noted(const struct worker *worker, uint32_t from, const char *text);

/* A whole step, or its parts: plan, one ahead, one layer, end. rig_plan() answers false when idle. */
bool rig_step(struct rig *rig, uint32_t w);
bool rig_plan(struct rig *rig, uint32_t w);
enum repeat rig_repeat(struct rig *rig, uint32_t w);
bool rig_layer(struct rig *rig, uint32_t w); /* false: all layers are done */
void rig_end(struct rig *rig, uint32_t w);

/* Delivers the oldest KV message of a pipe's direction; false: none. */
bool rig_deliver(struct rig *rig, struct pipe *pipe, bool to_d);
bool rig_deliver_all(struct rig *rig);
void rig_cut(struct rig *rig, struct pipe *pipe);

/* Steps and delivers until nothing moves, at most `n_max` rounds. */
void rig_run(struct rig *rig, uint32_t n_max);
void rig_tick(struct rig *rig, uint64_t ms); /* time passes; every worker ticks */
void rig_check(struct rig *rig);             /* every ledger of every worker */

/* The whole answer came, right and without gaps. */
void rig_expect_done(struct call *call, uint32_t n_tokens, enum finish finish);
uint32_t rig_oracle(const uint32_t *ids, uint32_t n); /* the token after ids (n) */
