/* worker/core/engine.h: the worker's decisions, pure: which sequences run in a step, which block
 * holds what, how KV is handed over.
 *
 * No I/O, no clock, no randomness of its own, no threads, no allocation after init. Each call is
 * one event and makes a bounded number of calls on the sink, which must not call back in. The same
 * code runs in the daemon, in unit tests and in tests/sim. One owner thread: the engine thread.
 *
 * Links are numbers given by the shell: one per router session's connection and one per KV peer
 * connection, never used again for another peer. Sequences are named by slots below max_seqs. */
#pragma once

#include "base/status.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct note;

#define ENGINE_VARIANTS_MAX 16

/* Chunks in flight on a KV link: so many at first. Twice as many, up to what the peer grants, each
 * time that it stopped us and a whole window was acknowledged within this time: then the peer's
 * looks hold the link up, not the link itself. */
#define ENGINE_CREDITS   16u
#define ENGINE_WINDOW_NS 20000000ull

struct engine_config {
    char name[MESSAGE_NAME_MAX];
    uint64_t incarnation;
    uint64_t seed;
    enum worker_role role;
    uint32_t n_blocks;     /* KV blocks of KV_BLOCK_TOKENS tokens */
    uint32_t block_tokens; /* 16 */
    uint32_t n_layers;
    uint32_t layer_groups; /* a hand-off pushes this many groups of layers one after the other */
    uint32_t block_bytes;  /* of one layer of one block */
    uint32_t chunk_tokens; /* tokens of a step, unless max_batch is more */
    uint32_t chunk_bytes;  /* most bytes of one CHUNK */
    uint32_t max_batch;    /* sequences of a step */
    uint32_t max_seqs;     /* sequences held, waiting and reserved ones included */
    uint32_t context;      /* most tokens of a sequence */
    /* What a model fixes by the length of the real prompt: variant v while n_prompt <=
     * variant_limits[v], the last without a limit. 0 or 1: there is nothing of that kind. */
    uint32_t n_variants;
    uint32_t variant_limits[ENGINE_VARIANTS_MAX];
    uint32_t max_links;
    uint32_t n_vocab; /* token ids are below; 0: ids are not checked */
    uint32_t n_ends;  /* the model's own end tokens */
    uint32_t ends[16];
    uint64_t lease_ns;        /* a reservation unused this long is given back: 10 s */
    uint64_t router_lease_ns; /* a silent router's requests are dropped after this: 5 s */
    uint64_t prefix_key;      /* seed of the cluster's prefix hashes */
    struct welcome welcome;   /* what HELLO is answered with; load is filled in */
};

/* A sequence's share of a step: tokens [begin, begin + n_tokens) of its ids are computed. */
struct plan_row {
    uint32_t slot;
    uint32_t begin; /* position of the first token computed */
    uint32_t n_tokens;
    const uint32_t *ids;    /* borrowed: the tokens to compute (n_tokens); NULL of a step ahead: the
                               one that the row of this number chooses in the step before */
    const uint32_t *blocks; /* borrowed: the sequence's block table, covers begin + n_tokens */
    uint32_t variant;       /* of the sequence: below n_variants */
    bool sample;            /* the last token's logits choose the next token */
};

struct plan {
    uint32_t n_rows;
    uint32_t n_tokens;
    uint32_t n_prompt;     /* of them of rows that do not decode yet */
    struct plan_row *rows; /* owned by the engine, valid until the step's engine_step_end() */
};

/* Why the running step is not followed by the same one before its results are known. */
enum repeat {
    REPEAT_GRANTED,
    REPEAT_PROMPT,  /* a prompt is computed, or has more to compute */
    REPEAT_LEFT,    /* one of its sequences has ended or was given up */
    REPEAT_FULL,    /* the token that it chooses is a sequence's last one, for any token */
    REPEAT_HISTORY, /* a choice depends on the ids before it: penalties, a grammar */
    REPEAT_OTHERS,  /* somebody else decodes too: by turns, or has just come in */
    REPEAT_WAITING, /* somebody waits who may come in */
    REPEAT_BLOCKS,  /* there is no block for a next position */
    REPEAT_REASONS
};

