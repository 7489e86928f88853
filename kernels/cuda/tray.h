/* kernels/cuda/tray.h: arrays that go to the device together, by one copy. */
#pragma once

#include "kernels/cuda/context.h"

/* STATUS_NOMEM leaves what cuda_tray_close() takes. */
NODISCARD enum status cuda_tray_open(struct kernels_ctx *ctx, struct cuda_tray *tray,
                                     size_t n_bytes);
void cuda_tray_close(struct kernels_ctx *ctx, struct cuda_tray *tray); /* fine on a zeroed one */
/* What n_bytes take of a tray. */
static inline size_t cuda_tray_bytes(size_t n_bytes) {
    return (n_bytes + 63) / 64 * 64;
}
/* Room for n_bytes, which there must be: where the host fills it, and in *device, a pointer, where the device will
 * find it. cuda_tray_send() fills it from memory of the host. */
void *cuda_tray_take(struct cuda_tray *tray, size_t n_bytes, const void *device);
void *cuda_tray_send(struct cuda_tray *tray, const void *device, const void *from, size_t n_bytes);
