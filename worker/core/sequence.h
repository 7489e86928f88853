/* worker/core/sequence.h: the sequences a worker holds, in numbered slots.
 *
 * A slot has room for a whole context of ids, a block table, and the arrays of a request's
 * sampling, all allocated at start. Engine thread only. What a sequence does next is decided in
 * schedule.c, handoff_in.c and handoff_out.c; here it is found, filled and emptied. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "proto/message.h"
#include "worker/core/prefix.h"

#include <stdbool.h>
#include <stdint.h>

#define SEQUENCE_NONE      UINT32_MAX
#define HANDOFF_GROUPS_MAX 128 /* groups of layers pushed one after the other */

/* Last tokens of a sequence whose logprobs can be sent (again). Older ones go without, and a router
 * that lacks them has them computed anew. */
#define SEQUENCE_LOGPROBS_MAX 64

enum handoff_side { HANDOFF_NONE, HANDOFF_IN, HANDOFF_OUT };

/* A sequence's hand-off, seen from this worker. Blocks are counted from the sequence's first. */
struct handoff {
    enum handoff_side side;
    uint64_t transfer_id;
    uint32_t gen;
    uint32_t peer_link;   /* the KV link, or PEER_LINK_NONE while none is known */
    uint32_t first_block; /* blocks before are in the receiver's prefix cache */
    uint32_t n_blocks;    /* blocks that hold the tokens handed over, those before included */
    char peer[MESSAGE_NAME_MAX];
    uint64_t peer_incarnation;
    uint64_t begin_ns; /* its first chunk, or a commit without any; 0: not begun */
    /* receiving side */
    bool bound;        /* transfer_id is known: by the first chunk or by Submit */
    bool submitted;    /* Submit has come */
    bool commit_seen;  /* Commit has come: the fields below hold */
    bool complete;     /* all chunks and the commit are here; the blocks are ours */
    uint64_t lease_ns; /* absolute: given back then unless submitted */
    uint32_t n_done;   /* chunks taken */
    uint32_t n_cells;  /* layers x blocks taken */
    uint64_t *cells;   /* borrowed from the table: one bit for each layer of each block */
    struct commit commit;
    /* sending side */
    uint32_t pushed[HANDOFF_GROUPS_MAX]; /* of each group of layers: blocks up to here are away */
    uint32_t n_pushed;                   /* chunks */
    uint32_t n_acked;
    bool commit_sent;
};

/* Which of the scheduler's lists a sequence is in. */
enum queue { QUEUE_NONE, QUEUE_HELD, QUEUE_WAITING, QUEUE_PREFILL, QUEUE_DECODE };

struct sequence {
    struct list at;         /* in the free list or one of the scheduler's */
    struct list of_session; /* in its router's list of sequences */
    struct list dirty;      /* in its router's list of those with something to send */
    struct list of_link;    /* in its KV link's transfers, or among those without a link */
    struct list leased;     /* in the engine's list of leases */
    uint32_t slot;
    uint64_t serial;    /* changes when the slot gets another sequence */
    uint32_t n_steps;   /* in flight that compute it: 0, 1, or 2 with the step ahead */
    bool dead;          /* given up during a step: emptied when n_steps is 0 */
    uint32_t peer_link; /* its router's */

    struct request_id req;
    uint32_t attempt;
    enum phase phase;
    enum sequence_state state;
    enum finish finish;
    bool finish_sent;
    enum queue queue;
    uint32_t priority;
    uint64_t tenant;       /* whose it is */
    struct trace trace;    /* that it belongs to, for the log; all zero: none */
    uint32_t share;        /* its tenant's, while it is in one of the scheduler's lists: shares.h */
    uint64_t turn;         /* among equal priorities smaller ones run first: run_queue.h */
    uint64_t arrival;      /* rising number: of equal turns older ones run first; 0: never queued */
    uint64_t deadline_ns;  /* absolute; 0: none */
    uint64_t salt;         /* the tenant's, changed by the variant */
    uint32_t variant;      /* what the model fixed for a prompt of its length */
    uint32_t n_queued;     /* tokens counted as waiting for prefill */
    uint64_t submit_ns;    /* when Submit came */
    uint64_t ready_ns;     /* when it could have run first */
    bool has_run;          /* it was in a step */
    uint32_t n_given;      /* ids that Submit brought */
    uint32_t n_missing;    /* blocks that it lacked when it last did not fit */
    uint64_t pool_version; /* of the pool when it last did not fit */
    bool blocked;          /* it did not fit then */
    bool blocked_late;     /* though its tenant was late (shares.h), so that it needed fewer */
    bool awaits_grammar;   /* its next token cannot be chosen yet: in QUEUE_HELD, or not in any */