struct engine_repeats {
    uint64_t n[REPEAT_REASONS]; /* answers of engine_repeat() */
    uint64_t n_dropped;         /* tokens that steps computed behind their sequence's end */
};

/* What choosing a sequence's next token needs to know of it. */
struct sequence_view {
    const uint32_t *ids; /* (n_tokens) prompt and output */
    uint32_t n_tokens;   /* before the one that is chosen */
    uint32_t n_prompt;   /* the real prompt; ids beyond it are output */
    const struct sampling *sampling;
    bool ban_ends;   /* min_new not reached: ends and stop ids may not be chosen */
    uint64_t serial; /* changes when the slot gets another sequence */
};

struct sampled {
    uint32_t id;
    bool valid;    /* false: the numbers were unusable; the sequence ends with FINISH_ERROR */
    bool is_stuck; /* not valid because what its request asks for leaves no token: it fails alone */
    struct token_logprobs logprobs; /* filled if the sequence wants them */
};

struct engine_sink {
    void *context;
    /* STATUS_BUSY: the peer's queue is full, nothing was sent, the engine tries again later.
     * STATUS_CLOSED: no listener; engine_link_lost() follows or has come. */
    enum status (*send)(void *context, uint32_t link, const struct message *message);
    /* Opens a KV link to a decode worker, under a link number that the shell answers with (it sends
     * KV_HELLO and takes KV_WELCOME itself, then calls engine_kv_open or engine_link_lost). */
    enum status (*open_kv)(void *context, const struct peer *peer, uint32_t *link);
    void (*close_link)(void *context, uint32_t link);
    /* Reads the chunk's layers and blocks from the KV pool, puts them where the receiver will find
     * them, fills n_bytes, checksum, where, bytes, and sends the CHUNK. blocks: (block_end -
     * block_begin). STATUS_BUSY: no room in the staging ring now. */
    enum status (*push_chunk)(void *context, uint32_t link, struct chunk *chunk,
                              const uint32_t *blocks);
    /* Copies a chunk that has come into these blocks and checks it: the receiver executes the copy,
     * so when this returns there are no more writes to them. STATUS_CORRUPT, STATUS_CLOSED. */
    enum status (*take_chunk)(void *context, uint32_t link, const struct chunk *chunk,
                              const uint32_t *blocks);
    /* A Submit with a grammar has come, for the sequence `serial` in the slot: what follows it is made
     * ready. STATUS_OK: it is; STATUS_BUSY: it will be, engine_constrained() tells; STATUS_NOMEM: no
     * room for it now; else it never will be. NULL: no grammar is served. */
    enum status (*constrain)(void *context, uint32_t slot, uint64_t serial,
                             const struct submit *submit);
    void (*note)(void *context, const struct note *note); /* for the log; may be NULL */
};

/* STATUS_INVALID: sizes that make no sense (block_tokens other than 16, chunk_bytes below
 * block_bytes, max_seqs above MESSAGE_ENTRIES_MAX ...). STATUS_NOMEM. */
NODISCARD enum status engine_new(const struct engine_config *config, const struct engine_sink *sink,
                                 struct engine **engine);
void engine_free(struct engine *engine);

/* A router's or a KV peer's message. A HELLO on a link makes it a router's session. */
void engine_message(struct engine *engine, uint64_t now_ns, uint32_t link,
                    const struct message *message);

/* A KV link that open_kv() made is ready: up to `credits` chunks may be in flight. Or one came in from a
 * prefill worker (accepted = true): its identity. */
void engine_kv_open(struct engine *engine, uint64_t now_ns, uint32_t link, const char *name,
                    uint64_t incarnation, uint32_t credits, bool accepted);
/* The link is gone. Answers how many hand-offs over it that ends, which is 0 for a router's. */
uint32_t engine_link_lost(struct engine *engine, uint64_t now_ns, uint32_t link);

