/* kernels/cuda/operations.h: the operations of kernels/kernels.h that have no file of their own. */
#pragma once

#include "kernels/cuda/context.h"

void cuda_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
                const struct kernels_batch *batch, uint32_t id_begin);
void cuda_norm(struct kernels_ctx *ctx, float *out, const float *x, const float *gain, float eps,
               uint32_t n_rows, uint32_t dim);
void cuda_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                 const struct weight *weight, uint32_t n_rows, enum epilogue epilogue);
/* Quantizes linear->x and multiplies; `ints` is the context's. Rows, times their terms, are at most
 * ints_rows. */
void cuda_linear_ints(struct kernels_ctx *ctx, const struct gpu_linear *linear);
void cuda_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                   size_t n);
void cuda_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                    uint32_t n_rows, uint32_t dim);
void cuda_gather_rows(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *rows,
                      uint32_t n_rows, uint32_t dim);
void cuda_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                  const struct rope *rope, const struct kernels_kv *kv);
void cuda_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                 const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                 const float *alibi, uint32_t window);
