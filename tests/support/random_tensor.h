/* tests/support/random_tensor.h: random numbers and random tensors of every format. */
#pragma once

#include "base/random.h"
#include "kernels/kernels.h"

/* Uniform in [-1, 1), with now and then a zero or a value 100 times as large. */
void fill_random(struct random *random, float *x, size_t n);

/* A tensor (n, k) of a format (n a multiple of 8, k of 32 or 256 where it wants that): scales and
 * values of the size real weights have. Its arrays are of their exact size, each from malloc; end
 * with tensor_free. */
struct weight_tensor random_tensor(struct random *random, const char *format, uint32_t n,
                                   uint32_t k);
/* The same of awq and gptq with a given group; random_tensor takes 64, or k where that is less. */
struct weight_tensor random_grouped_tensor(struct random *random, const char *format, uint32_t n,
                                           uint32_t k, uint32_t group);
/* Gives a gptq tensor an order: its inputs fall into the groups at random, as many as belong. */
void random_order(struct random *random, struct weight_tensor *tensor);
void tensor_free(struct weight_tensor *tensor);
