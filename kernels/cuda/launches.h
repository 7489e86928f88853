/* kernels/cuda/launches.h: what goes into the main stream, behind what is held (held.h). */
#pragma once

#include "kernels/cuda/context.h"

/* Into the main stream, or a record: what `run` puts there when it is called with a copy of `what` (n_bytes, a multiple of 8). */
void cuda_operation(struct kernels_ctx *ctx, void (*run)(struct kernels_ctx *ctx, const void *what),
                    const void *what, size_t n_bytes);
/* The same for a launch. */
#define X(name, type) void cuda_launch_##name(struct kernels_ctx *ctx, const struct type *what);
GPU_OPERATIONS(X)
#undef X

/* What is held or was recorded goes into the main stream: before anything else does that is no launch of an operation, and before
 * memory is given back that the launches may use. */
void cuda_flush(struct kernels_ctx *ctx);

void cuda_mark(struct kernels_ctx *ctx, uint32_t number);
uint32_t cuda_marked(struct kernels_ctx *ctx);
