/* kernels/cuda/held.c: operations that wait for the next one, since one kernel may do both: a norm whose rows a product wants
 * rounded; the sums of a product's slices, which a norm, a rotation or the next product's rounding adds up on the way; the parts of
 * a group's ranks that are added to x, which a norm does too. What waits is launched by itself before anything else is. */
#include "kernels/cuda/held.h"

#include "kernels/cuda/graph.h"

static bool cuda_held_is_aligned(const void *p) {
    return (uintptr_t)p % 16 == 0;
}

void cuda_forget_rounded(struct kernels_ctx *ctx, const float *out, size_t n) {
    const struct cuda_rounded *is = &ctx->rounded;
    uintptr_t begin = (uintptr_t)is->x, end = begin + (size_t)is->n_rows * is->k * sizeof *out;
    if ((uintptr_t)out < end && begin < (uintptr_t)out + n * sizeof *out)
        ctx->rounded.x = NULL;
}

/* All at once; `rows` has the held norm and sum. */
static void cuda_held_launch_rows(struct kernels_ctx *ctx, const struct cuda_held *held,
                                  const struct gpu_norm_rows *rows) {
    if (held->ranks.n > 0)
        cuda_record_norm_ranks(ctx, &(struct gpu_norm_ranks){.rows = *rows,
                                                             .group = held->ranks.group,
                                                             .part = held->ranks.part,
                                                             .x = held->ranks.x});
    else
        cuda_record_norm_rows(ctx, rows);
}

static void cuda_held_launch_norm(struct kernels_ctx *ctx, const struct cuda_held *held) {
    if (ctx->fast)
        cuda_held_launch_rows(ctx, held,
                              &(struct gpu_norm_rows){.norm = held->norm, .sum = held->sum});
    else
        cuda_record_norm(ctx, &held->norm);
}

void cuda_release(struct kernels_ctx *ctx) {
    struct cuda_held held = ctx->held;
    ctx->held = (struct cuda_held){0};
    if (held.norm.n_rows > 0) {
        cuda_held_launch_norm(ctx, &held);
        return;
    }
    if (held.sum.parts)
        cuda_record_sum_rows(ctx, &held.sum);
    if (held.ranks.n > 0)
        cuda_record_sum_ranks(ctx, &held.ranks);
    if (held.join.n_tiles > 0)
        cuda_record_join_spans(ctx, &held.join);
}

/* Rows (n_rows, n) side by side are all that the held sum comes to. */
static bool cuda_held_sum_is_of(const struct gpu_sum *sum, const float *x, uint32_t n_rows,
                                uint32_t n) {
    return sum->parts && sum->out == x && sum->n_rows == n_rows && sum->n == n &&
           sum->out_stride == n && sum->epilogue != EPILOGUE_SILU_MUL;
}

/* A norm of all that the held sums come to. */
static bool cuda_held_norm_follows(const struct cuda_held *held, const struct gpu_norm *norm) {
    const float *summed = held->ranks.n > 0 ? held->ranks.part : norm->x;
    bool of_sum = cuda_held_sum_is_of(&held->sum, summed, norm->n_rows, norm->dim);
    if (held->ranks.n == 0)
        return of_sum;
    return (of_sum || !held->sum.parts) && held->ranks.x == norm->x &&
           held->ranks.n == (size_t)norm->n_rows * norm->dim && norm->dim % 4 == 0 &&
           cuda_held_is_aligned(norm->out) && cuda_held_is_aligned(norm->gain);
}

void cuda_hold_norm(struct kernels_ctx *ctx, const struct gpu_norm *norm) {
    if (ctx->held.norm.n_rows > 0 || !cuda_held_norm_follows(&ctx->held, norm))
        cuda_release(ctx);
    ctx->held.norm = *norm;
    cuda_forget_rounded(ctx, norm->out, (size_t)norm->n_rows * norm->dim);
}

void cuda_hold_sum(struct kernels_ctx *ctx, const struct gpu_sum *sum) {
    cuda_release(ctx);
    ctx->held.sum = *sum;
}

void cuda_hold_ranks(struct kernels_ctx *ctx, const struct gpu_sum_ranks *ranks) {
    const struct gpu_sum *sum = &ctx->held.sum;
    bool goes_on = ctx->held.norm.n_rows == 0 && ctx->held.ranks.n == 0 && sum->n > 0 &&
                   ranks->n % sum->n == 0 &&
                   cuda_held_sum_is_of(sum, ranks->part, ranks->n / sum->n, sum->n);
    if (!goes_on)
        cuda_release(ctx);
    ctx->held.ranks = *ranks;
}

