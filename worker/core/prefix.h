/* worker/core/prefix.h: which block holds which prefix, and which unused one goes first.
 *
 * A block gets a name (block_hash.h) once its KV is computed and full. Named blocks that no sequence
 * holds stay CACHED in the order of their last use, until somebody wants their prefix or their
 * room. All of the engine's taking and giving of USED blocks goes through here. Engine thread only;
 * only prefix_cache_init() allocates. */
#pragma once

#include "base/map.h"
#include "base/status.h"
#include "worker/core/kv_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct prefix_block {
    struct map_key key;
    uint32_t next, prev; /* among the unused, oldest first; n_blocks is the list's head */
    bool named;
};

struct prefix_cache {
    struct kv_pool *pool;        /* borrowed */
    struct map map;              /* name -> block */
    struct prefix_block *blocks; /* owned (n_blocks + 1): the last one is the head of the unused */
};

NODISCARD enum status prefix_cache_init(struct prefix_cache *cache, struct kv_pool *pool,
                                        uint64_t seed);
void prefix_cache_fini(struct prefix_cache *cache);

/* Blocks that could be taken now: free and cached. */
uint32_t prefix_cache_available(const struct prefix_cache *cache);

/* kv_pool_take(), evicting the longest unused prefixes where free blocks are short. */
NODISCARD enum status prefix_cache_take(struct prefix_cache *cache, uint32_t n, uint32_t after,
                                        enum kv_state state, uint32_t *blocks);

/* The block with this name; STATUS_NOT_FOUND. Holds nothing. */
NODISCARD enum status prefix_cache_find(const struct prefix_cache *cache, struct map_key key,
                                        uint32_t *block);

void prefix_cache_hold(struct prefix_cache *cache, uint32_t block);
void prefix_cache_give(struct prefix_cache *cache, uint32_t block);

/* Names a USED block. When another block has the name already, this one stays nameless. */
void prefix_cache_name(struct prefix_cache *cache, struct map_key key, uint32_t block);

/* Does this block carry this name? */
bool prefix_cache_is(const struct prefix_cache *cache, uint32_t block, struct map_key key);

/* NULL, or what is broken. */
const char *prefix_cache_check(const struct prefix_cache *cache);
