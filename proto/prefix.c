#include "proto/prefix.h"

#include <string.h>
#include <xxhash.h>

/* What is hashed for one block: no padding, so every byte is defined. */
struct block_input {
    uint8_t key[32];
    uint64_t salt;
    uint64_t previous_hi;
    uint64_t previous_lo;
    uint32_t ids[PREFIX_BLOCK_TOKENS];
};

_Static_assert(sizeof(struct block_input) == 32 + 8 + 16 + 4 * PREFIX_BLOCK_TOKENS, "no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the input is hashed as it lies");

uint64_t prefix_salt(const struct prefix_key *key, const void *bytes, size_t n) {
    uint64_t seed;
    if (n == 0)
        return 0;
    memcpy(&seed, key->bytes, sizeof seed);
    return XXH3_64bits_withSeed(bytes, n, seed);
}

size_t prefix_hash_chain(const struct prefix_key *key, uint64_t salt, struct map_key previous,
                         const uint32_t *ids, size_t n_ids, struct map_key *hashes) {
    size_t n = n_ids / PREFIX_BLOCK_TOKENS;
    struct block_input input = {.salt = salt};
    memcpy(input.key, key->bytes, sizeof input.key);
    for (size_t i = 0; i < n; i++) {
        input.previous_hi = previous.hi;
        input.previous_lo = previous.lo;
        memcpy(input.ids, ids + i * PREFIX_BLOCK_TOKENS, sizeof input.ids);
        XXH128_hash_t hash = XXH3_128bits(&input, sizeof input);
        previous = (struct map_key){.hi = hash.high64, .lo = hash.low64};
        hashes[i] = previous;
    }
    return n;
}
