/* base/random.h: counter-based and seeded generators. Pure, except random_seed(), which asks the
 * kernel and is for shells only. */
#pragma once

#include <stdint.h>

/* One step of splitmix64 (Steele, Lea, Flood 2014): add the golden gamma, then its finalizer. */
static inline uint64_t mix64(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* A number that depends on (seed, stream, position) alone: a replayed stream draws the same. */
static inline uint64_t random_at(uint64_t seed, uint64_t stream, uint64_t position) {
    return mix64(mix64(mix64(seed) ^ stream) ^ position);
}

/* Uniform in [0, 1) with 24 bits, exact in float. */
static inline float random_unit(uint64_t bits) {
    return (float)(bits >> 40) * 0x1p-24f;
}

/* A small sequential generator for simulators, jitter and policies; state is part of its owner. */
struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
    uint64_t value = mix64(random->state);
    random->state += 0x9e3779b97f4a7c15ull;
    return value;
}

/* Uniform in [0, n), n > 0, by multiplication (bias below n / 2^64). */
static inline uint64_t random_below(struct random *random, uint64_t n) {
    return (uint64_t)(((unsigned __int128)random_next(random) * n) >> 64);
}

/* 64 bits from the kernel. */
uint64_t random_seed(void);
