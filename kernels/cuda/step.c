/* kernels/cuda/step.c: a step's arrays on the device, in one copy, and the tiles of its attention. A step
 * that decodes is filled up to one of few shapes. */
#include "kernels/cuda/step.h"

#include "base/assert.h"
#include "kernels/cuda/ahead.h"
#include "kernels/cuda/beside.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/spans.h"
#include "kernels/cuda/tray.h"
#include "kernels/cuda/wait.h"
#include "kernels/limits.h"
#include "kernels/numbers.h"

#include <string.h>

static uint32_t kv_blocks_of(const struct kernels_limits *limits) {
    return (limits->max_context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

#define BLOCKS_FEW 66 /* of attention: half as many as an H100 has multiprocessors */

/* Whole tokens in a tile, or (0) tiles of a token. */
static void fill_tile_shape(struct cuda_step *step, const struct kernels_limits *limits) {
    uint32_t group = limits_heads_in_group(limits);
    step->tile_tokens = GPU_QUERIES / group;
    step->tiles_per_token = step->tile_tokens ? 1 : (group + GPU_QUERIES - 1) / GPU_QUERIES;
}

enum status cuda_step_open(struct kernels_ctx *ctx, struct error *error) {
    const struct kernels_limits *limits = &ctx->limits;
    struct cuda_step *step = &ctx->step;
    fill_tile_shape(step, limits);
    cuda_spans_open(ctx);
    size_t words = 4 * (size_t)limits->max_tokens + 3 * (size_t)limits->max_seqs + 1 +
                   (size_t)limits->max_seqs * kv_blocks_of(limits);
    size_t n_tiles = (size_t)limits->max_tokens * step->tiles_per_token +
                     (size_t)BLOCKS_FEW * limits_heads_in_group(limits);
    size_t n_bytes = words * sizeof(uint32_t) + n_tiles * sizeof(struct gpu_tile) + 64 * 16;
    if (step->spans.serves)
        n_bytes += cuda_spans_bytes(limits);
    if (cuda_tray_open(ctx, &step->tray, n_bytes) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for the arrays of a step");
    for (uint32_t i = 0; i < MARKS_MAX; i++)
        if (!(ctx->marks.events[i] = ctx->kind->event_make(ctx->device)))
            return error_set(error, STATUS_NOMEM, "no memory for the marks of a step");
    return STATUS_OK;
}

void cuda_step_close(struct kernels_ctx *ctx) {
    cuda_tray_close(ctx, &ctx->step.tray);
    for (uint32_t i = 0; i < MARKS_MAX; i++)
        ctx->kind->event_free(ctx->marks.events[i]);
}

/* Sizes of a step as the operations want it. */
struct sizes {
    struct cuda_shape shape; /* n_chunks 0: launches are made for this step alone */
    uint32_t n_seqs;
    uint32_t table_stride;
    uint32_t n_chunks; /* of a step that decodes; or 0 */
};

/* Rows that a decode step is filled up to: products take 8 rows in one go, or 4, 2, 1. */
static uint32_t filled_rows(uint32_t n, uint32_t n_max) {
    uint32_t unit = n > 64 ? 16 : n > 4 ? 8 : n > 2 ? 4 : 1;
    n = (n + unit - 1) / unit * unit;
    return n < n_max ? n : n_max;
}

/* Chunks of attention that it is launched for, at most an eighth in vain. */
static uint32_t filled_chunks(uint32_t n, uint32_t n_max) {
    uint32_t unit = 1;
    while (n > 8 * unit)
        unit *= 2;
    n = (n + unit - 1) / unit * unit;
    return n < n_max ? n : n_max;
}

static uint32_t most_seqs(const struct kernels_limits *limits) {
    return limits->max_seqs < limits->max_tokens ? limits->max_seqs : limits->max_tokens;
}

static bool step_decodes(const struct kernels_batch *batch) {
    for (uint32_t i = 0; i < batch->n_seqs; i++)
        if (batch->seq_begin[i] != i)
            return false;
    return batch->n_tokens > 0 && batch->n_seqs == batch->n_tokens;
}

/* A step in which each sequence has one token is filled up, so that its launches are those of other steps. */
static struct sizes sizes_of(const struct kernels_ctx *ctx, const struct kernels_step *step) {
    const struct kernels_limits *limits = &ctx->limits;
    const struct kernels_batch *batch = &step->batch;
    uint32_t n_seqs = batch->n_seqs, last = 0, n_blocks = kv_blocks_of(limits);
    uint32_t has_variants = batch->variants != NULL, per_chunk = ATTEND_CHUNK / KV_BLOCK_TOKENS;
    struct sizes sizes = {
        {batch->n_tokens, step->n_rows, 0, has_variants}, n_seqs, batch->block_table_stride, 0};
    if (!step_decodes(batch))
        return sizes;
    for (uint32_t i = 0; i < n_seqs; i++)
        last = batch->positions[i] > last ? batch->positions[i] : last;
    uint32_t n_chunks =
        filled_chunks(last / ATTEND_CHUNK + 1, (n_blocks + per_chunk - 1) / per_chunk);
    sizes.n_chunks = n_chunks;
    if (ctx->graphs.off)
        return sizes;
    n_seqs = filled_rows(n_seqs, most_seqs(limits));
    bool serves = ctx->step.spans.serves;
    struct cuda_shape shape = {n_seqs, 0, serves ? 1 : n_chunks, has_variants};
    if (step->n_rows > 0)
        shape.n_rows = filled_rows(step->n_rows, limits->max_seqs);
    uint32_t stride = n_chunks * per_chunk;
    if (serves || stride > n_blocks)
        stride = n_blocks;
    return (struct sizes){shape, n_seqs, stride, n_chunks};
}

/* The host's array of n numbers becomes the device's, filled up to n_all; answers where it lies in the tray. */
static uint32_t *send_array(struct cuda_tray *tray, const uint32_t **array, uint32_t n,
                            uint32_t n_all, uint32_t filler) {
    const uint32_t *from = *array;
    if (!from)
        return NULL;
    uint32_t *to = cuda_tray_take(tray, n_all * sizeof *to, array);
    memcpy(to, from, n * sizeof *to);
    for (uint32_t i = n; i < n_all; i++)
        to[i] = filler;
    return to;
}

/* Rows of the block tables; what fills them up is never read. */
static void send_tables(struct cuda_tray *tray, struct kernels_batch *batch, uint32_t n_seqs,
                        uint32_t stride) {
    const uint32_t *from = batch->block_tables;
    uint32_t n = batch->block_table_stride < stride ? batch->block_table_stride : stride;
    uint32_t *to = cuda_tray_take(tray, (size_t)n_seqs * stride * sizeof *to, &batch->block_tables);
    for (uint32_t i = 0; i < batch->n_seqs; i++)
        memcpy(to + (size_t)i * stride, from + (size_t)i * batch->block_table_stride,
               n * sizeof *to);
    batch->block_table_stride = stride;
}

static uint32_t list_tiles(const struct cuda_step *step, uint32_t n_seqs, uint32_t group,
                           struct gpu_tile *tiles) {
    uint32_t n = 0;
    for (uint32_t seq = 0; seq < n_seqs; seq++) {
        uint32_t n_queries = (step->seq_begin[seq + 1] - step->seq_begin[seq]) * group;
        uint32_t width = step->alone         ? 1
                         : step->tile_tokens ? step->tile_tokens * group
                                             : GPU_QUERIES;
        for (uint32_t first = 0; first < n_queries;) {
            uint32_t left = n_queries - first;
            if (!step->tile_tokens && group - first % group < left) /* ends with its token */
                left = group - first % group;
            uint32_t size = left < width ? left : width;
            tiles[n++] = (struct gpu_tile){
                .seq = seq, .token = step->seq_begin[seq], .first = first, .n = size};
            first += size;
        }
    }
    return n;
}

/* Tiles of at most so many queries are taken as few: those of a token that is decoded. Where a step has too few
 * blocks to occupy a GPU, each query is alone in a tile, so that its chains of FMAs are all that a block
 * does. */
static void choose_few(struct cuda_step *to, const struct sizes *sizes,
                       const struct kernels_limits *limits) {
    uint32_t group = limits_heads_in_group(limits);
    size_t n_blocks = (size_t)sizes->shape.n_tokens * sizes->n_chunks * limits->n_kv_heads;
    to->alone = n_blocks > 0 && n_blocks < BLOCKS_FEW && !to->spans.serves;
    to->few = group == 1 || to->alone ? 1 : group <= 4 ? 4 : group <= 8 ? 8 : group <= 16 ? 16 : 0;
}

/* All arrays of the step, at places that follow from its sizes alone. */
static void fill_tray(struct cuda_step *to, struct kernels_step *step, const struct sizes *sizes,
                      uint32_t group) {
    struct kernels_batch *batch = &step->batch;
    struct cuda_tray *tray = &to->tray;
    uint32_t n_tokens = sizes->shape.n_tokens, n_seqs = sizes->n_seqs, n_real = batch->n_seqs;
    bool has_ids = batch->ids != NULL;
    if (!has_ids)
        batch->ids = batch->positions; /* none of them is taken */
    uint32_t *seq_begin = send_array(tray, &batch->seq_begin, n_real + 1, n_seqs + 1, 0);
    for (uint32_t i = n_real + 1; i <= n_seqs; i++)
        seq_begin[i] = seq_begin[i - 1] + 1;
    to->seq_begin = seq_begin;
    to->positions = send_array(tray, &batch->positions, batch->n_tokens, n_tokens, GPU_NO_TOKEN);
    struct gpu_tile *tiles = cuda_tray_take(
        tray, (size_t)n_tokens * (to->alone ? group : to->tiles_per_token) * sizeof *tiles,
        &to->tiles);
    to->n_tiles = list_tiles(to, n_seqs, group, tiles);
    to->host_tiles = tiles;
    uint32_t *seq_of = cuda_tray_take(tray, n_tokens * sizeof *seq_of, &to->seq_of);
    for (uint32_t seq = 0; seq < n_seqs; seq++)
        for (uint32_t t = seq_begin[seq]; t < seq_begin[seq + 1]; t++)
            seq_of[t] = seq;
    (void)send_array(tray, &batch->ids, has_ids ? batch->n_tokens : 0, n_tokens, GPU_NO_TOKEN);
    send_tables(tray, batch, n_seqs, sizes->table_stride);
    (void)send_array(tray, &batch->variants, n_real, n_seqs, 0);
    (void)send_array(tray, &step->rows, step->n_rows, sizes->shape.n_rows, 0);
    batch->n_tokens = n_tokens;
    batch->n_seqs = n_seqs;
    step->n_rows = sizes->shape.n_rows;
}

/* Only where a shape is rows alone: those of exact attention are too many. */
uint32_t cuda_rehearse(struct kernels_ctx *ctx, uint32_t n_seqs) {
    uint32_t most = most_seqs(&ctx->limits);
    ASSERT(n_seqs > 0 && n_seqs <= most && !ctx->in_step);
    if (ctx->graphs.off || !ctx->step.spans.serves)
        return 0;
    ctx->graphs.rehearses = true;
    return filled_rows(n_seqs, most);
}

void cuda_step_begin(struct kernels_ctx *ctx, struct kernels_step *step) {
    struct cuda_step *to = &ctx->step;
    const struct sizes sizes = sizes_of(ctx, step);
    uint32_t n_chosen = step->batch.ids ? 0 : step->batch.n_tokens;
    ASSERT(step->batch.n_tokens <= ctx->limits.max_tokens);
    ASSERT(step->batch.n_seqs <= ctx->limits.max_seqs);
    ctx->kind->use(ctx->device);
    cuda_flush(ctx);
    ctx->marks.n = ctx->marks.done = 0;
    cuda_ahead_turn(ctx, n_chosen > 0);
    cuda_beside_join(ctx);
    ctx->in_step = true;
    to->tray.used = 0;
    to->n_chunks = sizes.shape.n_chunks;
    choose_few(to, &sizes, &ctx->limits);
    fill_tray(to, step, &sizes, limits_heads_in_group(&ctx->limits));
    if (to->spans.serves)
        cuda_spans_list(ctx, sizes.shape.n_tokens, sizes.n_seqs);
    ctx->kind->copy_in(ctx->main.stream, to->tray.memory, to->tray.pinned, to->tray.used);
    cuda_ahead_ids(ctx, step->batch.ids, n_chosen);
    if (sizes.shape.n_chunks > 0 && to->spans.n_waves <= 1)
        cuda_graph_open(ctx, &sizes.shape);
}

enum status cuda_step_end(struct kernels_ctx *ctx) {
    ctx->kind->use(ctx->device);
    cuda_flush(ctx);
    ctx->graphs.rehearses = false;
    cuda_looks(ctx, false); /* it waits from here on */
    ctx->main.used = 0;
    ctx->in_step = false;
    return cuda_wait(ctx, ctx->main.stream);
}
