/* kernels/cuda/graph.h: launches that go into the main stream at once, or are recorded and launched as one graph; below what may
 * hold a launch back (held.h). All else launches by launches.h. */
#pragma once

#include "kernels/cuda/context.h"

/* From now on launches are recorded, until cuda_graph_flush(). */
void cuda_graph_open(struct kernels_ctx *ctx, const struct cuda_shape *shape);
/* What was recorded goes into the main stream. */
void cuda_graph_flush(struct kernels_ctx *ctx);
/* The next steps are launched as the first of their shape. */
void cuda_graphs_forget(struct kernels_ctx *ctx);
void cuda_graphs_close(struct kernels_ctx *ctx);

/* Into the main stream, or a record: what `run` puts there when it is called with a copy of `what` (n_bytes, a multiple of 8). */
void cuda_record(struct kernels_ctx *ctx, void (*run)(struct kernels_ctx *ctx, const void *what),
                 const void *what, size_t n_bytes);
/* The same for a mark (struct cuda_marks), and for a launch. */
void cuda_record_mark(struct kernels_ctx *ctx, uint32_t number);
#define X(name, type) void cuda_record_##name(struct kernels_ctx *ctx, const struct type *what);
GPU_OPERATIONS(X)
#undef X
