/* tests/gpu/side.h: one backend of two that compute the same: its context and its copies of the arrays. */
#pragma once

#include "kernels/kernels.h"

#include <stdbool.h>

#define SIDE_ARRAYS_MAX 96

struct side {
    const struct kernels *kernels;
    struct kernels_ctx *ctx;
    void *arrays[SIDE_ARRAYS_MAX]; /* owned, until side_clear() */
    size_t n_bytes[SIDE_ARRAYS_MAX];
    uint32_t n_arrays;
};

/* Ends the program with a line when the backend does not open. */
void side_open(struct side *side, const char *backend, const struct kernels_options *options);
void side_close(struct side *side);
void side_clear(struct side *side);            /* gives all arrays back */
void side_drop(struct side *side, uint32_t n); /* all but the first n */

void *side_take(struct side *side, size_t n_bytes); /* memory of the backend, as alloc() gives it */
/* Between two places of the backend's memory, by way of the host's. */
void side_copy(struct side *side, void *to, const void *from, size_t n_bytes);

/* n_bytes of memory of the backend with a copy of `from`, or (NULL) filled with 0xee. */
void *side_put(struct side *side, const void *from, size_t n_bytes);
float *side_floats(struct side *side, const float *from, size_t n);

/* A matrix packed from one tensor, or from several one below the other. Its memory is one of the arrays. */
struct weight side_pack(struct side *side, const struct weight_tensor *tensor);
/* Rows of both in turn, as gate and up lie. */
struct weight side_pack_pair(struct side *side, const struct weight_tensor *a,
                             const struct weight_tensor *b);
/* out (n, k) = rows `ids` - id_begin of the table, in a step of its own. n is at most SIDE_EMBEDS. */
#define SIDE_EMBEDS 16
void side_embed(struct side *side, float *out, const struct weight *table, const uint32_t *ids,
                uint32_t n, uint32_t id_begin);
void side_end_step(struct side *side); /* waits; ends the program when the device failed */
