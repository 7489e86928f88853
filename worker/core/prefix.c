#include "worker/core/prefix.h"

#include "base/assert.h"

#include <stdlib.h>

enum status prefix_cache_init(struct prefix_cache *cache, struct kv_pool *pool, uint64_t seed) {
    *cache = (struct prefix_cache){.pool = pool};
    uint32_t head = pool->n_blocks;
    cache->blocks = calloc((size_t)head + 1, sizeof *cache->blocks);
    if (!cache->blocks || map_init(&cache->map, head, seed) != STATUS_OK) {
        prefix_cache_fini(cache);
        return STATUS_NOMEM;
    }
    cache->blocks[head].next = head;
    cache->blocks[head].prev = head;
    return STATUS_OK;
}

void prefix_cache_fini(struct prefix_cache *cache) {
    if (!cache)
        return;
    map_fini(&cache->map);
    free(cache->blocks);
    *cache = (struct prefix_cache){0};
}

static void prefix_unused_remove(struct prefix_cache *cache, uint32_t block) {
    struct prefix_block *entry = &cache->blocks[block];
    cache->blocks[entry->prev].next = entry->next;
    cache->blocks[entry->next].prev = entry->prev;
}

static void prefix_unused_append(struct prefix_cache *cache, uint32_t block) {
    uint32_t head = cache->pool->n_blocks;
    struct prefix_block *entry = &cache->blocks[block];
    entry->next = head;
    entry->prev = cache->blocks[head].prev;
    cache->blocks[entry->prev].next = block;
    cache->blocks[head].prev = block;
}

uint32_t prefix_cache_available(const struct prefix_cache *cache) {
    return cache->pool->counts[KV_FREE] + cache->pool->counts[KV_CACHED];
}

static void prefix_evict_oldest(struct prefix_cache *cache) {
    uint32_t head = cache->pool->n_blocks;
    uint32_t block = cache->blocks[head].next;
    ASSERT(block != head);
    prefix_unused_remove(cache, block);
    bool known = map_remove(&cache->map, cache->blocks[block].key);
    ASSERT(known);
    cache->blocks[block].named = false;
    kv_pool_evict(cache->pool, block);
}

enum status prefix_cache_take(struct prefix_cache *cache, uint32_t n, uint32_t after,
                              enum kv_state state, uint32_t *blocks) {
    if (n > prefix_cache_available(cache))
        return STATUS_BUSY;
    while (cache->pool->counts[KV_FREE] < n)
        prefix_evict_oldest(cache);
    return kv_pool_take(cache->pool, n, after, state, blocks);
}

enum status prefix_cache_find(const struct prefix_cache *cache, struct map_key key,
                              uint32_t *block) {
    return map_get(&cache->map, key, block);
}

void prefix_cache_hold(struct prefix_cache *cache, uint32_t block) {
    ASSERT(block < cache->pool->n_blocks);
    if (cache->pool->states[block] == KV_CACHED)
        prefix_unused_remove(cache, block);
    kv_pool_hold(cache->pool, block);
}

void prefix_cache_give(struct prefix_cache *cache, uint32_t block) {
    ASSERT(block < cache->pool->n_blocks);
    bool named = cache->blocks[block].named;
    if (kv_pool_give(cache->pool, block, named) && named)
        prefix_unused_append(cache, block);
}

void prefix_cache_name(struct prefix_cache *cache, struct map_key key, uint32_t block) {
    uint32_t other;
    ASSERT(block < cache->pool->n_blocks);
    ASSERT(cache->pool->states[block] == KV_USED);
    if (cache->blocks[block].named || map_get(&cache->map, key, &other) == STATUS_OK)
        return;
    if (map_put(&cache->map, key, block) != STATUS_OK)
        return;
    cache->blocks[block].key = key;
    cache->blocks[block].named = true;
}

bool prefix_cache_is(const struct prefix_cache *cache, uint32_t block, struct map_key key) {
    return cache->blocks[block].named && map_key_equal(cache->blocks[block].key, key);
}

const char *prefix_cache_check(const struct prefix_cache *cache) {
    uint32_t head = cache->pool->n_blocks;
    uint32_t n_unused = 0;
    uint32_t n_named = 0;
    for (uint32_t at = cache->blocks[head].next; at != head; at = cache->blocks[at].next) {
        if (at > head || cache->blocks[cache->blocks[at].next].prev != at)
            return "the list of unused prefixes is torn";
        if (cache->pool->states[at] != KV_CACHED || ++n_unused > head)
            return "a block in use is listed as unused";
    }
    if (n_unused != cache->pool->counts[KV_CACHED])
        return "a cached block is not listed as unused";
    for (uint32_t i = 0; i < head; i++) {
        uint32_t found;
        if (!cache->blocks[i].named)
            continue;
        n_named++;
        if (cache->pool->states[i] != KV_USED && cache->pool->states[i] != KV_CACHED)
            return "a block without contents has a name";
        if (map_get(&cache->map, cache->blocks[i].key, &found) != STATUS_OK || found != i)
            return "a named block is not found by its name";
    }
    return n_named == cache->map.n_used ? NULL : "a name leads to no block";
}
