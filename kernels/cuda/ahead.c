/* kernels/cuda/ahead.c: a step that begins before anybody has read what the one before chose.
 *
 * The main stream orders all of it: parameters, choice, results; then the arrays of the next step, whose ids
 * a kernel takes from the results. What the host fills for a step must not be what a copy of the step before
 * still reads, so pinned memory is taken in turn: two of the step's arrays, two of parameters, two of results. A third is not
 * needed, for at most two choices are not read, and the older one's copies were done before its results
 * came. Results are waited for by a stream of their own, which waits for an event of the main one and not
 * for the step behind it. */
#include "kernels/cuda/ahead.h"

#include "base/assert.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/wait.h"
#include "kernels/numbers.h"

#include <stdlib.h>
#include <string.h>

static enum status cuda_ahead_open_choice(struct kernels_ctx *ctx, struct cuda_choice *choice) {
    uint32_t rows = ctx->sampler.rows_max;
    choice->results = ctx->kind->pinned_alloc(ctx->device, rows * sizeof *choice->results);
    choice->params = calloc(rows, sizeof *choice->params);
    choice->there = ctx->kind->event_make(ctx->device);
    return choice->results && choice->params && choice->there ? STATUS_OK : STATUS_NOMEM;
}

enum status cuda_ahead_open(struct kernels_ctx *ctx, struct error *error) {
    struct cuda_ahead *ahead = &ctx->ahead;
    ahead->watch = ctx->kind->stream_make(ctx->device);
    ahead->step_spare = ctx->kind->pinned_alloc(ctx->device, ctx->step.tray.n_bytes);
    ahead->sample_spare = ctx->kind->pinned_alloc(ctx->device, ctx->sampler.tray.n_bytes);
    if (cuda_ahead_open_choice(ctx, &ahead->choices[0]) != STATUS_OK ||
        cuda_ahead_open_choice(ctx, &ahead->choices[1]) != STATUS_OK || !ahead->watch ||
        !ahead->step_spare || !ahead->sample_spare)
        return error_set(error, STATUS_NOMEM, "no memory for steps ahead");
    return STATUS_OK;
}

static void cuda_ahead_free_pinned(struct kernels_ctx *ctx, void *memory) {
    if (memory)
        ctx->kind->pinned_free(ctx->device, memory);
}

void cuda_ahead_close(struct kernels_ctx *ctx) {
    struct cuda_ahead *ahead = &ctx->ahead;
    ctx->kind->stream_free(ahead->watch);
    cuda_ahead_free_pinned(ctx, ahead->step_spare);
    cuda_ahead_free_pinned(ctx, ahead->sample_spare);
    for (int i = 0; i < 2; i++) {
        cuda_ahead_free_pinned(ctx, ahead->choices[i].results);
        free(ahead->choices[i].params);
        ctx->kind->event_free(ahead->choices[i].there);
    }
}

static void cuda_ahead_swap_spare(unsigned char **a, unsigned char **b) {
    unsigned char *was = *a;
    *a = *b;
    *b = was;
}

enum status cuda_sample_begin(struct kernels_ctx *ctx, float *logits, uint32_t n_rows,
                              uint32_t n_vocab, const struct sample_params *params) {
    struct cuda_ahead *ahead = &ctx->ahead;
    struct cuda_choice *choice = &ahead->choices[(ahead->first + ahead->n) % 2];
    struct gpu_sample what;
    ASSERT(ahead->n < 2 && n_rows > 0);
    if (n_rows > ctx->sampler.rows_max)
        return STATUS_BUSY;
    ctx->kind->use(ctx->device);
    cuda_ahead_swap_spare(&ctx->sampler.tray.pinned, &ahead->sample_spare);
    if (cuda_sample_prepare(ctx, &what, logits, params, n_rows, n_vocab) < n_rows) {
        cuda_ahead_swap_spare(&ctx->sampler.tray.pinned, &ahead->sample_spare);
        return STATUS_BUSY;
    }
    cuda_flush(ctx);
    cuda_sample_launch(ctx, &what, choice->results);
    ctx->kind->event_record(choice->there, ctx->main.stream);
    memcpy(choice->params, params, n_rows * sizeof *params);
    choice->n_rows = n_rows;
    ahead->n++;
    return STATUS_OK;
}

bool cuda_sample_done(struct kernels_ctx *ctx) {
    ASSERT(ctx->ahead.n > 0);
    ctx->kind->use(ctx->device);
    return ctx->kind->event_done(ctx->ahead.choices[ctx->ahead.first].there);
}

enum status cuda_sample_end(struct kernels_ctx *ctx, struct sample_result *results) {
    struct cuda_ahead *ahead = &ctx->ahead;
    const struct cuda_choice *choice = &ahead->choices[ahead->first];
    uint32_t saved = numbers_enter();
    ASSERT(ahead->n > 0);
    ctx->kind->use(ctx->device);
    ctx->kind->event_order(ahead->watch, choice->there);
    enum status status = cuda_wait(ctx, ahead->watch);
    for (uint32_t i = 0; i < choice->n_rows; i++)
        cuda_sample_result(&choice->results[i], &choice->params[i], &results[i]);
    numbers_leave(saved);
    ahead->first = 1 - ahead->first;
    ahead->n--;
    return status;
}

void cuda_ahead_turn(struct kernels_ctx *ctx, bool is_ahead) {
    ASSERT(ctx->ahead.n == is_ahead);
    if (is_ahead)
        cuda_ahead_swap_spare(&ctx->step.tray.pinned, &ctx->ahead.step_spare);
    else
        (void)cuda_wait(ctx, ctx->main.stream); /* the last step's arrays are read */
}

void cuda_ahead_ids(struct kernels_ctx *ctx, const uint32_t *ids, uint32_t n) {
    struct gpu_take_chosen what = {.results = ctx->sampler.results, .n = n};
    if (n == 0)
        return;
    memcpy(&what.ids, &ids, sizeof ids); /* of the step's tray: ours to write */
    ctx->gpu->take_chosen(ctx->main.stream, &what);
}
