/* kernels/cuda/beside.c: KV for other workers on a stream of its own, so that its copies run while a step computes.
 *
 * Nothing orders the two streams but what stands here. Outside of a step, KV waits for all that the main
 * stream was given. Within one it waits for nothing: the caller reads what marks have answered, and writes what
 * the step does not touch. The main stream waits for KV that was put before its next step, or its next copy. */
#include "kernels/cuda/beside.h"

#include "kernels/cuda/lane.h"
#include "kernels/cuda/launches.h"

enum status cuda_beside_open(struct kernels_ctx *ctx, struct error *error) {
    ctx->settled = ctx->kind->event_make(ctx->device);
    ctx->arrived = ctx->kind->event_make(ctx->device);
    if (cuda_lane_open(ctx, &ctx->beside, BESIDE_BYTES) != STATUS_OK || !ctx->settled ||
        !ctx->arrived)
        return error_set(error, STATUS_NOMEM, "the device has no memory for copies of KV");
    return STATUS_OK;
}

void cuda_beside_close(struct kernels_ctx *ctx) {
    cuda_lane_close(ctx, &ctx->beside);
    ctx->kind->event_free(ctx->settled);
    ctx->kind->event_free(ctx->arrived);
}

static void cuda_beside_begin(struct kernels_ctx *ctx) {
    ctx->kind->use(ctx->device);
    if (ctx->in_step)
        return;
    cuda_flush(ctx);
    ctx->kind->event_record(ctx->settled, ctx->main.stream);
    ctx->kind->event_order(ctx->beside.stream, ctx->settled);
}

void cuda_put_beside(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    cuda_beside_begin(ctx);
    cuda_to_device(ctx, &ctx->beside, to, from, n_bytes);
    ctx->kind->event_record(ctx->arrived, ctx->beside.stream);
    ctx->has_arrived = true;
}

enum status cuda_get_beside(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    cuda_beside_begin(ctx);
    return cuda_from_device(ctx, &ctx->beside, to, from, n_bytes);
}

void cuda_beside_join(struct kernels_ctx *ctx) {
    if (ctx->has_arrived)
        ctx->kind->event_order(ctx->main.stream, ctx->arrived);
    ctx->has_arrived = false;
}
