/* tests/support/random_sampling.h: rows of logits and every parameter that a choice among them may have. */
#pragma once

#include "base/random.h"
#include "kernels/sampling.h"

/* The intervals that parameters of a row bar, as many of them as the row says. */
#define RANDOM_BARRED 5
extern const struct interval random_barred[RANDOM_BARRED];

/* Parameters of a row of n_vocab logits; arrays are constants. */
#define RANDOM_VOCAB_MAX 262144 /* ids that masks are drawn for */

struct sample_params random_sampling(struct random *random, uint32_t n_vocab);

/* Logits (n): flat with many ties, some that stand out, wide or narrow; now and then one is no number. */
void random_logits(struct random *random, float *logits, uint32_t n);
