/* kernels/cuda/sample.h: the choice of tokens. */
#pragma once

#include "kernels/cuda/context.h"

NODISCARD enum status cuda_sampler_open(struct kernels_ctx *ctx, struct error *error);
void cuda_sampler_close(struct kernels_ctx *ctx);
void cuda_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                 const struct sample_params *params, struct sample_result *results);
/* Parameters of rows from the first on go to the tray, as many as fit; answers how many. */
uint32_t cuda_sample_prepare(struct kernels_ctx *ctx, struct gpu_sample *what, const float *logits,
                             const struct sample_params *params, uint32_t n_rows, uint32_t n_vocab);
/* Chooses for these rows; the results come to pinned memory. */
void cuda_sample_launch(struct kernels_ctx *ctx, const struct gpu_sample *what,
                        struct gpu_sampled *results);
void cuda_sample_result(const struct gpu_sampled *got, const struct sample_params *params,
                        struct sample_result *result);
