/* base/map.h: a hash map from 128-bit keys to 32-bit numbers, of a size fixed at init.
 *
 * Open addressing with linear probing and backward-shift deletion; at most half full. Only
 * map_init() allocates, so the pure cores may use it. Iteration order is not offered: owners keep
 * their own lists. One owner thread. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct map_key {
    uint64_t hi;
    uint64_t lo;
};

struct map_slot {
    struct map_key key;
    uint32_t value;
    uint32_t used;
};

struct map {
    struct map_slot *slots; /* owned (n_slots) */
    uint32_t n_slots;       /* power of two, at least twice the capacity */
    uint32_t n_used;
    uint32_t capacity;
    uint64_t seed;
};

NODISCARD enum status map_init(struct map *map, uint32_t capacity, uint64_t seed);
void map_fini(struct map *map);

/* STATUS_NOT_FOUND when the key is absent. */
NODISCARD enum status map_get(const struct map *map, struct map_key key, uint32_t *value);

/* Adds or replaces. STATUS_LIMIT when `capacity` keys are there already. */
NODISCARD enum status map_put(struct map *map, struct map_key key, uint32_t value);

/* Answers whether the key was there. */
bool map_remove(struct map *map, struct map_key key);

static inline bool map_key_equal(struct map_key a, struct map_key b) {
    return a.hi == b.hi && a.lo == b.lo;
}