    uint32_t n_prompt;
    uint32_t n_tokens;      /* ids: prompt and output */
    uint32_t n_computed;    /* positions whose KV is in the blocks */
    uint32_t n_in_step;     /* that, when the step is done that was planned last */
    uint32_t n_sent;        /* ids the router has been sent, or knows */
    uint32_t cached_tokens; /* of the prompt, found in the prefix cache */
    bool counted;           /* its prompt is in the figures of the prefix cache */
    uint32_t *ids;          /* owned by the table (context) */
    uint32_t n_blocks;
    uint32_t *blocks;      /* owned by the table (blocks of a context) */
    uint32_t n_hashed;     /* blocks whose names are known */
    struct map_key hashed; /* name of the last of them */

    struct sampling sampling;        /* without the grammar's bytes: the shell has them */
    struct token_logprobs *logprobs; /* owned by the table (SEQUENCE_LOGPROBS_MAX): by position */
    uint32_t logprobs_from;          /* first position that has them */
    struct handoff handoff;
};

struct sequence_arrays {
    uint32_t stop_ids[MESSAGE_STOP_IDS_MAX];
    uint32_t bias_ids[MESSAGE_BIAS_MAX];
    float bias[MESSAGE_BIAS_MAX];
    uint32_t allowed_ids[MESSAGE_ALLOWED_MAX];
};

struct sequence_table {
    uint32_t n_slots;
    uint32_t n_used;
    uint32_t context;
    uint32_t n_blocks_max; /* of one sequence */
    uint32_t n_cell_words; /* of one sequence's bitmap of cells */
    uint64_t next_serial;
    struct list free;
    struct map by_request;           /* request id -> slot */
    struct sequence *slots;          /* owned (n_slots) */
    uint32_t *ids;                   /* owned (n_slots, context) */
    uint32_t *blocks;                /* owned (n_slots, n_blocks_max) */
    uint64_t *cells;                 /* owned (n_slots, n_cell_words) */
    struct token_logprobs *logprobs; /* owned (n_slots, SEQUENCE_LOGPROBS_MAX) */
    struct sequence_arrays *arrays;  /* owned (n_slots) */
};

NODISCARD enum status sequence_table_init(struct sequence_table *table, uint32_t n_slots,
                                          uint32_t context, uint32_t n_layers, uint64_t seed);
void sequence_table_fini(struct sequence_table *table);

/* The sequence of a request, or NULL. */
struct sequence *sequence_find(struct sequence_table *table, struct request_id req);

/* A slot for a request that has none. NULL when all are taken. */
struct sequence *sequence_take(struct sequence_table *table, struct request_id req,
                               uint32_t attempt);

/* The request is no longer found; the slot is still taken. */
void sequence_unname(struct sequence_table *table, struct sequence *sequence);

/* Gives the slot back. It holds no blocks and is in no list. */
void sequence_give(struct sequence_table *table, struct sequence *sequence);

/* STATUS_INVALID when the message breaks a rule: counts, ids, phases. Reads nothing but it. */
NODISCARD enum status sequence_check_submit(const struct submit *submit, uint32_t n_vocab);

/* Copies what a Submit says: ids, sampling, priorities. It was checked and fits the context.
 * `variant` goes into the salt, so that blocks of one are never taken for another's. */
void sequence_fill(struct sequence_table *table, struct sequence *sequence,
                   const struct submit *submit, uint32_t variant, uint64_t now_ns);

/* Names the blocks that are full and computed, so that others find them. */
void sequence_name_blocks(struct sequence *sequence, struct prefix_cache *cache, uint64_t key);

/* Gives all blocks back, the last first: of a prefix, the end is evicted before its beginning. */
void sequence_give_blocks(struct sequence *sequence, struct prefix_cache *cache);

/* Appends the next token with its logprobs (NULL: none). There is room. */
void sequence_append(struct sequence *sequence, uint32_t id, const struct token_logprobs *logprobs);

/* May the token behind the first n_tokens not end the answer? */
bool sequence_bans_ends(const struct sequence *sequence, uint32_t n_tokens);

static inline uint32_t sequence_n_output(const struct sequence *sequence) {
    return sequence->n_tokens > sequence->n_prompt ? sequence->n_tokens - sequence->n_prompt : 0;
}
