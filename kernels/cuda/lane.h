/* kernels/cuda/lane.h: bytes between host and device through the pinned memory of one stream. */
#pragma once

#include "kernels/cuda/context.h"

/* STATUS_NOMEM leaves what cuda_lane_close() takes. */
NODISCARD enum status cuda_lane_open(struct kernels_ctx *ctx, struct cuda_lane *lane,
                                     size_t n_bytes);
void cuda_lane_close(struct kernels_ctx *ctx, struct cuda_lane *lane); /* fine on a zeroed one */
/* n_bytes (at most those of the lane) of pinned memory to fill, and their copy to the device. */
void *cuda_stage(struct kernels_ctx *ctx, struct cuda_lane *lane, size_t n_bytes);
void cuda_send(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to, const void *staged,
               size_t n_bytes);
/* Any number of bytes through the lane; from_device() waits for them. STATUS_IO: the device failed. */
void cuda_to_device(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to, const void *from,
                    size_t n_bytes);
enum status cuda_from_device(struct kernels_ctx *ctx, struct cuda_lane *lane, void *to,
                             const void *from, size_t n_bytes);
