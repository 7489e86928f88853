/* worker/step/batch.h: a plan's rows as the flat arrays that the kernels take. Engine thread only;
 * only batch_init() allocates. */
#pragma once

#include "base/status.h"
#include "kernels/kernels.h"

#include <stdint.h>

struct plan;

struct batch {
    struct kernels_batch view; /* borrows the arrays below */
    uint32_t max_tokens;
    uint32_t max_seqs;
    uint32_t max_context;   /* tokens of a sequence */
    uint32_t max_blocks;    /* of a sequence */
    uint32_t *ids;          /* owned (max_tokens) */
    uint32_t *positions;    /* owned (max_tokens) */
    uint32_t *seq_begin;    /* owned (max_seqs + 1) */
    uint32_t *block_tables; /* owned (max_seqs, max_blocks) */
    uint32_t *variants;     /* owned (max_seqs) */
    uint32_t n_rows;        /* rows that choose a token */
    uint32_t *rows;         /* owned (max_seqs): index of the token */
    uint32_t *slots;        /* owned (max_seqs): the row's sequence */
};

NODISCARD enum status batch_init(struct batch *batch, uint32_t max_tokens, uint32_t max_seqs,
                                 uint32_t max_context);
void batch_fini(struct batch *batch); /* fine on a zeroed one */

/* Fills everything from the plan, which keeps within the bounds of batch_init(). */
void batch_build(struct batch *batch, const struct plan *plan);
