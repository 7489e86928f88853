/* The memory of a context: taken when it opens, more when a wide matrix is packed. */
#include "kernels/cpu/cpu.h"
#include "kernels/quant/order.h"

#include <stdlib.h>

/* Bytes for the activations of all rows: four for a bfloat16 widened to float, fewer for
 * integers with their scales, in two terms. */
_Static_assert(2 * TILE_ROW_BYTES <= GROUP * sizeof(float), "both terms fit");
static size_t cpu_scratch_tiles_bytes(const struct kernels_ctx *ctx, uint32_t max_stored) {
    return ((size_t)ctx->tiles_rows * max_stored * sizeof(float) + 63) / 64 * 64;
}

/* As many rows as there can be at once, within LINEAR_ROWS; and those of one row's experts. */
static uint32_t cpu_scratch_tiles_rows(const struct kernels_limits *limits) {
    uint32_t rows = limits->max_tokens > limits->max_seqs ? limits->max_tokens : limits->max_seqs;
    rows = rows > LINEAR_ROWS ? LINEAR_ROWS : rows;
    return rows < LINEAR_ROWS_MIN ? LINEAR_ROWS_MIN : rows;
}

/* Rows of the tiles that the threads work on. */
static size_t cpu_scratch_row_floats(const struct kernels_ctx *ctx, uint32_t max_stored) {
    return (size_t)ctx->n_threads * TILE_ROWS_MAX * max_stored;
}

/* Filled-up groups may make a matrix wider than any activation. Only packing comes here: no step
 * allocates. */
enum status cpu_reserve(struct kernels_ctx *ctx, const struct weight *weight, struct error *error) {
    bool grows = weight->k_stored > ctx->max_stored;
    uint32_t stored = grows ? weight->k_stored : ctx->max_stored;
    if (grows) {
        uint8_t *tiles = aligned_alloc(64, cpu_scratch_tiles_bytes(ctx, stored));
        if (!tiles)
            return error_set(error, STATUS_NOMEM, "no memory for rows of %u inputs", stored);
        free(ctx->tiles);
        ctx->tiles = tiles;
        ctx->max_stored = stored;
    }
    if ((grows && ctx->gathered) || (weight->order && !ctx->gathered)) {
        free(ctx->gathered);
        ctx->gathered = calloc(cpu_scratch_row_floats(ctx, stored), sizeof *ctx->gathered);
        if (!ctx->gathered)
            return error_set(error, STATUS_NOMEM, "no memory for rows of %u inputs", stored);
    }
    return STATUS_OK;
}

enum status cpu_allocate(struct kernels_ctx *ctx) {
    ctx->max_stored = order_filled(ctx->limits.max_dim);
    ctx->tiles_rows = cpu_scratch_tiles_rows(&ctx->limits);
    ctx->tiles = aligned_alloc(64, cpu_scratch_tiles_bytes(ctx, ctx->max_stored));
    ctx->spans = calloc(ctx->limits.max_tokens, sizeof *ctx->spans);
    ctx->samplers = calloc(ctx->n_threads, sizeof *ctx->samplers);
    if (!ctx->tiles || !ctx->spans || !ctx->samplers)
        return STATUS_NOMEM;
    for (uint32_t i = 0; i < ctx->n_threads; i++)
        TRY(cpu_sampler_init(&ctx->samplers[i], ctx->limits.n_vocab));
    return STATUS_OK;
}
