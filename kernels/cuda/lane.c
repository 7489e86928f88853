/* kernels/cuda/lane.c: bytes between host and device through the pinned memory of one stream. */
#include "kernels/cuda/lane.h"

#include "base/assert.h"
#include "kernels/cuda/wait.h"

#include <string.h>

enum status cuda_lane_open(struct kernels_ctx *ctx, struct cuda_lane *lane, size_t n_bytes) {
    *lane = (struct cuda_lane){.n_bytes = n_bytes};
    lane->stream = ctx->kind->stream_make(ctx->device);
    lane->stage = ctx->kind->pinned_alloc(ctx->device, n_bytes);
    return lane->stream && lane->stage ? STATUS_OK : STATUS_NOMEM;
}

void cuda_lane_close(struct kernels_ctx *ctx, struct cuda_lane *lane) {
    ctx->kind->stream_free(lane->stream);
    if (lane->stage)
        ctx->kind->pinned_free(ctx->device, lane->stage);
}

void *cuda_stage(struct kernels_ctx *ctx, struct cuda_lane *lane, size_t n_bytes) {
    ASSERT(n_bytes <= lane->n_bytes);
    if (lane->used + n_bytes > lane->n_bytes) {
        (void)cuda_wait(ctx, lane->stream);
        lane->used = 0;
    }
    return lane->stage + lane->used;
}

void cuda_send(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to, const void *staged,
               size_t n_bytes) {
    ctx->kind->copy_in(lane->stream, to, staged, n_bytes);
    lane->used += (n_bytes + 63) / 64 * 64;
}

static size_t cuda_lane_piece(const struct cuda_lane *lane, size_t n_left) {
    size_t most = lane->n_bytes / 4; /* so that one is filled while another travels */
    return n_left < most ? n_left : most;
}

void cuda_to_device(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to, const void *from,
                    size_t n_bytes) {
    for (size_t at = 0; at < n_bytes;) {
        size_t n = cuda_lane_piece(lane, n_bytes - at);
        void *staged = cuda_stage(ctx, lane, n);
        memcpy(staged, (const char *)from + at, n);
        cuda_send(ctx, lane, (char *)to + at, staged, n);
        at += n;
    }
}

enum status cuda_from_device(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to,
                             const void *from, size_t n_bytes) {
    enum status status = STATUS_OK;
    for (size_t at = 0; at < n_bytes && status == STATUS_OK;) {
        size_t n = cuda_lane_piece(lane, n_bytes - at);
        void *staged = cuda_stage(ctx, lane, n);
        ctx->kind->copy_out(lane->stream, staged, (const char *)from + at, n);
        status = cuda_wait(ctx, lane->stream);
        lane->used = 0;
        memcpy((char *)to + at, staged, n);
        at += n;
    }
    return status;
}
