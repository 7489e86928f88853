/* kernels/cuda/sample.c: choosing tokens on the device: parameters go there, ids and the numbers that logprobs are
 * made of come back. */
#include "kernels/cuda/sample.h"

#include "base/assert.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/tray.h"
#include "kernels/cuda/wait.h"
#include "kernels/numbers.h"
#include "kernels/sampling.h"

#include <string.h>

#define SCRATCH_FLOATS (16u << 20) /* of copies and weights: rows at a time, at least one */

/* What is known of a block of ids: struct gpu_sample's arrays. */
#define BLOCK_BYTES (2 * sizeof(uint64_t) + 2 * sizeof(float))

static uint32_t cuda_sample_count_blocks(uint32_t n_vocab) {
    return (n_vocab + SAMPLING_BLOCK - 1) / SAMPLING_BLOCK;
}

static size_t cuda_sample_mask_bytes(uint32_t n_vocab) {
    return cuda_tray_bytes(sampling_bit_words(n_vocab) * sizeof(uint32_t));
}

/* The most that the parameters of one row take: of each array, an entry an id. */
static size_t cuda_sample_row_bytes(uint32_t n_vocab) {
    size_t ids = cuda_tray_bytes(n_vocab * sizeof(uint32_t));
    return 6 * ids + cuda_tray_bytes(n_vocab * sizeof(struct interval)) +
           cuda_sample_mask_bytes(n_vocab);
}

enum status cuda_sampler_open(struct kernels_ctx *ctx, struct error *error) {
    struct cuda_sampler *sampler = &ctx->sampler;
    uint32_t n_vocab = ctx->limits.n_vocab, rows = SCRATCH_FLOATS / n_vocab;
    rows = rows < 1 ? 1 : rows;
    rows = sampler->rows_max = rows < ctx->limits.max_seqs ? rows : ctx->limits.max_seqs;
    sampler->scratch = cuda_alloc(ctx, (size_t)rows * n_vocab * sizeof *sampler->scratch);
    sampler->blocks =
        cuda_alloc(ctx, (size_t)rows * cuda_sample_count_blocks(n_vocab) * BLOCK_BYTES);
    sampler->results = cuda_alloc(ctx, rows * sizeof *sampler->results);
    sampler->pinned = ctx->kind->pinned_alloc(ctx->device, rows * sizeof *sampler->pinned);
    size_t n_bytes =
        cuda_sample_row_bytes(n_vocab) + cuda_tray_bytes(rows * sizeof(struct gpu_sample_row));
    if (!sampler->scratch || !sampler->blocks || !sampler->results || !sampler->pinned ||
        cuda_tray_open(ctx, &sampler->tray, n_bytes) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "the device has no memory to choose tokens of %u",
                         n_vocab);
    return STATUS_OK;
}

void cuda_sampler_close(struct kernels_ctx *ctx) {
    struct cuda_sampler *sampler = &ctx->sampler;
    cuda_tray_close(ctx, &sampler->tray);
    cuda_dealloc(ctx, sampler->scratch, 0);
    cuda_dealloc(ctx, sampler->blocks, 0);
    cuda_dealloc(ctx, sampler->results, 0);
    if (sampler->pinned)
        ctx->kind->pinned_free(ctx->device, sampler->pinned);
}

/* The entries of distinct ids that are ids of the vocabulary, with what belongs to each, 32 bits; answers how many. */
static uint32_t cuda_sample_send_pairs(struct cuda_tray *tray, uint32_t n, const uint32_t *ids,
                                       const void *values, uint32_t n_vocab,
                                       const uint32_t **ids_there, const void *values_there) {
    uint32_t n_valid = 0, n_sent = 0;
    for (uint32_t i = 0; i < n; i++)
        n_valid += ids[i] < n_vocab;
    uint32_t *to = cuda_tray_take(tray, n_valid * sizeof *to, ids_there);
    unsigned char *to_values = cuda_tray_take(tray, n_valid * sizeof *to, values_there);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < n_vocab) {
            memcpy(to_values + n_sent * sizeof *to, (const unsigned char *)values + i * sizeof *to,
                   sizeof *to);
            to[n_sent++] = ids[i];
        }
    return n_valid;
}

/* Whether the row's parameters fit what is left of the tray. */
static bool cuda_sample_fits(const struct cuda_tray *tray, const struct sample_params *params,
                             uint32_t n_vocab) {
    size_t n_allowed = params->n_allowed < n_vocab ? params->n_allowed : n_vocab;
    size_t n_bytes = 2 * cuda_tray_bytes(params->n_seen * sizeof(uint32_t)) +
                     2 * cuda_tray_bytes(params->n_bias * sizeof(uint32_t)) +
                     2 * cuda_tray_bytes(n_allowed * sizeof(uint32_t)) +
                     cuda_tray_bytes(params->n_barred * sizeof *params->barred) +
                     (params->allowed_bits ? cuda_sample_mask_bytes(n_vocab) : 0);
    return tray->used + n_bytes <= tray->n_bytes;
}

