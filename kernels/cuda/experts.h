/* kernels/cuda/experts.h: mixtures of experts. */
#pragma once

#include "kernels/cuda/context.h"

void cuda_experts_close(struct kernels_ctx *ctx);
void cuda_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                    uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise);
size_t cuda_moe_scratch(uint32_t n_rows, uint32_t n_active, uint32_t dim, uint32_t expert_dim);
void cuda_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                  const float *weights, uint32_t n_rows, uint32_t n_active,
                  const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                  float *scratch);
