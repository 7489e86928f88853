/* tests/support/kernels_subject.h: every backend, instruction set and number of threads there is to
 * test, and random tensors for them. */
#pragma once

#include "base/random.h"
#include "kernels/kernels.h"

#include <stdbool.h>

struct subject {
    const struct kernels *kernels;
    const char *isa; /* NULL: the backend's own choice */
    uint32_t n_threads;
    struct kernels_ctx *ctx; /* owned while open */
};

/* Opens the index-th subject; false past the last one. A combination that this machine cannot run
 * is named on standard output once and skipped. Close it with subject_close. */
bool subject_next(struct subject *subject, uint32_t *index, const struct kernels_limits *limits);
void subject_close(struct subject *subject);

/* The reference, one thread. */
struct subject subject_ref(const struct kernels_limits *limits);

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

/* Packs a matrix, or a whole tensor, into the subject's memory; ends with subject_unpack. Aborts
 * the test on failure. */
struct weight subject_pack(const struct subject *subject, const struct weight_source *source,
                           size_t *n_bytes);
struct weight subject_pack_tensor(const struct subject *subject, const struct weight_tensor *tensor,
                                  size_t *n_bytes);
void subject_unpack(const struct subject *subject, struct weight *weight, size_t n_bytes);
