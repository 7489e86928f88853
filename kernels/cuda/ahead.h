/* kernels/cuda/ahead.h: a step that begins before the choice of the one before was read. */
#pragma once

#include "kernels/cuda/context.h"

NODISCARD enum status cuda_ahead_open(struct kernels_ctx *ctx, struct error *error);
void cuda_ahead_close(struct kernels_ctx *ctx);
NODISCARD enum status cuda_sample_begin(struct kernels_ctx *ctx, float *logits, uint32_t n_rows,
                                        uint32_t n_vocab, const struct sample_params *params);
bool cuda_sample_done(struct kernels_ctx *ctx);
NODISCARD enum status cuda_sample_end(struct kernels_ctx *ctx, struct sample_result *results);
/* Before the arrays of a step are filled: pinned memory for them that nothing reads, while the step before runs where
 * `is_ahead`; else once that is done. */
void cuda_ahead_turn(struct kernels_ctx *ctx, bool is_ahead);
/* The first n of `ids` (on the device) become the tokens that were chosen last. */
void cuda_ahead_ids(struct kernels_ctx *ctx, const uint32_t *ids, uint32_t n);
