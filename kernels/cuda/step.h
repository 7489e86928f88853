/* kernels/cuda/step.h: a step's arrays on the device. */
#pragma once

#include "kernels/cuda/context.h"

NODISCARD enum status cuda_step_open(struct kernels_ctx *ctx, struct error *error);
void cuda_step_close(struct kernels_ctx *ctx);
uint32_t cuda_rehearse(struct kernels_ctx *ctx, uint32_t n_seqs);
void cuda_step_begin(struct kernels_ctx *ctx, struct kernels_step *step);
NODISCARD enum status cuda_step_end(struct kernels_ctx *ctx);
