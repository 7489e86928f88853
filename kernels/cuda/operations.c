/* kernels/cuda/operations.c: the operations of kernels/kernels.h as launches. Which file has the kernel of a product: gpu/linear.cu. */
#include "kernels/cuda/operations.h"

#include "base/assert.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/spans.h"
#include "kernels/cuda/tensor.h"
#include "kernels/cuda/weight.h"
#include "kernels/limits.h"
#include "kernels/numbers.h"

static struct gpu_batch cuda_batch_of(const struct kernels_ctx *ctx,
                                      const struct kernels_batch *batch) {
    return (struct gpu_batch){.n_tokens = batch->n_tokens,
                              .n_seqs = batch->n_seqs,
                              .ids = batch->ids,
                              .positions = batch->positions,
                              .seq_begin = batch->seq_begin,
                              .seq_of = ctx->step.seq_of,
                              .block_tables = batch->block_tables,
                              .block_table_stride = batch->block_table_stride,
                              .variants = batch->variants};
}

static struct gpu_kv cuda_kv_of(const struct kernels_kv *kv) {
    return (struct gpu_kv){.base = kv->base, .block_bytes = kv->block_bytes, .format = kv->format};
}

static struct gpu_heads cuda_heads_of(const struct kernels_ctx *ctx, const struct kernels_kv *kv) {
    return (struct gpu_heads){.n_heads = ctx->limits.n_heads,
                              .n_kv_heads = kv->n_kv_heads,
                              .head_dim = kv->head_dim,
                              .max_context = ctx->limits.max_context};
}

void cuda_embed(struct kernels_ctx *ctx, float *out, const struct weight *table,
                const struct kernels_batch *batch, uint32_t id_begin) {
    if (batch->n_tokens > 0)
        cuda_launch_embed(ctx, &(struct gpu_embed){.out = out,
                                                   .table = cuda_matrix(table),
                                                   .ids = batch->ids,
                                                   .n_tokens = batch->n_tokens,
                                                   .id_begin = id_begin});
}

void cuda_norm(struct kernels_ctx *ctx, float *out, const float *x, const float *gain, float eps,
               uint32_t n_rows, uint32_t dim) {
    if (n_rows > 0)
        cuda_hold_norm(
            ctx, &(struct gpu_norm){
                     .out = out, .x = x, .gain = gain, .eps = eps, .n_rows = n_rows, .dim = dim});
}

void cuda_linear_ints(struct kernels_ctx *ctx, const struct gpu_linear *linear) {
    struct gpu_quantize quantize = {.choice = linear->choice,
                                    .to = ctx->ints,
                                    .x = linear->x,
                                    .n_rows = linear->n_rows,
                                    .share = linear->share,
                                    .fine = linear->fine};
    struct gpu_linear product = *linear;
    product.ints = ctx->ints;
    if (!cuda_norm_quantizes(ctx, &quantize))
        cuda_launch_quantize(ctx, &quantize);
    cuda_launch_linear_ints(ctx, &product);
}

/* As many rows at a time as there is room for their integers. */
static void cuda_linear_in_parts(struct kernels_ctx *ctx, const struct gpu_linear *linear) {
    uint32_t terms = linear->fine ? 2 : 1, most = ctx->ints_rows / terms;
    for (uint32_t row = 0; row < linear->n_rows; row += most) {
        struct gpu_linear part = cuda_rows_of(linear, row, most);
        cuda_linear_ints(ctx, &part);
    }
}

static bool cuda_weight_is_integers(const struct gpu_matrix *matrix) {
    return matrix->format == WEIGHT_I4G || matrix->format == WEIGHT_I8G;
}

void cuda_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                 const struct weight *weight, uint32_t n_rows, enum epilogue epilogue) {
    ASSERT(weight->k <= ctx->limits.max_dim);
    struct gpu_linear linear = {.choice = {.matrix = cuda_matrix(weight)},
                                .x = x,
                                .out = out,
                                .out_stride = out_stride,
                                .n_rows = n_rows,
                                .share = 1,
                                .epilogue = epilogue,
                                .fine = numbers_fine(weight, epilogue)};
    if (n_rows == 0)
        return;
    if (ctx->fast && weight->format != WEIGHT_F32) {
        cuda_linear_tensor(ctx, &linear);
        cuda_forget_rounded(ctx, out, (n_rows - 1) * out_stride + weight->n);
        return;
    }
    if (!cuda_weight_is_integers(&linear.choice.matrix)) {
        linear.fine = false;
        cuda_launch_linear_floats(ctx, &linear);
        cuda_forget_rounded(ctx, out, (n_rows - 1) * out_stride + weight->n);
        return;
    }
    ASSERT(weight->k_stored / GROUP <= ctx->ints.n_groups);
    cuda_linear_in_parts(ctx, &linear);
}

