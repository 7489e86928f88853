/* worker/step/estimate.h: how long steps take, learnt from those before. Pure. Engine thread only.
 *
 * Two questions, two answers. What the next step will take as the machine is now: routers are told
 * before it starts, so that a long step does not look like a hang. And what a step costs when
 * nothing disturbs it: that sizes the chunks of prompts, and one moment in which other programs had
 * the cores must not shrink them. */
#pragma once

#include <stdint.h>

/* Steps are sized for this: below the bound of 250 ms by which routers notice a hang, with room for
 * attention in longer contexts than those that were measured. */
#define ESTIMATE_STEP_US_GOAL 120000u

#define ESTIMATE_CLASSES 24
#define ESTIMATE_RECENT  6 /* measures kept of each class; the least of them is the cost */

struct estimate {
    uint64_t n_learnt; /* measures of all classes */
    /* One for steps of 2^c to 2^(c+1) - 1 tokens. */
    struct estimate_class {
        double usual_us; /* a running mean, quick to rise; 0 while there was none */
        struct {
            double us;       /* as of a step in the class's middle */
            uint64_t number; /* n_learnt then */
        } recent[ESTIMATE_RECENT];
        uint32_t n_recent; /* how many of them there are */
        uint32_t next;     /* the oldest: the next one to be replaced */
    } classes[ESTIMATE_CLASSES];
};

/* Microseconds that a step of n_tokens will take as the machine is now; at least 1. */
uint32_t estimate_us(const struct estimate *estimate, uint32_t n_tokens);

/* Microseconds that a step of n_tokens takes when nothing disturbs it; at least 1. */
uint32_t estimate_cost_us(const struct estimate *estimate, uint32_t n_tokens);

/* A step of n_tokens (at least 1) took `us`. */
void estimate_learn(struct estimate *estimate, uint32_t n_tokens, uint64_t us);

/* The most tokens, a multiple of 16 between 16 and `most` (or `most` itself where that is less),
 * whose step costs at most `us`. */
uint32_t estimate_tokens(const struct estimate *estimate, uint32_t most, uint32_t us);
