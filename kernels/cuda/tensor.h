/* kernels/cuda/tensor.h: products of fast numerics, and how a product is cut. */
#pragma once

#include "kernels/cuda/context.h"

/* At most `most` of the product's rows, from `row` on. */
static inline struct gpu_linear cuda_rows_of(const struct gpu_linear *linear, uint32_t row,
                                             uint32_t most) {
    struct gpu_linear part = *linear;
    part.x = linear->x + (size_t)row * linear->choice.matrix.k;
    part.out = linear->out + row * linear->out_stride;
    part.n_rows = linear->n_rows - row < most ? linear->n_rows - row : most;
    return part;
}

/* Fast numerics: rounds linear->x and multiplies, as many rows at a time as there is room for. */
void cuda_linear_tensor(struct kernels_ctx *ctx, const struct gpu_linear *linear);

/* The shape of a product of n_rows rows by each of n_groups matrices like linear's; parts: whether slices may go to different
 * blocks. */
struct gpu_tensor_shape cuda_tensor_shape(const struct kernels_ctx *ctx,
                                          const struct gpu_linear *linear, uint32_t n_rows,
                                          uint32_t n_groups, bool parts);