void cuda_hold_join(struct kernels_ctx *ctx, const struct gpu_attend *join) {
    cuda_release(ctx);
    ctx->held.join = *join;
}

struct gpu_sum cuda_take_sum(struct kernels_ctx *ctx, const float *qkv) {
    struct gpu_sum sum = ctx->held.sum;
    if (ctx->held.norm.n_rows > 0 || ctx->held.ranks.n > 0 || sum.out != qkv ||
        sum.epilogue != EPILOGUE_NONE)
        return (struct gpu_sum){0};
    ctx->held.sum = (struct gpu_sum){0};
    return sum;
}

/* Rows of a norm, as they lie. */
bool cuda_norm_quantizes(struct kernels_ctx *ctx, const struct gpu_quantize *quantize) {
    const struct gpu_matrix *matrix = &quantize->choice.matrix;
    struct gpu_norm *norm = &ctx->held.norm;
    if (norm->n_rows == 0 || norm->n_rows != quantize->n_rows || norm->out != quantize->x ||
        norm->dim != matrix->k || norm->dim != matrix->k_stored || matrix->order ||
        quantize->choice.table || !cuda_held_is_aligned(norm->out) ||
        !cuda_held_is_aligned(norm->x) || !cuda_held_is_aligned(norm->gain))
        return false;
    norm->quantizes = true;
    norm->fine = quantize->fine;
    norm->ints = quantize->to;
    cuda_release(ctx);
    return true;
}

/* A product of rows that the held sum comes to behind its gates. */
static bool cuda_held_rounding_follows(const struct gpu_sum *sum,
                                       const struct gpu_round_rows *round) {
    return sum->parts && sum->out == round->x && sum->n_rows == round->n_rows &&
           sum->n / 2 == round->matrix.k && sum->out_stride == round->matrix.k &&
           sum->epilogue == EPILOGUE_SILU_MUL;
}

/* A product of all that attention has left. */
static bool cuda_held_joining_follows(const struct gpu_attend *join,
                                      const struct gpu_round_rows *round) {
    return join->n_tiles > 0 && join->out == round->x && join->batch.n_tokens == round->n_rows &&
           join->heads.n_heads * join->heads.head_dim == round->matrix.k &&
           join->heads.head_dim % 32 == 0 && !round->matrix.order;
}

/* What the rounded rows are, unless they depend on a matrix's order. */
static struct cuda_rounded cuda_held_rounded_of(const struct gpu_round_rows *round) {
    const struct gpu_matrix *w = &round->matrix;
    bool floats = w->format == WEIGHT_F16 || w->format == WEIGHT_BF16;
    if (w->order || round->table || round->share != 1 || round->to.q == NULL)
        return (struct cuda_rounded){0};
    return (struct cuda_rounded){round->x, round->n_rows, w->k, floats ? w->format : WEIGHT_I4G};
}

static void cuda_held_launch_round(struct kernels_ctx *ctx, const struct gpu_round_rows *round) {
    struct cuda_held held = ctx->held;
    struct gpu_round_rows with = *round;
    if (held.norm.n_rows > 0 && !round->table && held.norm.n_rows == round->n_rows &&
        held.norm.out == round->x && held.norm.dim == round->matrix.k &&
        held.norm.dim <= GPU_NORM_ROUNDS) {
        ctx->held = (struct cuda_held){0};
        cuda_held_launch_rows(ctx, &held,
                              &(struct gpu_norm_rows){.norm = held.norm,
                                                      .sum = held.sum,
                                                      .matrix = round->matrix,
                                                      .to = round->to,
                                                      .rounds = true});
        return;
    }
    if (cuda_held_joining_follows(&held.join, round)) {
        ctx->held = (struct cuda_held){0};
        cuda_record_join_rows(
            ctx,
            &(struct gpu_join_rows){.join = held.join, .matrix = round->matrix, .to = round->to});
        return;
    }
    if (held.norm.n_rows == 0 && cuda_held_rounding_follows(&held.sum, round)) {
        ctx->held.sum = (struct gpu_sum){0};
        with.sum = held.sum;
    }
    cuda_release(ctx);
    cuda_record_round_rows(ctx, &with);
}

void cuda_round_rows(struct kernels_ctx *ctx, const struct gpu_round_rows *round) {
    struct cuda_rounded wanted = cuda_held_rounded_of(round), *is = &ctx->rounded;
    if (wanted.x && wanted.x == is->x && wanted.n_rows == is->n_rows && wanted.k == is->k &&
        wanted.format == is->format)
        return;
    cuda_held_launch_round(ctx, round);
    ctx->rounded = wanted;
}
