/* kernels/cuda/tensor.c: products of fast numerics: rows are rounded, and how the product is cut into blocks is chosen by its shape
 * and by what the device has. No choice changes a bit (gpu/tensor.h). */
#include "kernels/cuda/tensor.h"

#include "base/assert.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/launches.h"
#include "kernels/numbers.h"

#define WARPS 8 /* of a block */

static uint32_t ceil_of(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static uint32_t cuda_tensor_slices_of(const struct gpu_matrix *w) {
    return ceil_of(w->k_stored, TENSOR_SLICE);
}

/* Warps of a block of few rows that stand beside each other in the outputs: as far as rows, which a block reads once, are worth
 * sharing. */
static uint32_t cuda_tensor_warps_beside(uint32_t n_rows) {
    return n_rows <= 2 ? 1 : n_rows <= 8 ? 2 : n_rows <= 16 ? 4 : 8;
}

/* As many rows in a block as there are, up to 64. The warps that do not stand beside each other have other slices; and where
 * there are fewer blocks than multiprocessors, slices go to different blocks, which leave parts. */
static struct gpu_tensor_shape cuda_tensor_few_shape(const struct kernels_ctx *ctx,
                                                     const struct gpu_linear *linear,
                                                     uint32_t n_rows, uint32_t n_groups,
                                                     bool parts) {
    const struct gpu_matrix *w = &linear->choice.matrix;
    uint32_t n_slices = cuda_tensor_slices_of(w);
    struct gpu_tensor_shape shape = {.rows = 8, .slices = n_slices};
    while (shape.rows < n_rows && shape.rows < TENSOR_FEW)
        shape.rows *= 2;
    shape.warps_n = cuda_tensor_warps_beside(n_rows);
    shape.warps_k = WARPS / shape.warps_n;
    while (shape.warps_k / 2 >= n_slices) {
        shape.warps_k /= 2;
        shape.warps_n *= 2;
    }
    while (shape.warps_n > 1 && 8 * shape.warps_n >= w->n_padded)
        shape.warps_n /= 2;
    uint32_t n_blocks =
        ceil_of(w->n_padded, 16 * shape.warps_n) * ceil_of(n_rows, shape.rows) * n_groups;
    uint32_t n_turns = ceil_of(n_slices, shape.warps_k); /* slices of a warp */
    if (!parts || n_blocks >= ctx->facts.n_sms || n_turns == 1)
        return shape;
    uint32_t n_cuts = ceil_of(ctx->facts.n_sms, n_blocks);
    shape.slices = ceil_of(n_turns, n_cuts) * shape.warps_k;
    return shape;
}

struct gpu_tensor_shape cuda_tensor_shape(const struct kernels_ctx *ctx,
                                          const struct gpu_linear *linear, uint32_t n_rows,
                                          uint32_t n_groups, bool parts) {
    const struct gpu_matrix *w = &linear->choice.matrix;
    uint32_t n_tiles = ceil_of(w->n_padded, 128) * ceil_of(n_rows, 128) * n_groups;
    bool floats = w->format == WEIGHT_F16 || w->format == WEIGHT_BF16;
    bool is_small = ctx->facts.shared_bytes < 132u << 10; /* of a tile of 128 rows and floats */
    if (n_rows <= TENSOR_FEW || n_tiles < ctx->facts.n_sms / 2)
        return cuda_tensor_few_shape(ctx, linear, n_rows, n_groups, parts);
    return (struct gpu_tensor_shape){
        .rows = floats && is_small ? 64 : 128, .many = true, .wgmma = ctx->wgmma};
}

static bool cuda_tensor_has_room_for_parts(const struct kernels_ctx *ctx,
                                           const struct gpu_linear *linear) {
    const struct gpu_matrix *w = &linear->choice.matrix;
    return (size_t)cuda_tensor_slices_of(w) * linear->n_rows * w->n_padded <= ctx->parts_floats;
}

/* What the product's parts are, for the next operation. */
static void cuda_tensor_hold_parts(struct kernels_ctx *ctx, const struct gpu_tensor *tensor) {
    const struct gpu_linear *linear = &tensor->linear;
    const struct gpu_matrix *w = &linear->choice.matrix;
    cuda_hold_sum(ctx, &(struct gpu_sum){.parts = tensor->parts,
                                         .scale = w->scale,
                                         .bias = w->bias,
                                         .out = linear->out,
                                         .out_stride = linear->out_stride,
                                         .n_slices = cuda_tensor_slices_of(w),
                                         .n_rows = linear->n_rows,
                                         .n = w->n,
                                         .n_padded = w->n_padded,
                                         .epilogue = linear->epilogue});
}

void cuda_linear_tensor(struct kernels_ctx *ctx, const struct gpu_linear *linear) {
    uint32_t most = ctx->ints_rows / 2;
    ASSERT(linear->choice.matrix.k_stored <= ctx->ints.n_groups * GROUP);
    for (uint32_t row = 0; row < linear->n_rows; row += most) {
        struct gpu_tensor part = {.linear = cuda_rows_of(linear, row, most)};
        part.linear.fine = false;
        part.linear.ints = ctx->ints;
        cuda_round_rows(ctx, &(struct gpu_round_rows){.matrix = part.linear.choice.matrix,
                                                      .to = ctx->ints,
                                                      .x = part.linear.x,
                                                      .n_rows = part.linear.n_rows,
                                                      .share = 1});
        part.shape = cuda_tensor_shape(ctx, &part.linear, part.linear.n_rows, 1,
                                       cuda_tensor_has_room_for_parts(ctx, &part.linear));
        if (part.shape.slices < cuda_tensor_slices_of(&linear->choice.matrix) && !part.shape.many)
            part.parts = ctx->parts;
        cuda_launch_linear_tensor(ctx, &part);
        if (part.parts)
            cuda_tensor_hold_parts(ctx, &part);
    }
}
