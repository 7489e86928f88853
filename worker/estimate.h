/* worker/estimate.h: how long the next step will take, learnt from those before. Routers are told
 * before it starts, so that a long step does not look like a hang. Pure. Engine thread only. */
#pragma once

#include <stdint.h>

#define ESTIMATE_CLASSES 24

struct estimate {
    /* Of steps with 2^c to 2^(c+1) - 1 tokens: a running mean, 0 while there was none. */
    double us[ESTIMATE_CLASSES];
};

/* Microseconds that a step of n_tokens will take; at least 1. */
uint32_t estimate_us(const struct estimate *estimate, uint32_t n_tokens);

void estimate_learn(struct estimate *estimate, uint32_t n_tokens, uint64_t us);

/* The most tokens, a multiple of 16 between 16 and `most`, whose step takes at most `us`. */
uint32_t estimate_tokens(const struct estimate *estimate, uint32_t most, uint32_t us);