void cuda_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                   size_t n) {
    if (n > 0)
        cuda_launch_silu_mul(ctx,
                             &(struct gpu_silu_mul){.out = out, .gate = gate, .up = up, .n = n});
}

void cuda_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                    uint32_t n_rows, uint32_t dim) {
    if (n_rows > 0)
        cuda_launch_add_gated(ctx,
                              &(struct gpu_add_gated){
                                  .out = out, .x = x, .gate = gate, .n_rows = n_rows, .dim = dim});
}

void cuda_gather_rows(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *rows,
                      uint32_t n_rows, uint32_t dim) {
    if (n_rows > 0)
        cuda_launch_gather_rows(
            ctx, &(struct gpu_gather_rows){
                     .out = out, .x = x, .rows = rows, .n_rows = n_rows, .dim = dim});
}

void cuda_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                  const struct rope *rope, const struct kernels_kv *kv) {
    ASSERT(limits_are_of(&ctx->limits, kv));
    if (batch->n_tokens > 0)
        cuda_launch_rope_kv(ctx, &(struct gpu_rope_kv){.qkv = qkv,
                                                       .sum = cuda_take_sum(ctx, qkv),
                                                       .batch = cuda_batch_of(ctx, batch),
                                                       .rope = *rope,
                                                       .kv = cuda_kv_of(kv),
                                                       .heads = cuda_heads_of(ctx, kv)});
}

/* The tiles from `begin` on whose partial results fit: whole tokens. Answers how many. */
static uint32_t cuda_take_tiles(const struct kernels_ctx *ctx, struct gpu_attend *attend,
                                uint32_t begin, const uint32_t *seq_begin) {
    const struct cuda_step *step = &ctx->step;
    uint32_t group = attend->heads.n_heads / attend->heads.n_kv_heads, n = 0;
    size_t per_query = attend->heads.head_dim + 2;
    attend->n_chunks = 0;
    attend->n_few = 0;
    for (uint32_t i = begin; i < step->n_tiles; i++) {
        const struct gpu_tile *tile = &step->host_tiles[i];
        uint32_t first = seq_begin[tile->seq] + tile->first / group;
        uint32_t last = seq_begin[tile->seq] + (tile->first + tile->n - 1) / group;
        uint32_t chunks = step->n_chunks > 0 ? step->n_chunks : attend->n_chunks;
        for (uint32_t t = first; step->n_chunks == 0 && t <= last; t++)
            if (step->positions[t] / ATTEND_CHUNK + 1 > chunks)
                chunks = step->positions[t] / ATTEND_CHUNK + 1;
        if (n == 0)
            attend->token_begin = first;
        size_t n_tokens = last + 1 - attend->token_begin;
        if (n > 0 && n_tokens * chunks * attend->heads.n_heads * per_query > ctx->attend_floats)
            break; /* at a token's first tile: a later one takes no more room */
        attend->n_chunks = chunks;
        attend->token_end = last + 1;
        attend->n_few += tile->n <= attend->few;
        n++;
    }
    return n;
}

void cuda_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                 const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                 const float *alibi, uint32_t window) {
    struct gpu_attend attend = {.batch = cuda_batch_of(ctx, batch),
                                .heads = cuda_heads_of(ctx, kv),
                                .kv = cuda_kv_of(kv),
                                .qkv = qkv,
                                .out = out,
                                .scale = scale,
                                .alibi = alibi,
                                .window = window,
                                .few = ctx->step.few};
    ASSERT(limits_are_of(&ctx->limits, kv));
    if (ctx->step.spans.serves) {
        cuda_spans_attend(ctx, &attend);
        return;
    }
    for (uint32_t begin = 0; begin < ctx->step.n_tiles; begin += attend.n_tiles) {
        attend.n_tiles = cuda_take_tiles(ctx, &attend, begin, ctx->step.seq_begin);
        attend.tiles = ctx->step.tiles + begin;
        size_t n = (size_t)(attend.token_end - attend.token_begin) * attend.n_chunks *
                   attend.heads.n_heads;
        ASSERT(n * (attend.heads.head_dim + 2) <= ctx->attend_floats);
        attend.sums = ctx->attend; /* first: rows that begin at 16 bytes are read as such */
        attend.maxima = ctx->attend + n * attend.heads.head_dim;
        attend.totals = attend.maxima + n;
        cuda_launch_attend(ctx, &attend);
    }
}
