#include "worker/core/block_hash.h"

#include "model/prefix.h"

_Static_assert(BLOCK_HASH_TOKENS == PREFIX_BLOCK_TOKENS, "blocks are the prefix cache's");

struct map_key block_hash(uint64_t key, uint64_t salt, struct map_key previous,
                          const uint32_t *ids) {
    struct prefix_key secret = {{0}};
    struct map_key name = previous;
    /* The first eight bytes, little-endian, as the router expands its seed. */
    for (uint32_t i = 0; i < 8; i++)
        secret.bytes[i] = (uint8_t)(key >> 8 * i);
    (void)prefix_hash_chain(&secret, salt, previous, ids, BLOCK_HASH_TOKENS, &name);
    return name;
}
