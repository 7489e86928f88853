/* kernels/cuda/experts.c: mixtures of experts. Which rows go to which expert is known to the device alone, so a
 * kernel reads its matrix from a table there; the tables are made when a layer's experts are first seen. */
#include "base/assert.h"
#include "kernels/cuda/cuda.h"
#include "kernels/limits.h"
#include "kernels/numbers.h"

#include <stdlib.h>
#include <string.h>

void cuda_experts_close(struct kernels_ctx *ctx) {
    for (uint32_t i = 0; i < ctx->n_experts; i++) {
        free(ctx->experts[i].host);
        cuda_dealloc(ctx, ctx->experts[i].device, 0);
    }
    free(ctx->experts);
}

void cuda_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                    uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise) {
    ASSERT(n_experts <= EXPERTS_MAX);
    ASSERT(n_active >= 1 && n_active <= n_experts);
    if (n_rows > 0)
        cuda_launch_moe_route(ctx, &(struct gpu_moe_route){.ids = ids,
                                                           .weights = weights,
                                                           .logits = logits,
                                                           .n_rows = n_rows,
                                                           .n_experts = n_experts,
                                                           .n_active = n_active,
                                                           .normalise = normalise});
}

static struct gpu_matrix *add_table(struct kernels_ctx *ctx, const struct gpu_matrix *matrices,
                                    uint32_t n) {
    struct cuda_experts *list = realloc(ctx->experts, (ctx->n_experts + 1) * sizeof *ctx->experts);
    ASSERT(list); /* once a layer, some kilobytes */
    ctx->experts = list;
    struct cuda_experts made = {.host = malloc(n * sizeof *made.host), .n = n};
    made.device = cuda_alloc(ctx, n * sizeof *made.device);
    ASSERT(made.host && made.device);
    memcpy(made.host, matrices, n * sizeof *made.host);
    cuda_put(ctx, made.device, made.host, n * sizeof *made.host);
    ctx->experts[ctx->n_experts++] = made;
    return made.device;
}

/* The experts' matrices on the device; in *shape the widest of them. */
static const struct gpu_matrix *table_of(struct kernels_ctx *ctx, const struct weight *weights,
                                         uint32_t n, struct gpu_matrix *shape) {
    struct gpu_matrix matrices[EXPERTS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        matrices[i] = cuda_matrix(&weights[i]);
        if (i == 0 || matrices[i].k_stored > shape->k_stored)
            *shape = matrices[i];
    }
    for (uint32_t i = 0; i < ctx->n_experts; i++)
        if (ctx->experts[i].n == n &&
            memcmp(ctx->experts[i].host, matrices, n * sizeof *matrices) == 0)
            return ctx->experts[i].device;
    return add_table(ctx, matrices, n);
}

/* One of the two products of a mixture. */
struct product {
    const struct weight *weights; /* (n_experts) */
    uint32_t n_experts;
    const float *x;
    uint32_t share; /* pairs that read one row of x */
    float *out;     /* (pairs, out_stride) */
    size_t out_stride;
    enum epilogue epilogue;
};

static void multiply(struct kernels_ctx *ctx, const struct product *product, const uint32_t *ids,
                     uint32_t n_pairs) {
    const struct weight *first = &product->weights[0];
    struct gpu_linear linear = {.choice.ids = ids,
                                .x = product->x,
                                .out = product->out,
                                .out_stride = product->out_stride,
                                .n_rows = n_pairs,
                                .share = product->share,
                                .epilogue = product->epilogue};
    linear.choice.table =
        table_of(ctx, product->weights, product->n_experts, &linear.choice.matrix);
    if (first->format != WEIGHT_I4G && first->format != WEIGHT_I8G) {
        cuda_launch_linear_floats(ctx, &linear);
        return;
    }
    linear.fine = numbers_fine(first, product->epilogue);
    cuda_linear_ints(ctx, &linear);
}

void cuda_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                  const float *weights, uint32_t n_rows, uint32_t n_active,
                  const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                  float *scratch) {
    uint32_t dim = gate_up[0].k, inner_dim = gate_up[0].n / 2;
    uint32_t wave = moe_wave(n_rows, n_active) / n_active; /* rows whose pairs fit the scratch */
    uint32_t most = ctx->ints_rows / 2 / n_active;
    ASSERT(n_experts <= EXPERTS_MAX);
    ASSERT(most > 0);
    wave = wave < most ? wave : most;
    float *inner = scratch, *outer = scratch + (size_t)wave * n_active * inner_dim;
    for (uint32_t row = 0; row < n_rows; row += wave) {
        uint32_t rows = n_rows - row < wave ? n_rows - row : wave;
        const uint32_t *chosen = ids + (size_t)row * n_active;
        struct product up = {gate_up, n_experts, x + (size_t)row * dim, n_active,
                             inner,   inner_dim, EPILOGUE_SILU_MUL};
        struct product back = {down, n_experts, inner, 1, outer, dim, EPILOGUE_NONE};
        multiply(ctx, &up, chosen, rows * n_active);
        multiply(ctx, &back, chosen, rows * n_active);
        cuda_launch_moe_add(ctx, &(struct gpu_moe_add){.out = out + (size_t)row * dim,
                                                       .outer = outer,
                                                       .ids = chosen,
                                                       .weights = weights + (size_t)row * n_active,
                                                       .n_rows = rows,
                                                       .n_active = n_active,
                                                       .dim = dim});
    }
}
