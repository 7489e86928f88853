/* kernels/cuda/step.c: a step's arrays on the device, in one copy, and the tiles of its attention. */
#include "base/assert.h"
#include "kernels/cuda/cuda.h"

#include <string.h>

static uint32_t blocks_of(const struct kernels_limits *limits) {
    return (limits->max_context + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
}

static uint32_t heads_in_group(const struct kernels_limits *limits) {
    return limits->n_heads / limits->n_kv_heads;
}

/* Whole tokens in a tile, or (0) tiles of a token. */
static void fill_tile_shape(struct cuda_step *step, const struct kernels_limits *limits) {
    uint32_t group = heads_in_group(limits);
    step->tile_tokens = GPU_QUERIES / group;
    step->tiles_per_token = step->tile_tokens ? 1 : (group + GPU_QUERIES - 1) / GPU_QUERIES;
}

enum status cuda_step_open(struct kernels_ctx *ctx, struct error *error) {
    const struct kernels_limits *limits = &ctx->limits;
    struct cuda_step *step = &ctx->step;
    fill_tile_shape(step, limits);
    size_t words = 4 * (size_t)limits->max_tokens + 3 * (size_t)limits->max_seqs + 1 +
                   (size_t)limits->max_seqs * blocks_of(limits);
    size_t n_tiles = (size_t)limits->max_tokens * step->tiles_per_token;
    size_t n_bytes = words * sizeof(uint32_t) + n_tiles * sizeof(struct gpu_tile) + 64 * 16;
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

/* The host's array becomes the device's; answers where it lies in the tray. */
static const uint32_t *send_array(struct cuda_tray *tray, const uint32_t **array, size_t n) {
    const uint32_t *from = *array;
    return from ? cuda_tray_send(tray, array, from, n * sizeof *from) : NULL;
}

static uint32_t list_tiles(const struct cuda_step *step, const struct kernels_batch *batch,
                           uint32_t group, struct gpu_tile *tiles) {
    uint32_t n = 0;
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++) {
        uint32_t n_queries = (batch->seq_begin[seq + 1] - batch->seq_begin[seq]) * group;
        uint32_t width = step->tile_tokens ? step->tile_tokens * group : GPU_QUERIES;
        for (uint32_t first = 0; first < n_queries;) {
            uint32_t left = n_queries - first;
            if (!step->tile_tokens && group - first % group < left) /* ends with its token */
                left = group - first % group;
            uint32_t size = left < width ? left : width;
            tiles[n++] = (struct gpu_tile){.seq = seq, .first = first, .n = size};
            first += size;
        }
    }
    return n;
}

void cuda_step_begin(struct kernels_ctx *ctx, struct kernels_step *step) {
    struct kernels_batch *batch = &step->batch;
    struct cuda_step *to = &ctx->step;
    struct cuda_tray *tray = &to->tray;
    uint32_t n_tokens = batch->n_tokens, group = heads_in_group(&ctx->limits);
    ASSERT(n_tokens <= ctx->limits.max_tokens && batch->n_seqs <= ctx->limits.max_seqs);
    ctx->kind->use(ctx->device);
    ctx->marks.n = ctx->marks.done = 0;
    (void)ctx->kind->wait(ctx->main.stream); /* the last step's arrays are read */
    cuda_beside_join(ctx);
    ctx->in_step = true;
    tray->used = 0;
    struct gpu_tile *tiles =
        cuda_tray_take(tray, (size_t)n_tokens * to->tiles_per_token * sizeof *tiles, &to->tiles);
    to->n_tiles = list_tiles(to, batch, group, tiles);
    to->host_tiles = tiles;
    uint32_t *seq_of = cuda_tray_take(tray, n_tokens * sizeof *seq_of, &to->seq_of);
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++)
        for (uint32_t t = batch->seq_begin[seq]; t < batch->seq_begin[seq + 1]; t++)
            seq_of[t] = seq;
    (void)send_array(tray, &batch->ids, n_tokens);
    to->positions = send_array(tray, &batch->positions, n_tokens);
    to->seq_begin = send_array(tray, &batch->seq_begin, batch->n_seqs + 1);
    (void)send_array(tray, &batch->block_tables, (size_t)batch->n_seqs * batch->block_table_stride);
    (void)send_array(tray, &batch->variants, batch->n_seqs);
    (void)send_array(tray, &step->rows, step->n_rows);
    ctx->kind->copy_in(ctx->main.stream, tray->memory, tray->pinned, tray->used);
}

enum status cuda_step_end(struct kernels_ctx *ctx) {
    ctx->main.used = 0;
    ctx->in_step = false;
    return ctx->kind->wait(ctx->main.stream);
}

void cuda_mark(struct kernels_ctx *ctx, uint32_t number) {
    struct cuda_marks *marks = &ctx->marks;
    if (marks->n == MARKS_MAX) { /* more layers than models have */
        (void)ctx->kind->wait(ctx->main.stream);
        marks->done = marks->numbers[(marks->first + MARKS_MAX - 1) % MARKS_MAX];
        marks->n = 0;
    }
    uint32_t at = (marks->first + marks->n++) % MARKS_MAX;
    marks->numbers[at] = number;
    ctx->kind->event_record(marks->events[at], ctx->main.stream);
}

uint32_t cuda_marked(struct kernels_ctx *ctx) {
    struct cuda_marks *marks = &ctx->marks;
    while (marks->n > 0 && ctx->kind->event_done(marks->events[marks->first])) {
        marks->done = marks->numbers[marks->first];
        marks->first = (marks->first + 1) % MARKS_MAX;
        marks->n--;
    }
    return ctx->kind->failure(ctx->device) ? UINT32_MAX : marks->done;
}
