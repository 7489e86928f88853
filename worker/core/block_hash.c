#include "worker/core/block_hash.h"

#include "proto/prefix.h"

_Static_assert(BLOCK_HASH_TOKENS == PREFIX_BLOCK_TOKENS, "blocks are the prefix cache's");

struct map_key block_hash(uint64_t key, uint64_t salt, struct map_key previous,
                          const uint32_t *ids) {
    struct prefix_key secret = prefix_key_of(key);
    struct map_key name = previous;
    (void)prefix_hash_chain(&secret, salt, previous, ids, BLOCK_HASH_TOKENS, &name);
    return name;
}