/* A KV link that answered BUSY has room again, and no message for the core tells it. */
void engine_kv_room(struct engine *engine, uint64_t now_ns);

/* Leases, digests, heartbeats, retries of sends that met BUSY. The shell hands over what has come
 * before it ticks: a lease ends, and a router counts as silent, by what was read until then. */
void engine_tick(struct engine *engine, uint64_t now_ns);
uint64_t engine_deadline(const struct engine *engine);

/* What `constrain` answered STATUS_BUSY to is ready: STATUS_OK; or never will be. Of a sequence that has
 * left the slot nothing happens. */
void engine_constrained(struct engine *engine, uint64_t now_ns, uint32_t slot, uint64_t serial,
                        enum status status);

/* How many tokens of prompts the coming plans may compute, beside all rows that decode: at least 1,
 * at most the config's chunk_tokens, which it is at first. The shell knows how long steps take. */
void engine_budget(struct engine *engine, uint32_t n_prompt);
uint32_t engine_chunk_tokens(const struct engine *engine); /* the budget in force */

/* Chooses the next step's work under the budgets; preempts when blocks are short. n_rows 0: idle.
 * A plan with rows is followed by engine_step_end() before the next plan. Between the two, messages
 * and ticks may come: what a row names keeps its slot, ids and blocks until engine_step_end(), even
 * if its request is cancelled meanwhile. */
void engine_plan(struct engine *engine, uint64_t now_ns, struct plan *plan);

/* Once a step is in flight and none is ahead of it: the step after it where that is the same again,
 * one position further, for any token that this one chooses. Of the two now in flight the older one
 * ends first; no plan is made before both did. What ends or is given up meanwhile keeps its slot,
 * ids and blocks until the last step that computes it, whose results for it are dropped. Refused:
 * the answer says why, and the plan has no rows. */
enum repeat engine_repeat(struct engine *engine, uint64_t now_ns, struct plan *plan);
const char *engine_repeat_name(enum repeat repeat); /* for logs and metrics */
const struct engine_repeats *engine_repeats(const struct engine *engine);

/* Before the forward pass of the newest plan: how long it will take, so that long steps do not look
 * hung. A step ahead is announced when it is the only one. */
void engine_step_begin(struct engine *engine, uint64_t now_ns, uint32_t us_expected);

/* During the forward pass, in rising order: these layers of the plan's tokens are in the KV
 * pool. Of two steps in flight, the older one's. */
void engine_layers_done(struct engine *engine, uint64_t now_ns, uint32_t layer_begin,
                        uint32_t layer_end);

/* After the older step in flight: sampled[i] belongs to its i-th row with `sample`. Appends tokens,
 * ends sequences, commits hand-offs, sends each router its STEPs. No lease ends here and no router counts
 * as silent: what came during the step is still to be read. */
void engine_step_end(struct engine *engine, uint64_t now_ns, const struct sampled *sampled);

/* The sequence in `slot` as the row of a plan sees it that ends with the n_tokens-th of its tokens. */
void engine_sequence(const struct engine *engine, uint32_t slot, uint32_t n_tokens,
                     struct sequence_view *view);

void engine_load(const struct engine *engine, struct load *load);
void engine_drain(struct engine *engine, uint64_t now_ns); /* its process ends */
bool engine_is_ending(const struct engine *engine);        /* by engine_drain(), or by a router */
bool engine_idle(const struct engine *engine);             /* nothing held for anybody */

/* Another live worker has this one's name, and this one is to end: what the router said (its
 * `endpoint` and `incarnation` are the other's). NULL: nothing of the kind. The one that started
 * later ends at once; one that is older and still serves a router goes on until it does not, so
 * that routers which see different ones of the two never end both. */
const struct reset *engine_outlived(const struct engine *engine);

/* A turn of the loop that did no step still counts as progress. */
void engine_turn(struct engine *engine);

/* Every ledger and bound of the core, for tests: answers NULL, or what is broken. */
const char *engine_check(const struct engine *engine);
