#include "kernels/cuda/launches.h"

#include "kernels/cuda/graph.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/wait.h"

void cuda_operation(struct kernels_ctx *ctx, void (*run)(struct kernels_ctx *ctx, const void *what),
                    const void *what, size_t n_bytes) {
    cuda_release(ctx);
    cuda_record(ctx, run, what, n_bytes);
}

#define X(name, type)                                                                              \
    void cuda_launch_##name(struct kernels_ctx *ctx, const struct type *what) {                    \
        cuda_release(ctx);                                                                         \
        cuda_record_##name(ctx, what);                                                             \
    }
GPU_OPERATIONS(X)
#undef X

void cuda_flush(struct kernels_ctx *ctx) {
    cuda_release(ctx);
    cuda_graph_flush(ctx);
}

void cuda_mark(struct kernels_ctx *ctx, uint32_t number) {
    cuda_release(ctx);
    cuda_record_mark(ctx, number);
}

uint32_t cuda_marked(struct kernels_ctx *ctx) {
    struct cuda_marks *marks = &ctx->marks;
    cuda_flush(ctx);
    cuda_looks(ctx, marks->n > 0);
    while (marks->n > 0 && ctx->kind->event_done(marks->events[marks->first])) {
        marks->done = marks->numbers[marks->first];
        marks->first = (marks->first + 1) % MARKS_MAX;
        marks->n--;
    }
    cuda_looks(ctx, marks->n > 0);
    return ctx->kind->failure(ctx->device) ? UINT32_MAX : marks->done;
}
