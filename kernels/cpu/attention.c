/* kernels/cpu/attention.c: tokens, and sequences by key-value head, shared out over the pool. */
#include "kernels/cpu/cpu.h"

#include "base/assert.h"
#include "kernels/limits.h"

#define ROPE_TOKENS_MIN 4 /* one takes about a microsecond: fewer are not worth a second thread */

struct tokens_job {
    const struct kernels_ctx *ctx;
    const struct kernels_batch *batch;
    const struct kernels_kv *kv;
    uint32_t n_spans;
    /* rope_kv */
    const struct rope *rope;
    float *qkv_out;
    /* attend */
    float *out;
    const float *qkv;
    uint32_t n_parts; /* of the query heads of a key-value head */
    uint32_t n_heads_part;
    float scale;
    const float *alibi;
    uint32_t window;
};

static size_t cpu_qkv_stride(const struct kernels_ctx *ctx) {
    return (size_t)(ctx->limits.n_heads + 2 * ctx->limits.n_kv_heads) * ctx->limits.head_dim;
}

/* Cuts each sequence's tokens into spans; gives their number. */
static uint32_t cpu_attend_cut(struct kernels_ctx *ctx, const struct kernels_batch *batch) {
    ASSERT(batch->n_tokens <= ctx->limits.max_tokens);
    uint32_t n = 0;
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++) {
        uint32_t end = batch->seq_begin[seq + 1];
        for (uint32_t token = batch->seq_begin[seq]; token < end; token += SPAN_TOKENS) {
            uint32_t left = end - token;
            ctx->spans[n++] = (struct span){seq, token, left < SPAN_TOKENS ? left : SPAN_TOKENS};
        }
    }
    return n;
}

static void cpu_rope_span(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct tokens_job *job = arg;
    const struct span *span = &job->ctx->spans[item];
    const struct kernels_batch *batch = job->batch;
    const uint32_t *blocks = batch->block_tables + (size_t)span->seq * batch->block_table_stride;
    uint32_t table = batch->variants ? batch->variants[span->seq] : 0;
    bool has_angles = job->rope->layout != ROPE_NONE;
    ASSERT(!has_angles || table == 0 || table < job->rope->n_variants);
    for (uint32_t t = span->token; t < span->token + span->n_tokens; t++) {
        uint32_t position = batch->positions[t];
        size_t offset = blocks[position / KV_BLOCK_TOKENS] * job->kv->block_bytes;
        size_t row = (size_t)table * job->ctx->limits.max_context + position;
        size_t angles = row * (job->rope->dims / 2);
        struct rope_job rope = {
            .rope = job->rope,
            .kv = job->kv,
            .cos = has_angles ? job->rope->cos + angles : NULL,
            .sin = has_angles ? job->rope->sin + angles : NULL,
            .n_heads = job->ctx->limits.n_heads,
            .position = position,
            .row = job->qkv_out + t * cpu_qkv_stride(job->ctx),
            .block = (char *)job->kv->base + offset,
        };
        job->ctx->path->rope_kv(&rope);
    }
}

void cpu_rope_kv(struct kernels_ctx *ctx, float *qkv, const struct kernels_batch *batch,
                 const struct rope *rope, const struct kernels_kv *kv) {
    ASSERT(limits_are_of(&ctx->limits, kv));
    ASSERT(rope->dims <= kv->head_dim && rope->dims % 2 == 0);
    uint32_t saved = numbers_enter();
    struct tokens_job job = {.ctx = ctx, .batch = batch, .kv = kv, .rope = rope, .qkv_out = qkv};
    uint32_t n_spans = cpu_attend_cut(ctx, batch);
    if (batch->n_tokens > ROPE_TOKENS_MIN)
        thread_pool_run(ctx->pool, n_spans, cpu_rope_span, &job);
    else
        for (uint32_t i = 0; i < n_spans; i++)
            cpu_rope_span(&job, i, 0);
    numbers_leave(saved);
}

/* Items run from the last span, which has the most keys to look at in a prompt, to the first. */
static void cpu_attend_item(void *arg, uint32_t item, uint32_t thread) {
    (void)thread;
    const struct tokens_job *job = arg;
    const struct kernels_batch *batch = job->batch;
    const struct kernels_kv *kv = job->kv;
    uint32_t n_heads = job->ctx->limits.n_heads;
    uint32_t n_group = n_heads / kv->n_kv_heads;
    uint32_t n_items = kv->n_kv_heads * job->n_parts; /* of a span */
    const struct span *span = &job->ctx->spans[job->n_spans - 1 - item / n_items];
    uint32_t kv_head = item % n_items / job->n_parts;
    uint32_t in_group = item % job->n_parts * job->n_heads_part;
    uint32_t head = kv_head * n_group + in_group;
    uint32_t n_left = n_group - in_group;
    size_t first = (size_t)head * kv->head_dim;
    struct attend_job attend = {
        .kv = kv,
        .blocks = batch->block_tables + (size_t)span->seq * batch->block_table_stride,
        .positions = batch->positions + span->token,
        .q = job->qkv + span->token * cpu_qkv_stride(job->ctx) + first,
        .q_stride = cpu_qkv_stride(job->ctx),
        .out = job->out + (size_t)span->token * n_heads * kv->head_dim + first,
        .out_stride = (size_t)n_heads * kv->head_dim,
        .alibi = job->alibi ? job->alibi + head : NULL,
        .scale = job->scale,
        .window = job->window,
        .n_tokens = span->n_tokens,
        .n_group = n_left < job->n_heads_part ? n_left : job->n_heads_part,
        .kv_head = kv_head,
    };
    job->ctx->path->attend(&attend);
}

/* A few tokens with few key-value heads are less than the threads can share: then query heads of
 * one key-value head go apart, by whole tiles. */
static void cpu_attend_cut_group(const struct kernels_ctx *ctx, struct tokens_job *job) {
    uint32_t n_group = limits_heads_in_group(&ctx->limits);
    uint32_t n_items = job->n_spans * ctx->limits.n_kv_heads;
    uint32_t n_tiles = (n_group + ATTEND_ROWS - 1) / ATTEND_ROWS;
    uint32_t n_wanted = n_items > 0 ? (2 * ctx->n_threads + n_items - 1) / n_items : 1;
    uint32_t n_parts = n_wanted < n_tiles ? n_wanted : n_tiles;
    job->n_heads_part = (n_tiles + n_parts - 1) / n_parts * ATTEND_ROWS;
    job->n_parts = (n_group + job->n_heads_part - 1) / job->n_heads_part;
}

void cpu_attend(struct kernels_ctx *ctx, float *out, const float *qkv,
                const struct kernels_batch *batch, const struct kernels_kv *kv, float scale,
                const float *alibi, uint32_t window) {
    ASSERT(limits_are_of(&ctx->limits, kv));
    uint32_t saved = numbers_enter();
    struct tokens_job job = {.ctx = ctx,
                             .batch = batch,
                             .kv = kv,
                             .n_spans = cpu_attend_cut(ctx, batch),
                             .out = out,
                             .qkv = qkv,
                             .scale = scale,
                             .alibi = alibi,
                             .window = window};
    cpu_attend_cut_group(ctx, &job);
    thread_pool_run(ctx->pool, job.n_spans * kv->n_kv_heads * job.n_parts, cpu_attend_item, &job);
    numbers_leave(saved);
}
