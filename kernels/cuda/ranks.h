/* kernels/cuda/ranks.h: what ranks, each with a device, compute together. */
#pragma once

#include "kernels/cuda/context.h"

NODISCARD enum status cuda_ranks_open(struct kernels_ctx *ctx,
                                      const struct kernels_options *options, struct error *error);
void cuda_ranks_close(struct kernels_ctx *ctx);
NODISCARD enum status cuda_group_id(struct kernels_ctx *ctx, struct kernels_group_id *id,
                                    struct error *error);
NODISCARD enum status cuda_meet(struct kernels_ctx *ctx, uint32_t rank, uint32_t n_ranks,
                                struct kernels_ctx *const *all, const struct kernels_group_id *id,
                                struct error *error);
void cuda_sum(struct kernels_ctx *ctx, float *x, size_t n);
void cuda_add_parts(struct kernels_ctx *ctx, float *x, float *part, size_t n);
void cuda_gather(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                 size_t n_rows, size_t column_begin, size_t n_columns);
