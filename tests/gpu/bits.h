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
    bool near;               /* the two have different numerics */
    const char *backends[2]; /* got's name and want's, for more contexts of them */
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
/* The matrix that `side` packed; of integers the same numbers as float32 where the other side's products are near to this one's:
 * the exact ones of integers round the activations to fewer bits. bits_products.c. */
struct weight pair_weight(const struct pair *pair, struct side *side, struct weight packed);

/* Runs the same statement for both sides: `side` is the one, `out` its output. */
#define BOTH(pair, n, out, ...)                                                                    \
    float *out##_of[2];                                                                            \
    for (int which_ = 0; which_ < 2; which_++) {                                                   \
        struct side *side = which_ ? &(pair)->want : &(pair)->got;                                 \
        float *out = side_floats(side, NULL, n);                                                   \
        out##_of[which_] = out;                                                                    \
        __VA_ARGS__                                                                                \
    }

/* Parts of the program; `quick`: fewer shapes, and none of real models. */
void check_attentions(struct pair *pair, bool quick);
void check_products(struct pair *pair, bool quick);
