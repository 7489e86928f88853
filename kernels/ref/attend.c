#include "kernels/ref/ref.h"

#include "base/assert.h"
#include "kernels/limits.h"

static void *ref_block_at(const struct kernels_kv *kv, const struct kernels_batch *batch,
                          uint32_t seq, uint32_t position) {
    uint32_t block =
        batch->block_tables[(size_t)seq * batch->block_table_stride + position / KV_BLOCK_TOKENS];
    return (char *)kv->base + (size_t)block * kv->block_bytes;
}

static float ref_kv_load(const struct kernels_kv *kv, const void *block, size_t index) {
    return kv->format == KV_F32 ? ((const float *)block)[index]
                                : half_to_float(((const uint16_t *)block)[index]);
}

static void ref_kv_store(const struct kernels_kv *kv, void *block, size_t index, float value) {
    if (kv->format == KV_F32)
        ((float *)block)[index] = value;
    else
        ((uint16_t *)block)[index] = float_to_half(value);
}

static size_t ref_k_index(const struct kernels_kv *kv, uint32_t head, uint32_t d,
                          uint32_t position) {
    return ((size_t)head * kv->head_dim + d) * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS;
}

static size_t ref_v_index(const struct kernels_kv *kv, uint32_t head, uint32_t d,
                          uint32_t position) {
    size_t token = (size_t)(kv->n_kv_heads + head) * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS;
    return token * kv->head_dim + d;
}

/* (a, b) -> (a cos - b sin, b cos + a sin), each as one product and one FMA. */
static void ref_rotate(float *a, float *b, float cosine, float sine) {
    float first = fmaf(*a, cosine, -(*b * sine));
    *b = fmaf(*b, cosine, *a * sine);
    *a = first;
}

/* `table`: row of the cosines and sines. */
static void ref_rope_head(float *x, const struct rope *rope, size_t table) {
    uint32_t half = rope->dims / 2;
    const float *cosines = rope->cos + table * half;
    const float *sines = rope->sin + table * half;
    for (uint32_t i = 0; i < half; i++) {
        if (rope->layout == ROPE_HALF_SPLIT)
            ref_rotate(&x[i], &x[i + half], cosines[i], sines[i]);
        else
            ref_rotate(&x[2 * i], &x[2 * i + 1], cosines[i], sines[i]);
    }
}

static void ref_rope_token(const struct kernels_ctx *ctx, float *row, uint32_t position,
                           const struct rope *rope, uint32_t variant) {
    uint32_t n_heads = ctx->limits.n_heads;
    uint32_t dim = ctx->limits.head_dim;
    for (uint32_t h = 0; h < n_heads + ctx->limits.n_kv_heads; h++) {
        float *head = row + (size_t)h * dim;
        if (rope->q_norm)
            ref_norm_row(head, head, h < n_heads ? rope->q_norm : rope->k_norm, rope->norm_eps,
                         dim);
        if (rope->layout != ROPE_NONE)
            ref_rope_head(head, rope, (size_t)variant * ctx->limits.max_context + position);
    }
    if (rope->q_scale)
        for (uint32_t i = 0; i < n_heads * dim; i++)
            row[i] *= rope->q_scale[position];
}

void ref_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                 const struct rope *rope, const struct kernels_kv *kv) {
    ASSERT(limits_are_of(&ctx->limits, kv));
    uint32_t saved = numbers_enter();
    uint32_t n_heads = ctx->limits.n_heads;
    size_t stride = (size_t)(n_heads + 2 * kv->n_kv_heads) * kv->head_dim;
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++)
        for (uint32_t t = batch->seq_begin[seq]; t < batch->seq_begin[seq + 1]; t++) {
            float *row = qkv + t * stride;
            uint32_t position = batch->positions[t];
            ref_rope_token(ctx, row, position, rope, batch->variants ? batch->variants[seq] : 0);
            const float *k = row + (size_t)n_heads * kv->head_dim;
            const float *v = k + (size_t)kv->n_kv_heads * kv->head_dim;
            void *block = ref_block_at(kv, batch, seq, position);
            for (uint32_t h = 0; h < kv->n_kv_heads; h++)
                for (uint32_t d = 0; d < kv->head_dim; d++) {
                    ref_kv_store(kv, block, ref_k_index(kv, h, d, position), *k++);
                    ref_kv_store(kv, block, ref_v_index(kv, h, d, position), *v++);
                }
        }
    numbers_leave(saved);
}

/* One query head of one token: where it looks and how. */
struct query {
    const float *q; /* (head_dim) */
    uint32_t seq;   /* in the batch */
    uint32_t kv_head;
    uint32_t position; /* last key seen */
    uint32_t begin;    /* first key seen */
    float scale;
    float slope; /* ALiBi */
    bool has_slope;
};

