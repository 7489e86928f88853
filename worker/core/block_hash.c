#include "worker/core/block_hash.h"

#include "base/random.h"

struct map_key block_hash(uint64_t key, uint64_t salt, struct map_key previous,
                          const uint32_t *ids) {
    uint64_t hi = mix64(previous.hi ^ key);
    uint64_t lo = mix64(previous.lo ^ salt ^ 0x7461);
    for (uint32_t i = 0; i < BLOCK_HASH_TOKENS; i++) {
        hi = mix64(hi ^ ids[i]);
        lo = mix64(lo + hi + ids[i]);
    }
    return (struct map_key){.hi = hi, .lo = lo};
}
