#include "kernels/cuda/tray.h"

#include "base/assert.h"
#include "kernels/cuda/memory.h"

#include <string.h>

enum status cuda_tray_open(struct kernels_ctx *ctx, struct cuda_tray *tray, size_t n_bytes) {
    *tray = (struct cuda_tray){.n_bytes = n_bytes};
    tray->memory = cuda_alloc(ctx, n_bytes);
    tray->pinned = ctx->kind->pinned_alloc(ctx->device, n_bytes);
    return tray->memory && tray->pinned ? STATUS_OK : STATUS_NOMEM;
}

void cuda_tray_close(struct kernels_ctx *ctx, struct cuda_tray *tray) {
    cuda_dealloc(ctx, tray->memory, tray->n_bytes);
    if (tray->pinned)
        ctx->kind->pinned_free(ctx->device, tray->pinned);
}

void *cuda_tray_take(struct cuda_tray *tray, size_t n_bytes, const void *device) {
    ASSERT(tray->used + cuda_tray_bytes(n_bytes) <= tray->n_bytes);
    unsigned char *there = tray->memory + tray->used, *host = tray->pinned + tray->used;
    memcpy((void *)(uintptr_t)device, &there, sizeof there);
    tray->used += cuda_tray_bytes(n_bytes);
    return host;
}

void *cuda_tray_send(struct cuda_tray *tray, const void *device, const void *from, size_t n_bytes) {
    void *host = cuda_tray_take(tray, n_bytes, device);
    memcpy(host, from, n_bytes);
    return host;
}
