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
    const uint32_t *ids;    /* borrowed: the tokens to compute (n_tokens) */
    const uint32_t *blocks; /* borrowed: the sequence's block table, covers begin + n_tokens */
    uint32_t variant;       /* of the sequence: below n_variants */
    bool sample;            /* the last token's logits choose the next token */
};

struct plan {
    uint32_t n_rows;
    uint32_t n_tokens;
    uint32_t n_prompt;     /* of them of rows that do not decode yet */
    struct plan_row *rows; /* owned by the engine, valid until the next engine_plan() */
};

/* What sampling needs to know of a sequence, beside its ids. */
struct sequence_view {
    const uint32_t *ids; /* (n_tokens) prompt and output */
    uint32_t n_tokens;
    uint32_t n_prompt; /* the real prompt; ids beyond it are output */
    const struct sampling *sampling;
    bool ban_ends;   /* min_new not reached: ends and stop ids may not be chosen */
    uint64_t serial; /* changes when the slot gets another sequence */
};

struct sampled {
    uint32_t id;
    bool valid; /* false: the numbers were unusable; the sequence ends with FINISH_ERROR */
    struct token_logprobs logprobs; /* filled if the sequence wants them */
};

struct engine_sink {
    void *context;
    /* STATUS_BUSY: the peer's queue is full, nothing was sent, the engine tries again later.
     * STATUS_CLOSED: nobody there; engine_link_lost() follows or has come. */
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
     * so when this returns nobody writes there any more. STATUS_CORRUPT, STATUS_CLOSED. */
    enum status (*take_chunk)(void *context, uint32_t link, const struct chunk *chunk,
                              const uint32_t *blocks);
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
void engine_link_lost(struct engine *engine, uint64_t now_ns, uint32_t link);

/* A KV link that answered BUSY has room again, and no message for the core tells it. */
void engine_kv_room(struct engine *engine, uint64_t now_ns);

/* Leases, digests, heartbeats, retries of sends that met BUSY. */
void engine_tick(struct engine *engine, uint64_t now_ns);
uint64_t engine_deadline(const struct engine *engine);

/* How many tokens of prompts the coming plans may compute, beside all rows that decode: at least 1,
 * at most the config's chunk_tokens, which it is at first. The shell knows how long steps take. */
void engine_budget(struct engine *engine, uint32_t n_prompt);
uint32_t engine_chunk_tokens(const struct engine *engine); /* the budget in force */

/* Chooses the next step's work under the budgets; preempts when blocks are short. n_rows 0: idle.
 * A plan with rows is followed by engine_step_end() before the next plan. Between the two, messages
 * and ticks may come: what a row names keeps its slot, ids and blocks until engine_step_end(), even
 * if its request is cancelled meanwhile. */
void engine_plan(struct engine *engine, uint64_t now_ns, struct plan *plan);

/* Before the forward pass: how long it will take, so that long steps do not look hung. */
void engine_step_begin(struct engine *engine, uint64_t now_ns, uint32_t us_expected);

/* During the forward pass, in rising order: these layers of the plan's tokens are in the KV
 * pool. */
void engine_layers_done(struct engine *engine, uint64_t now_ns, uint32_t layer_begin,
                        uint32_t layer_end);

/* After it: sampled[i] belongs to the i-th row with `sample`. Appends tokens, ends sequences,
 * commits hand-offs, sends one STEP per router. */
void engine_step_end(struct engine *engine, uint64_t now_ns, const struct sampled *sampled);

void engine_sequence(const struct engine *engine, uint32_t slot, struct sequence_view *view);

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
