#include "worker/core/kv_pool.h"

#include "base/assert.h"

#include <stdlib.h>

enum status kv_pool_init(struct kv_pool *pool, uint32_t n_blocks) {
    ASSERT(n_blocks > 0);
    *pool = (struct kv_pool){.n_blocks = n_blocks, .n_words = (n_blocks + 63) / 64};
    pool->states = calloc(n_blocks, sizeof *pool->states);
    pool->holders = calloc(n_blocks, sizeof *pool->holders);
    pool->free_bits = calloc(pool->n_words, sizeof *pool->free_bits);
    if (!pool->states || !pool->holders || !pool->free_bits) {
        kv_pool_fini(pool);
        return STATUS_NOMEM;
    }
    for (uint32_t i = 0; i < n_blocks; i++)
        pool->free_bits[i / 64] |= 1ull << (i % 64);
    pool->counts[KV_FREE] = n_blocks;
    return STATUS_OK;
}

void kv_pool_fini(struct kv_pool *pool) {
    if (!pool)
        return;
    free(pool->states);
    free(pool->holders);
    free(pool->free_bits);
    *pool = (struct kv_pool){0};
}

static bool kv_pool_is_free(const struct kv_pool *pool, uint32_t block) {
    return block < pool->n_blocks && (pool->free_bits[block / 64] >> (block % 64) & 1) != 0;
}

static void kv_pool_move_block(struct kv_pool *pool, uint32_t block, enum kv_state from,
                               enum kv_state to) {
    ASSERT(block < pool->n_blocks);
    ASSERT(pool->states[block] == from);
    pool->states[block] = (uint8_t)to;
    pool->counts[from]--;
    pool->counts[to]++;
    if (from == KV_FREE)
        pool->free_bits[block / 64] &= ~(1ull << (block % 64));
    if (to == KV_FREE)
        pool->free_bits[block / 64] |= 1ull << (block % 64);
    if (to == KV_FREE || to == KV_CACHED)
        pool->version++;
}

/* The first free block at or behind `from`. There must be one. */
static uint32_t kv_pool_next_free(const struct kv_pool *pool, uint32_t from) {
    uint32_t word = from / 64;
    uint64_t bits = pool->free_bits[word] & (~0ull << (from % 64));
    while (bits == 0) {
        word++;
        ASSERT(word < pool->n_words);
        bits = pool->free_bits[word];
    }
    return word * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* The start of a run of n free blocks; the lowest free block when there is no such run. Looks only
 * at the words of the bitmap, a thousand for 64,000 blocks. */
static uint32_t kv_pool_find_run(const struct kv_pool *pool, uint32_t n) {
    uint32_t n_run = 0;
    if (n == 1 || pool->counts[KV_FREE] == pool->n_blocks)
        return kv_pool_next_free(pool, 0);
    for (uint32_t block = 0; block < pool->n_blocks;) {
        uint64_t bits = pool->free_bits[block / 64];
        if (block % 64 == 0 && bits == 0) {
            n_run = 0;
            block += 64;
            continue;
        }
        if (block % 64 == 0 && bits == ~0ull) {
            n_run += 64;
            block += 64;
        } else {
            n_run = kv_pool_is_free(pool, block) ? n_run + 1 : 0;
            block++;
        }
        if (n_run >= n)
            return block - n_run;
    }
    return kv_pool_next_free(pool, 0);
}

enum status kv_pool_take(struct kv_pool *pool, uint32_t n, uint32_t after, enum kv_state state,
                         uint32_t *blocks) {
    ASSERT(state == KV_USED || state == KV_RESERVED);
    if (n > pool->counts[KV_FREE])
        return STATUS_BUSY;
    uint32_t from = after == KV_POOL_NO_BLOCK ? KV_POOL_NO_BLOCK : after + 1;
    for (uint32_t i = 0; i < n; i++) {
        if (from == KV_POOL_NO_BLOCK || !kv_pool_is_free(pool, from))
            from = kv_pool_find_run(pool, n - i);
        blocks[i] = from;
        kv_pool_move_block(pool, from, KV_FREE, state);
        pool->holders[from] = 1;
        from++;
    }
    return STATUS_OK;
}

void kv_pool_hold(struct kv_pool *pool, uint32_t block) {
    ASSERT(block < pool->n_blocks);
    if (pool->states[block] == KV_CACHED)
        kv_pool_move_block(pool, block, KV_CACHED, KV_USED);
    ASSERT(pool->states[block] == KV_USED);
    pool->holders[block]++;
}

bool kv_pool_give(struct kv_pool *pool, uint32_t block, bool keep) {
    ASSERT(block < pool->n_blocks);
    ASSERT(pool->states[block] == KV_USED);
    ASSERT(pool->holders[block] > 0);
    if (--pool->holders[block] > 0)
        return false;
    kv_pool_move_block(pool, block, KV_USED, keep ? KV_CACHED : KV_FREE);
    return true;
}

void kv_pool_evict(struct kv_pool *pool, uint32_t block) {
    kv_pool_move_block(pool, block, KV_CACHED, KV_FREE);
}

void kv_pool_commit(struct kv_pool *pool, uint32_t block) {
    kv_pool_move_block(pool, block, KV_RESERVED, KV_USED);
}

void kv_pool_quarantine(struct kv_pool *pool, uint32_t block) {
    kv_pool_move_block(pool, block, KV_RESERVED, KV_QUARANTINED);
}

void kv_pool_release(struct kv_pool *pool, uint32_t block) {
    kv_pool_move_block(pool, block, KV_QUARANTINED, KV_FREE);
    pool->holders[block] = 0;
}

const char *kv_pool_check(const struct kv_pool *pool) {
    uint32_t counts[KV_STATES] = {0};
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        enum kv_state state = pool->states[i];
        if (state >= KV_STATES)
            return "a block is in no state";
        counts[state]++;
        if ((state == KV_FREE) != kv_pool_is_free(pool, i))
            return "a block's state and its free bit differ";
        if ((state == KV_FREE || state == KV_CACHED) != (pool->holders[i] == 0))
            return "a block's holders do not fit its state";
        if ((state == KV_RESERVED || state == KV_QUARANTINED) && pool->holders[i] != 1)
            return "a reserved or quarantined block has not one holder";
    }
    for (uint32_t s = 0; s < KV_STATES; s++)
        if (counts[s] != pool->counts[s])
            return "a state's count of blocks is wrong";
    return NULL;
}
