/* tests/support/kernels_subject.h: every backend, instruction set and number of threads there is to
 * test, and arrays in its memory. */
#pragma once

#include "kernels/kernels.h"
#include "tests/support/random_tensor.h"

#include <stdbool.h>

struct subject_array;

struct subject {
    const struct kernels *kernels;
    const char *isa; /* NULL: the backend's own choice */
    uint32_t n_threads;
    struct kernels_ctx *ctx;      /* owned while open */
    struct subject_array *arrays; /* owned: see subject_bytes() */
};

/* NAME:NUMERICS, what kernels_find() takes; the text lasts until the next call. */
const char *subject_label(const struct kernels *kernels);

/* With TANDEM_SUBJECT in the environment there are the backends that it names (NAME or NAME:NUMERICS), separated by commas,
 * and the reference alone. */
bool subject_is_wanted(const struct kernels *kernels);

/* Whether there is a backend of fast numerics to test: a suite that tests these alone would pass without one. */
bool subject_has_fast(void);

/* Opens the index-th subject; false past the last one. A combination that this machine cannot run
 * is named on standard output once and skipped. Close it with subject_close. */
bool subject_next(struct subject *subject, uint32_t *index, const struct kernels_limits *limits);
void subject_close(struct subject *subject);

/* The same without those of other numerics: for operations that these compute by the same kernels as the rows beside them
 * whose numbers are the reference's bits. */
bool subject_next_exact(struct subject *subject, uint32_t *index,
                        const struct kernels_limits *limits);

/* Emulated kernels take a thousand times as long: where many passes differ in their rows alone, one
 * of each kind serves them. */
bool subject_is_emulated(const struct subject *subject);

/* Those, and what takes its rows one by one: the reference and the scalar path. */
bool subject_is_slow(const struct subject *subject);

/* Whether its numbers are the reference's bits. Those of others are near, all n of a test together, and the same
 * bits whatever other rows stand beside a row. */
bool subject_is_exact(const struct subject *subject);
void subject_expect_near(const struct subject *subject, const char *what, const float *got,
                         const float *expected, size_t n);

/* The reference, one thread. */
struct subject subject_ref(const struct kernels_limits *limits);

/* A copy of the host's bytes in the subject's memory, or zeros where host is NULL; it lasts until
 * subject_drop() or subject_close(). NULL of no bytes. */
void *subject_bytes(struct subject *subject, const void *host, size_t n_bytes);
float *subject_floats(struct subject *subject, const float *host, size_t n);
uint32_t *subject_ids(struct subject *subject, const uint32_t *host, size_t n);
void subject_drop(struct subject *subject); /* all of them */

/* Bytes of the host into such an array, and back. */
void subject_write(const struct subject *subject, void *to, const void *from, size_t n_bytes);
void subject_read(const struct subject *subject, void *to, const void *from, size_t n_bytes);

/* A step of this batch and of rows (n_rows), which are the host's; what it answers is the
 * operations'. subject_begin_ids(): n sequences of one token, n up to 64, for what looks at ids. */
struct kernels_step subject_begin(const struct subject *subject, const struct kernels_batch *batch,
                                  const uint32_t *rows, uint32_t n_rows);
struct kernels_step subject_begin_ids(const struct subject *subject, const uint32_t *ids,
                                      uint32_t n);
void subject_end(const struct subject *subject);

/* Packs a matrix, or a whole tensor, into the subject's memory; ends with subject_unpack. Aborts
 * the test on failure. */
struct weight subject_pack(const struct subject *subject, const struct weight_source *source,
                           size_t *n_bytes);
struct weight subject_pack_tensor(const struct subject *subject, const struct weight_tensor *tensor,
                                  size_t *n_bytes);
/* The numbers of a matrix that a reference packed; ends with tensor_free(). */
struct weight_tensor subject_tensor_f32(struct subject *ref, const struct weight *weight);
/* The matrix whose products those of a subject that is not exact are near to: of integers the same weights as float32, for
 * the reference itself rounds the activations that it multiplies integers with to fewer bits. `ref` is a reference. */
struct weight subject_pack_near(struct subject *ref, const struct weight_source *source,
                                size_t *n_bytes);
void subject_unpack(const struct subject *subject, struct weight *weight, size_t n_bytes);
