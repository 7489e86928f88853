/* kernels/cuda/experts.c: mixtures of experts. Which rows go to which expert is known to the device alone, so a
 * kernel reads its matrix from a table there; the tables are made when a layer's experts are first seen. */
#include "kernels/cuda/experts.h"

#include "base/assert.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/tensor.h"
#include "kernels/cuda/weight.h"
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

/* Whether the same kernel takes both: their numbers are stored alike; their inputs may differ. */
static bool cuda_experts_are_alike(const struct gpu_matrix *a, const struct gpu_matrix *b) {
    return a->format == b->format && a->n == b->n && a->wide == b->wide && a->zeros == b->zeros &&
           a->groups_per_scale == b->groups_per_scale && !a->mins == !b->mins;
}

static const struct cuda_experts *
cuda_experts_add_table(struct kernels_ctx *ctx, const struct gpu_matrix *matrices, uint32_t n) {
    struct cuda_experts *list = realloc(ctx->experts, (ctx->n_experts + 1) * sizeof *ctx->experts);
    ASSERT(list); /* once a layer, some kilobytes */
    ctx->experts = list;
    struct cuda_experts made = {.host = malloc(n * sizeof *made.host), .n = n, .is_uniform = true};
    made.device = cuda_alloc(ctx, n * sizeof *made.device);
    ASSERT(made.host && made.device);
    memcpy(made.host, matrices, n * sizeof *made.host);
    for (uint32_t i = 0; i < n; i++) {
        made.is_uniform &= cuda_experts_are_alike(&matrices[i], &matrices[0]);
        made.is_ordered |= matrices[i].order != NULL;
    }
    cuda_put(ctx, made.device, made.host, n * sizeof *made.host);
    ctx->experts[ctx->n_experts] = made;
    return &ctx->experts[ctx->n_experts++];
}

/* The experts' matrices on the device; in *shape the widest of them. */
static const struct cuda_experts *cuda_experts_table_of(struct kernels_ctx *ctx,
                                                        const struct weight *weights, uint32_t n,
                                                        struct gpu_matrix *shape) {
    struct gpu_matrix matrices[EXPERTS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        matrices[i] = cuda_matrix(&weights[i]);
        if (i == 0 || matrices[i].k_stored > shape->k_stored)
            *shape = matrices[i];
    }
    for (uint32_t i = 0; i < ctx->n_experts; i++)
        if (ctx->experts[i].n == n &&
            memcmp(ctx->experts[i].host, matrices, n * sizeof *matrices) == 0)
            return &ctx->experts[i];
    return cuda_experts_add_table(ctx, matrices, n);
}

/* Pairs of a row and one of its experts that go through the matrices at once, so that an expert is read once for all of its rows:
 * those of 2,048 rows with 8 experts each. More go in waves. */
#define WAVE_PAIRS 16384

static uint32_t cuda_experts_wave_rows(uint32_t n_rows, uint32_t n_active) {
    uint32_t most = WAVE_PAIRS / n_active;
    return n_rows < most ? n_rows : most;
}

/* What a wave needs of memory, by pair: what the first product makes, what the second makes, and the order of the pairs. */
size_t cuda_moe_scratch(uint32_t n_rows, uint32_t n_active, uint32_t dim, uint32_t expert_dim) {
    size_t order = 1 + sizeof(struct gpu_group) / sizeof(float);
    return (size_t)cuda_experts_wave_rows(n_rows, n_active) * n_active * (expert_dim + dim + order);
}

/* One of the two products of a mixture. */
struct expert_product {
    const struct weight *weights; /* (n_experts) */
    struct cuda_experts experts;  /* their list may grow behind */
    struct gpu_matrix shape;
    uint32_t n_experts;
    bool in_groups; /* on tensor cores: the pairs of each expert lie together */
    const float *x;
    uint32_t share; /* pairs that read one row of x */
    float *out;     /* (pairs, out_stride) */
    size_t out_stride;
    enum epilogue epilogue;
};

static void cuda_experts_find(struct kernels_ctx *ctx, struct expert_product *product) {
    product->experts =
        *cuda_experts_table_of(ctx, product->weights, product->n_experts, &product->shape);
    product->in_groups =
        ctx->fast && product->experts.is_uniform && product->shape.format != WEIGHT_F32;
}

/* Whether a row is rounded once for each of its pairs: its experts have their inputs in orders of their own. */
static bool cuda_experts_rounds_pairs(const struct expert_product *product) {
    return product->experts.is_ordered;
}

/* Pairs whose rows of x the context has room for, rounded. */
static uint64_t cuda_experts_pairs_rounded(const struct kernels_ctx *ctx,
                                           const struct expert_product *product) {
    if (!product->in_groups)
        return ctx->ints_rows / 2; /* of both terms */
    uint64_t n_bytes = (uint64_t)ctx->ints_rows * ctx->ints.n_groups * GROUP;
    uint32_t row = (product->shape.k_stored + TENSOR_CHUNK - 1) / TENSOR_CHUNK * TENSOR_CHUNK * 2;
    return n_bytes / row * (cuda_experts_rounds_pairs(product) ? 1 : product->share);
}

static void cuda_experts_multiply(struct kernels_ctx *ctx, const struct expert_product *product,
                                  const struct gpu_linear *linear) {
    const struct weight *first = &product->weights[0];
    struct gpu_linear part = *linear;
    if (first->format != WEIGHT_I4G && first->format != WEIGHT_I8G) {
        cuda_launch_linear_floats(ctx, &part);
        return;
    }
    part.fine = numbers_fine(first, product->epilogue);
    cuda_linear_ints(ctx, &part);
}