static struct gpu_sample_row
cuda_sample_send_row(struct cuda_tray *tray, const struct sample_params *params, uint32_t n_vocab) {
    struct gpu_sample_row row = {.params = *params};
    struct sample_params *to = &row.params;
    row.is_greedy = params->temperature < SAMPLING_GREEDY;
    row.factor = row.is_greedy ? 0.0f : 1.0f / params->temperature;
    row.wants_logprob = params->want_logprob || params->n_top > 0;
    row.copied = sampling_has_edits(params) || params->n_barred > 0;
    to->n_seen = cuda_sample_send_pairs(tray, params->n_seen, params->seen_ids, params->seen_counts,
                                        n_vocab, &to->seen_ids, &to->seen_counts);
    to->n_bias = cuda_sample_send_pairs(tray, params->n_bias, params->bias_ids, params->bias,
                                        n_vocab, &to->bias_ids, &to->bias);
    to->n_allowed = params->n_allowed < n_vocab ? params->n_allowed : n_vocab;
    if (to->n_allowed > 0) {
        size_t n_bytes = to->n_allowed * sizeof *params->allowed_ids;
        (void)cuda_tray_send(tray, &to->allowed_ids, params->allowed_ids, n_bytes);
        (void)cuda_tray_take(tray, n_bytes, &row.allowed);
    }
    if (params->allowed_bits)
        (void)cuda_tray_send(tray, &to->allowed_bits, params->allowed_bits,
                             sampling_bit_words(n_vocab) * sizeof *params->allowed_bits);
    if (params->n_barred > 0)
        (void)cuda_tray_send(tray, &to->barred, params->barred,
                             params->n_barred * sizeof *params->barred);
    return row;
}

static uint32_t cuda_sample_send_rows(struct cuda_sampler *sampler, struct gpu_sample *what,
                                      const struct sample_params *params, uint32_t n_rows) {
    struct cuda_tray *tray = &sampler->tray;
    tray->used = 0;
    struct gpu_sample_row *rows =
        cuda_tray_take(tray, sampler->rows_max * sizeof *rows, &what->rows);
    uint32_t n = 0;
    for (; n < n_rows && n < sampler->rows_max; n++) {
        if (n > 0 && !cuda_sample_fits(tray, &params[n], what->n_vocab))
            break;
        rows[n] = cuda_sample_send_row(tray, &params[n], what->n_vocab);
        what->any_logprob |= rows[n].wants_logprob;
        what->any_top |= params[n].n_top > 0;
        what->any_copied |= rows[n].copied;
        what->any_drawn |= !rows[n].is_greedy;
    }
    return n;
}

uint32_t cuda_sample_prepare(struct kernels_ctx *ctx, struct gpu_sample *what, const float *logits,
                             const struct sample_params *params, uint32_t n_rows,
                             uint32_t n_vocab) {
    struct cuda_sampler *sampler = &ctx->sampler;
    uint32_t n_blocks = cuda_sample_count_blocks(n_vocab);
    size_t n_known = (size_t)sampler->rows_max * n_blocks;
    ASSERT(n_vocab <= ctx->limits.n_vocab);
    *what = (struct gpu_sample){.logits = logits,
                                .results = sampler->results,
                                .n_vocab = n_vocab,
                                .n_blocks = n_blocks,
                                .scratch = sampler->scratch,
                                .best = sampler->blocks};
    what->best_copied = what->best + n_known;
    what->sums = (float *)(void *)(what->best_copied + n_known);
    what->log_sums = what->sums + n_known;
    return what->n_rows = cuda_sample_send_rows(sampler, what, params, n_rows);
}

void cuda_sample_launch(struct kernels_ctx *ctx, const struct gpu_sample *what,
                        struct gpu_sampled *results) {
    const struct cuda_sampler *sampler = &ctx->sampler;
    size_t n_bytes = what->n_rows * sizeof *results;
    memset(results, 0, n_bytes); /* of a device that fails */
    ctx->kind->copy_in(ctx->main.stream, sampler->tray.memory, sampler->tray.pinned,
                       sampler->tray.used);
    ctx->gpu->sample(ctx->main.stream, what);
    ctx->kind->copy_out(ctx->main.stream, results, sampler->results, n_bytes);
}

void cuda_sample_result(const struct gpu_sampled *got, const struct sample_params *params,
                        struct sample_result *result) {
    double log_total = (double)got->max;
    *result = (struct sample_result){.valid = got->valid, .id = got->id};
    result->emptied = !got->valid && got->is_sound && sampling_has_edits(params);
    if (!params->want_logprob && params->n_top == 0)
        return;
    log_total += numbers_log(got->log_sum);
    if (result->valid)
        result->logprob = (float)((double)got->logit - log_total);
    result->n_top = params->n_top > 0 ? got->n_top : 0;
    for (uint32_t i = 0; i < result->n_top; i++) {
        result->top_ids[i] = got->top_ids[i];
        result->top_logprobs[i] = (float)((double)got->top_logits[i] - log_total);
    }
}

void cuda_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                 const struct sample_params *params, struct sample_result *results) {
    struct gpu_sampled *pinned = ctx->sampler.pinned;
    struct gpu_sample what;
    uint32_t saved = numbers_enter(), n;
    ASSERT(ctx->ahead.n == 0);
    ctx->kind->use(ctx->device); /* KV of another rank's was perhaps copied since the step began */
    cuda_flush(ctx);
    for (uint32_t row = 0; row < n_rows; row += n) {
        n = cuda_sample_prepare(ctx, &what, logits + (size_t)row * n_vocab, params + row,
                                n_rows - row, n_vocab);
        cuda_sample_launch(ctx, &what, pinned);
        (void)cuda_wait(ctx, ctx->main.stream);
        for (uint32_t i = 0; i < n; i++)
            cuda_sample_result(&pinned[i], &params[row + i], &results[row + i]);
    }
    numbers_leave(saved);
}
