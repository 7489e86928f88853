/* worker/core/kv_pool.h: a fixed set of KV blocks, handed out by number.
 *
 * Engine thread only. Only kv_pool_init() allocates. A block is in exactly one state; the counts of
 * all states add up to the total, always. A block may have several holders, and leaves USED when
 * the last one gives it back: to CACHED if the prefix cache knows it, else to FREE. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define KV_POOL_NO_BLOCK UINT32_MAX

enum kv_state {
    KV_FREE,
    KV_USED,        /* held by sequences */
    KV_RESERVED,    /* waits for a hand-off or is being filled by one */
    KV_QUARANTINED, /* given up while a copy into it runs */
    KV_CACHED,      /* a known prefix without a holder: may be taken at any time */
    KV_STATES
};

struct kv_pool {
    uint32_t n_blocks;
    uint32_t counts[KV_STATES];
    uint64_t version;    /* rises whenever a block becomes available */
    uint8_t *states;     /* owned (n_blocks): enum kv_state */
    uint32_t *holders;   /* owned (n_blocks) */
    uint64_t *free_bits; /* owned (n_words): bit set while the block is free */
    uint32_t n_words;
};

NODISCARD enum status kv_pool_init(struct kv_pool *pool, uint32_t n_blocks);
void kv_pool_fini(struct kv_pool *pool); /* fine on a zeroed or half-built pool */

/* Takes n free blocks with one holder each into blocks (n), as KV_USED or KV_RESERVED. Contiguous
 * where possible: first behind `after` (the sequence's last block, or KV_POOL_NO_BLOCK), then in
 * one run anywhere, else the lowest numbers. STATUS_BUSY, and nothing taken, when fewer are
 * free. */
NODISCARD enum status kv_pool_take(struct kv_pool *pool, uint32_t n, uint32_t after,
                                   enum kv_state state, uint32_t *blocks);

/* One holder more; a CACHED block becomes USED. */
void kv_pool_hold(struct kv_pool *pool, uint32_t block);

/* One holder less. Answers true when it was the last: the block is then CACHED if `keep`, else
 * FREE. USED blocks only. */
bool kv_pool_give(struct kv_pool *pool, uint32_t block, bool keep);

void kv_pool_evict(struct kv_pool *pool, uint32_t block);      /* CACHED -> FREE */
void kv_pool_commit(struct kv_pool *pool, uint32_t block);     /* RESERVED -> USED */
void kv_pool_quarantine(struct kv_pool *pool, uint32_t block); /* RESERVED -> QUARANTINED */
void kv_pool_release(struct kv_pool *pool, uint32_t block);    /* QUARANTINED -> FREE */

/* NULL, or what is broken. */
const char *kv_pool_check(const struct kv_pool *pool);
