/* kernels/cuda/wait.h: waits for what a device does, which end where the group of its rank is at an end, too. */
#pragma once

#include "kernels/cuda/context.h"

/* Waits for a stream of the device; STATUS_IO too where the rank's group is at an end, which is a failure of the device. */
enum status cuda_wait(struct kernels_ctx *ctx, struct device_stream *stream);
/* Before and after a look at what the main stream has done, in place of a wait for it: whether there is something to look for.
 * Looks that find nothing done are one wait, which the rank's group watches like any other. One thread, as long as it lasts. */
void cuda_looks(struct kernels_ctx *ctx, bool again);
const char *cuda_failure(const struct kernels_ctx *ctx);
