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
    step->n_bytes = words * sizeof(uint32_t) + n_tiles * sizeof(struct gpu_tile) + 64 * 16;
    step->memory = ctx->kind->alloc(ctx->device, step->n_bytes);
    step->pinned = ctx->kind->pinned_alloc(ctx->device, step->n_bytes);
    if (!step->memory || !step->pinned)
        return error_set(error, STATUS_NOMEM, "no memory for the arrays of a step");
    for (uint32_t i = 0; i < MARKS_MAX; i++)
        if (!(ctx->marks.events[i] = ctx->kind->event_make(ctx->device)))
            return error_set(error, STATUS_NOMEM, "no memory for the marks of a step");
    return STATUS_OK;
}

void cuda_step_close(struct kernels_ctx *ctx) {
    if (ctx->step.memory)
        ctx->kind->dealloc(ctx->device, ctx->step.memory);
    if (ctx->step.pinned)
        ctx->kind->pinned_free(ctx->device, ctx->step.pinned);
    for (uint32_t i = 0; i < MARKS_MAX; i++)
        ctx->kind->event_free(ctx->marks.events[i]);
}

/* Where the next array goes. */
struct upload {
    struct cuda_step *step;
    size_t at;
};

/* Room for n_bytes; what the device will call it goes to *device. */
static void *take(struct upload *upload, size_t n_bytes, const void *device) {
    struct cuda_step *step = upload->step;
    ASSERT(upload->at + n_bytes <= step->n_bytes);
    void *host = step->pinned + upload->at;
    unsigned char *there = step->memory + upload->at;
    memcpy((void *)(uintptr_t)device, &there, sizeof there);
    upload->at += (n_bytes + 63) / 64 * 64;
    return host;
}

static void send_array(struct upload *upload, const uint32_t **array, size_t n) {
    const uint32_t *from = *array;
    if (!from)
        return;
    memcpy(take(upload, n * sizeof *from, array), from, n * sizeof *from);
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
    struct upload upload = {.step = to};
    uint32_t n_tokens = batch->n_tokens, group = heads_in_group(&ctx->limits);
    ASSERT(n_tokens <= ctx->limits.max_tokens && batch->n_seqs <= ctx->limits.max_seqs);
    ctx->kind->use(ctx->device);
    ctx->marks.n = ctx->marks.done = 0;
    (void)ctx->kind->wait(ctx->stream); /* the last step's arrays are read */
    struct gpu_tile *tiles =
        take(&upload, (size_t)n_tokens * to->tiles_per_token * sizeof *tiles, &to->tiles);
    to->n_tiles = list_tiles(to, batch, group, tiles);
    to->host_tiles = tiles;
    uint32_t *seq_of = take(&upload, n_tokens * sizeof *seq_of, &to->seq_of);
    for (uint32_t seq = 0; seq < batch->n_seqs; seq++)
        for (uint32_t t = batch->seq_begin[seq]; t < batch->seq_begin[seq + 1]; t++)
            seq_of[t] = seq;
    send_array(&upload, &batch->ids, n_tokens);
    to->positions = (const uint32_t *)(void *)(to->pinned + upload.at);
    send_array(&upload, &batch->positions, n_tokens);
    to->seq_begin = (const uint32_t *)(void *)(to->pinned + upload.at);
    send_array(&upload, &batch->seq_begin, batch->n_seqs + 1);
    send_array(&upload, &batch->block_tables, (size_t)batch->n_seqs * batch->block_table_stride);
    send_array(&upload, &batch->variants, batch->n_seqs);
    send_array(&upload, &step->rows, step->n_rows);
    ctx->kind->copy_in(ctx->stream, to->memory, to->pinned, upload.at);
}

enum status cuda_step_end(struct kernels_ctx *ctx) {
    ctx->stage_used = 0;
    return ctx->kind->wait(ctx->stream);
}

void cuda_mark(struct kernels_ctx *ctx, uint32_t number) {
    struct cuda_marks *marks = &ctx->marks;
    if (marks->n == MARKS_MAX) { /* more layers than models have */
        (void)ctx->kind->wait(ctx->stream);
        marks->done = marks->numbers[(marks->first + MARKS_MAX - 1) % MARKS_MAX];
        marks->n = 0;
    }
    uint32_t at = (marks->first + marks->n++) % MARKS_MAX;
    marks->numbers[at] = number;
    ctx->kind->event_record(marks->events[at], ctx->stream);
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
