/* worker/core/engine_state.h: the engine's memory, which all files of the core share. It lies below
 * them all and declares none of their functions. Not for the shell. */
#pragma once

#include "worker/core/engine.h"
#include "worker/core/kv_pool.h"
#include "worker/core/peer_link.h"
#include "worker/core/prefix.h"
#include "worker/core/sequence.h"
#include "worker/core/shares.h"
#include "worker/core/tombstones.h"

#define ENGINE_RETRY_NS 1000000ull /* after BUSY */

struct schedule {
    struct list held;    /* their grammars are not ready */
    struct list waiting; /* by priority, then turn, then arrival */
    struct list prefill; /* running, prompt not computed yet */
    struct list decode;  /* running, one token a step; those served last stand at the back */
    uint32_t n_held;
    uint32_t n_waiting;
    uint32_t n_prefill;
    uint32_t n_decode;
    uint32_t n_queued; /* tokens not yet computed of waiting and prefill */
    uint64_t n_arrivals;
    uint64_t turn;     /* the greatest of those that ran */
    bool prefill_turn; /* with room for one row only, decode and prefill take turns */
    uint32_t
        n_passed; /* sequences in `prefill` that those of late tenants went before, and that had no turn since */
    struct shares shares;
    uint32_t *picks; /* owned (max_batch): slots */
};

struct engine {
    struct engine_config config;
    struct engine_sink sink;
    uint64_t now_ns;  /* of the event in hand */
    uint32_t budget;  /* tokens of a step's prompts: config.chunk_tokens or less */
    uint32_t context; /* most tokens of a sequence: no more than the pool can hold */

    struct kv_pool pool;
    struct prefix_cache cache;
    struct sequence_table sequences;
    struct peer_link_table peer_links;
    struct schedule schedule;
    struct tombstones tombstones;

    /* hand-off */
    struct map handoffs;  /* (side, generation or transfer id) -> slot */
    struct list leases;   /* reservations that are not submitted, by expiry */
    struct list linkless; /* outgoing ones whose link could not be opened yet */
    uint32_t next_gen;
    uint32_t n_groups;
    uint32_t groups[HANDOFF_GROUPS_MAX + 1]; /* group g: layers [groups[g], groups[g + 1]) */
    bool taking;           /* inside take_chunk: quarantined blocks stay where they are */
    uint32_t n_quarantine; /* of `quarantine` */
    uint32_t *quarantine;  /* owned (n_blocks) */

    /* the step in flight; of two, the older one */
    struct plan_row *rows; /* owned (max_batch) */
    uint32_t n_rows;
    bool in_flight;
    uint32_t layers_ready;
    uint64_t step_begin_ns; /* or the end of the step before it, if that came later */

    /* the step ahead (repeat.c) */
    struct plan_row *rows_ahead; /* owned (max_batch) */
    uint32_t n_rows_ahead;       /* 0: there is none */
    uint32_t us_ahead;           /* how long it will take */
    enum repeat repeat_said;     /* the last answer that differed from the one before */
    struct engine_repeats repeats;

    /* what is sent */
    struct step_entry *entries;  /* owned (MESSAGE_ENTRIES_MAX) */
    uint32_t *entry_slots;       /* owned (MESSAGE_ENTRIES_MAX) */
    struct digest_entry *digest; /* owned (max_seqs) */
    uint64_t retry_ns;           /* something met BUSY: try again then; 0: nothing did */
    bool pump_due;               /* a link has room that no message for a transfer will tell of */
    bool flush_due;              /* tokens must not wait for the next step's end */

    bool is_contested;         /* a router said that another one has our name */
    uint64_t contested_router; /* its id */
    struct reset contested;    /* its word */

    bool draining;
    bool ending;       /* the process ends once it is empty: no way back */
    uint64_t drain_ns; /* what is left then is failed; 0: never */

    struct load figures; /* counters and medians; the rest is filled in by engine_load() */
    uint64_t rate_ns;    /* start of the window in which tokens are counted */
    uint64_t rate_tokens;
};

/* Something met BUSY: tried again soon. */
static inline void engine_retry(struct engine *engine) {
    if (engine->retry_ns == 0)
        engine->retry_ns = engine->now_ns + ENGINE_RETRY_NS;
}

/* What the model fixes for sequences with so long a prompt. */
static inline uint32_t engine_variant(const struct engine *engine, uint32_t n_prompt) {
    uint32_t v = 0;
    while (v + 1 < engine->config.n_variants && n_prompt > engine->config.variant_limits[v])
        v++;
    return v;
}

static inline uint32_t engine_blocks_for(const struct engine *engine, uint32_t n_tokens) {
    return (n_tokens + engine->config.block_tokens - 1) / engine->config.block_tokens;
}
