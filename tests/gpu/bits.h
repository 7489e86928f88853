/* tests/gpu/bits.h: two backends that compute the same on the same operands: what the files of gpu_bits share. */
#pragma once

#include "base/random.h"
#include "tests/gpu/side.h"

struct pair {
    struct side got;
    struct side want;
    struct random random;
    struct kernels_limits limits; /* of both */
    uint32_t n_compared;
    uint32_t n_different;
    bool near; /* the two have different numerics */
};

/* n random numbers; the caller's to free. */
float *pair_floats(struct pair *pair, size_t n);
/* Counts `what` as the same or not, and prints the first number of the n that differs. */
void pair_compare(struct pair *pair, const char *what, const float *got, const float *want,
                  size_t n);
/* The same of numbers that are near: within `bound` of their size, and none of them far beyond. */
void pair_compare_near(struct pair *pair, const char *what, const float *got, const float *want,
                       size_t n, double bound);
/* Norms: fast numerics add the squares in another order. */
void pair_compare_norm(struct pair *pair, const char *what, const float *got, const float *want,
                       size_t n);
void pair_clear(struct pair *pair); /* gives the arrays of both sides back */

/* Runs the same statement for both sides: `side` is the one, `out` its output. */
#define BOTH(pair, n, out, ...)                                                                    \
    float *out##_of[2];                                                                            \
    for (int which_ = 0; which_ < 2; which_++) {                                                   \
        struct side *side = which_ ? &(pair)->want : &(pair)->got;                                 \
        float *out = side_floats(side, NULL, n);                                                   \
        out##_of[which_] = out;                                                                    \
        __VA_ARGS__                                                                                \
    }

/* bits_products.c. `quick`: no shapes of real models. */
void check_products(struct pair *pair, bool quick);
void check_normed_products(struct pair *pair);
void check_invariances(struct pair *pair, bool quick);
