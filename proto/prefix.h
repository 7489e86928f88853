/* proto/prefix.h: names of full blocks of tokens, for the prefix cache. Pure.
 *
 * A block's hash covers all tokens up to its end, because it covers the hash before it: equal
 * hashes mean equal prefixes. XXH3-128 (xxHash 0.8) over, in this order and little-endian: the
 * cluster's secret key (32 bytes), the salt (8), the previous block's hash (16), the block's ids
 * (16 times 4). XXH3 is not a cryptographic hash: the secret key keeps outsiders from building
 * collisions, and the salt keeps tenants apart, so that none can probe what another has cached.
 * Router and worker compute the same hashes from the same key. */
#pragma once

#include "base/map.h"

#include <stddef.h>
#include <stdint.h>

#define PREFIX_BLOCK_TOKENS 16 /* tokens in one KV block */

/* Secret of the cluster, equal on all its processes. All zero is allowed, for tests. */
struct prefix_key {
    uint8_t bytes[32];
};

/* A key from 64 bits: their bytes, little-endian, then zeros. */
static inline struct prefix_key prefix_key_of(uint64_t seed) {
    struct prefix_key key = {{0}};
    for (unsigned i = 0; i < 8; i++)
        key.bytes[i] = (uint8_t)(seed >> 8 * i);
    return key;
}

/* The name before the first block. */
#define PREFIX_START ((struct map_key){0, 0})

/* The salt of a tenant or anything else that keeps prefixes apart. 0 with n = 0. */
uint64_t prefix_salt(const struct prefix_key *key, const void *bytes, size_t n);

/* Hashes the n_ids / PREFIX_BLOCK_TOKENS full blocks at the front of ids (n_ids) into hashes and
 * returns their number. `previous` is PREFIX_START for a sequence's first block; to go on from
 * block b pass ids + b * PREFIX_BLOCK_TOKENS and the hash of block b - 1. */
size_t prefix_hash_chain(const struct prefix_key *key, uint64_t salt, struct map_key previous,
                         const uint32_t *ids, size_t n_ids, struct map_key *hashes);
