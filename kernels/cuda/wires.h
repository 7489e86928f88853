/* kernels/cuda/wires.h: what ranks compute together where NCCL brings the numbers; kernels/cuda/ranks.c calls it. */
#pragma once

#include "kernels/cuda/context.h"

/* Floats of memory that sums of n_floats at a time and rows of `columns` take. */
size_t cuda_wires_floats(uint32_t n_ranks, size_t n_floats, uint32_t columns);
/* Sends some numbers on all ways that operations take: the first use of one may take memory. STATUS_UNSUPPORTED with what came. */
NODISCARD enum status cuda_wires_try(struct kernels_ctx *ctx, struct error *error);
/* Of n numbers those from `at` on, as many as there is room for; both answer where the next ones begin. */
size_t cuda_wires_sum(struct kernels_ctx *ctx, float *x, size_t at, size_t n);
size_t cuda_wires_add(struct kernels_ctx *ctx, float *x, const float *part, size_t at, size_t n);
void cuda_wires_gather(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                       size_t n_rows, size_t column_begin, size_t n_columns);