static float ref_attend_score(const struct query *query, const struct kernels_batch *batch,
                              const struct kernels_kv *kv, uint32_t j) {
    const void *block = ref_block_at(kv, batch, query->seq, j);
    float dot = 0.0f;
    for (uint32_t d = 0; d < kv->head_dim; d++)
        dot = fmaf(query->q[d], ref_kv_load(kv, block, ref_k_index(kv, query->kv_head, d, j)), dot);
    float s = dot * query->scale;
    if (query->has_slope)
        s = fmaf(query->slope, (float)((int32_t)j - (int32_t)query->position), s);
    return s;
}

/* Softmax over the keys [begin, end) of one chunk: their maximum and the sum of exp(score - max),
 * and in `sums` the values weighted by these, token by token. */
static void ref_attend_chunk(struct kernels_ctx *ctx, const struct query *query,
                             const struct kernels_batch *batch, const struct kernels_kv *kv,
                             uint32_t begin, uint32_t end, float *max, float *total, float *sums) {
    *max = -INFINITY;
    for (uint32_t j = begin; j < end; j++) {
        ctx->scores[j - begin] = ref_attend_score(query, batch, kv, j);
        *max = *max > ctx->scores[j - begin] ? *max : ctx->scores[j - begin];
    }
    float lanes[NUMBERS_LANES] = {0};
    memset(sums, 0, kv->head_dim * sizeof *sums);
    for (uint32_t j = begin; j < end; j++) {
        float p = numbers_exp(ctx->scores[j - begin] - *max);
        lanes[j % NUMBERS_LANES] += p;
        const void *block = ref_block_at(kv, batch, query->seq, j);
        for (uint32_t d = 0; d < kv->head_dim; d++)
            sums[d] =
                fmaf(p, ref_kv_load(kv, block, ref_v_index(kv, query->kv_head, d, j)), sums[d]);
    }
    *total = numbers_tree(lanes);
}

static void ref_attend_query(struct kernels_ctx *ctx, const struct query *query,
                             const struct kernels_batch *batch, const struct kernels_kv *kv,
                             float *out) {
    float max = 0.0f;
    float total = 0.0f;
    float *chunk_sums = ctx->values;
    for (uint32_t c = query->begin / ATTEND_CHUNK; c <= query->position / ATTEND_CHUNK; c++) {
        uint32_t begin = c * ATTEND_CHUNK;
        uint32_t end = begin + ATTEND_CHUNK;
        begin = begin < query->begin ? query->begin : begin;
        end = end > query->position + 1 ? query->position + 1 : end;
        float chunk_max;
        float chunk_total;
        bool first = c == query->begin / ATTEND_CHUNK;
        ref_attend_chunk(ctx, query, batch, kv, begin, end, &chunk_max, &chunk_total,
                         first ? out : chunk_sums);
        if (first) {
            max = chunk_max;
            total = chunk_total;
            continue;
        }
        float both = max > chunk_max ? max : chunk_max;
        float keep = numbers_exp(max - both);
        float add = numbers_exp(chunk_max - both);
        total = fmaf(total, keep, chunk_total * add);
        for (uint32_t d = 0; d < kv->head_dim; d++)
            out[d] = fmaf(out[d], keep, chunk_sums[d] * add);
        max = both;
    }
    for (uint32_t d = 0; d < kv->head_dim; d++)
        out[d] = out[d] / total;
}

void ref_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                const float *alibi, uint32_t window) {
    ASSERT(limits_are_of(&ctx->limits, kv));
    uint32_t saved = numbers_enter();
    uint32_t n_heads = ctx->limits.n_heads;
    size_t stride = (size_t)(n_heads + 2 * kv->n_kv_heads) * kv->head_dim;
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++)
        for (uint32_t t = batch->seq_begin[seq]; t < batch->seq_begin[seq + 1]; t++) {
            uint32_t position = batch->positions[t];
            for (uint32_t h = 0; h < n_heads; h++) {
                struct query query = {
                    .q = qkv + t * stride + (size_t)h * kv->head_dim,
                    .seq = seq,
                    .kv_head = h / (n_heads / kv->n_kv_heads),
                    .position = position,
                    .begin = window != 0 && position >= window ? position - window + 1 : 0,
                    .scale = scale,
                    .slope = alibi ? alibi[h] : 0.0f,
                    .has_slope = alibi != NULL,
                };
                ref_attend_query(ctx, &query, batch, kv,
                                 out + ((size_t)t * n_heads + h) * kv->head_dim);
            }
        }
    numbers_leave(saved);
}
