/* worker/forward.h: a loaded model with everything its steps need: weights, KV pool, activations.
 *
 * Engine thread only. forward_open() takes all memory; forward_run() takes none. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/family/family.h"
#include "worker/weights.h"

#include <stddef.h>
#include <stdint.h>

struct batch;
struct model;

struct forward_options {
    const struct model *model; /* borrowed during forward_open() only */
    const char *backend;       /* row of kernels_table */
    const char *isa;           /* NULL: best */
    uint32_t n_threads;        /* 0: one per core the process may use */
    uint32_t max_tokens;       /* of a step */
    uint32_t max_seqs;         /* of a step */
    uint32_t context_max;      /* 0: the model's */
    uint32_t n_blocks;         /* KV blocks */
    enum kv_format kv_format;
    uint32_t step_us;
};

struct forward {
    const struct kernels *kernels; /* NULL when the family needs none */
    struct kernels_ctx *ctx;       /* owned */
    struct family_model *model;    /* owned */
    struct weights weights;
    struct family_kv kv;
    size_t kv_bytes;
    void *scratch; /* owned (scratch_bytes) */
    size_t scratch_bytes;
    float *logits; /* owned (max_seqs, n_vocab); NULL when the family names its tokens itself */
    size_t logits_bytes;
    uint32_t *forced; /* owned (max_seqs) or NULL */
    uint32_t max_tokens;
    uint32_t max_seqs;
};

/* What forward_open() will take, without taking it. */
struct forward_bytes {
    size_t weights;
    size_t scratch;            /* activations and logits of a step */
    size_t kv_per_token;       /* all layers */
    struct family_facts facts; /* of the model */
};
NODISCARD enum status forward_measure(const struct forward_options *options,
                                      struct forward_bytes *bytes, struct error *error);

/* STATUS_UNSUPPORTED, STATUS_INVALID, STATUS_NOT_FOUND (no such backend), STATUS_NOMEM, with one
 * line each. */
NODISCARD enum status forward_open(struct forward *forward, const struct forward_options *options,
                                   struct error *error);
void forward_close(struct forward *forward); /* fine on a zeroed one */

/* What decides the bits of the results: kernels and family. Two equal texts, equal numbers. */
void forward_numerics(const struct forward *forward, char *text, size_t size);

/* Runs the batch; logits or forced of its rows are then filled. layers_done may be NULL. */
void forward_run(struct forward *forward, const struct batch *batch,
                 void (*layers_done)(void *context, uint32_t layer_begin, uint32_t layer_end),
                 void *context);