/* Rows of a group: about as many as an expert has, so that most experts are one group. */
static uint32_t cuda_experts_rows_of_group(const struct kernels_ctx *ctx,
                                           const struct gpu_linear *linear, uint32_t n_experts,
                                           struct gpu_tensor_shape *shape) {
    uint32_t n_used = linear->n_rows < n_experts ? linear->n_rows : n_experts;
    uint32_t n_each = (linear->n_rows + n_used - 1) / n_used;
    *shape = cuda_tensor_shape(ctx, linear, n_each, n_used, false);
    return shape->rows;
}

/* Fast numerics, on tensor cores: the pairs of each expert stand together in groups, which all but the first product of a wave
 * find made (plan, whose memory is given). */
static void cuda_experts_multiply_groups(struct kernels_ctx *ctx,
                                         const struct expert_product *product,
                                         const struct gpu_linear *linear,
                                         struct gpu_moe_plan *plan) {
    struct gpu_tensor tensor = {.linear = *linear};
    uint32_t n_pairs = linear->n_rows;
    uint32_t rows = cuda_experts_rows_of_group(ctx, linear, product->n_experts, &tensor.shape);
    if (plan->rows != rows) {
        uint32_t n_used = n_pairs < product->n_experts ? n_pairs : product->n_experts;
        uint32_t n_most = n_used + n_pairs / rows;
        plan->ids = linear->choice.ids;
        plan->n_pairs = n_pairs;
        plan->n_experts = product->n_experts;
        plan->rows = rows;
        plan->n_groups = n_most < n_pairs ? n_most : n_pairs;
        cuda_launch_moe_plan(ctx, plan);
    }
    bool by_pair = cuda_experts_rounds_pairs(product);
    cuda_round_rows(ctx,
                    &(struct gpu_round_rows){.matrix = linear->choice.matrix,
                                             .to = ctx->ints,
                                             .x = linear->x,
                                             .table = by_pair ? linear->choice.table : NULL,
                                             .ids = by_pair ? linear->choice.ids : NULL,
                                             .n_rows = by_pair ? n_pairs : n_pairs / linear->share,
                                             .share = by_pair ? linear->share : 1});
    tensor.linear.ints = ctx->ints;
    tensor.groups = (struct gpu_groups){.list = plan->groups,
                                        .pairs = plan->pairs,
                                        .n = plan->n_groups,
                                        .x_share = by_pair ? 1 : linear->share};
    cuda_launch_linear_tensor(ctx, &tensor);
}

static void cuda_experts_multiply_chosen(struct kernels_ctx *ctx,
                                         const struct expert_product *product, const uint32_t *ids,
                                         uint32_t n_pairs, struct gpu_moe_plan *plan) {
    struct gpu_linear linear = {
        .choice = {.matrix = product->shape, .table = product->experts.device, .ids = ids},
        .x = product->x,
        .out = product->out,
        .out_stride = product->out_stride,
        .n_rows = n_pairs,
        .share = product->share,
        .epilogue = product->epilogue};
    if (product->in_groups)
        cuda_experts_multiply_groups(ctx, product, &linear, plan);
    else
        cuda_experts_multiply(ctx, product, &linear);
}

void cuda_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                  const float *weights, uint32_t n_rows, uint32_t n_active,
                  const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                  float *scratch) {
    uint32_t dim = gate_up[0].k, inner_dim = gate_up[0].n / 2;
    struct expert_product up = {.weights = gate_up,
                                .n_experts = n_experts,
                                .share = n_active,
                                .out_stride = inner_dim,
                                .epilogue = EPILOGUE_SILU_MUL};
    struct expert_product back = {.weights = down,
                                  .n_experts = n_experts,
                                  .share = 1,
                                  .out_stride = dim,
                                  .epilogue = EPILOGUE_NONE};
    ASSERT(n_experts <= EXPERTS_MAX);
    cuda_experts_find(ctx, &up);
    cuda_experts_find(ctx, &back);
    uint64_t most = cuda_experts_pairs_rounded(ctx, &up),
             most_back = cuda_experts_pairs_rounded(ctx, &back);
    most = (most_back < most ? most_back : most) / n_active;
    ASSERT(most > 0);
    uint32_t wave = cuda_experts_wave_rows(n_rows, n_active); /* whose pairs fit the scratch */
    wave = wave < most ? wave : (uint32_t)most;
    size_t n_pairs = (size_t)wave * n_active;
    float *inner = scratch, *outer = inner + n_pairs * inner_dim, *order = outer + n_pairs * dim;
    back.x = up.out = inner;
    back.out = outer;
    for (uint32_t row = 0; row < n_rows; row += wave) {
        uint32_t rows = n_rows - row < wave ? n_rows - row : wave;
        const uint32_t *chosen = ids + (size_t)row * n_active;
        struct gpu_moe_plan plan = {.pairs = (uint32_t *)(void *)order,
                                    .groups = (struct gpu_group *)(void *)(order + n_pairs)};
        up.x = x + (size_t)row * dim;
        cuda_experts_multiply_chosen(ctx, &up, chosen, rows * n_active, &plan);
        cuda_experts_multiply_chosen(ctx, &back, chosen, rows * n_active, &plan);
        cuda_launch_moe_add(ctx, &(struct gpu_moe_add){.out = out + (size_t)row * dim,
                                                       .outer = outer,
                                                       .ids = chosen,
                                                       .weights = weights + (size_t)row * n_active,
                                                       .n_rows = rows,
                                                       .n_active = n_active,
                                                       .dim = dim});
    }
}
