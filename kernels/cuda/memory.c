#include "kernels/cuda/memory.h"

#include "kernels/cuda/beside.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/wait.h"
#include "kernels/quant/order.h"

void *cuda_alloc(struct kernels_ctx *ctx, size_t n_bytes) {
    ctx->kind->use(ctx->device);
    return ctx->kind->alloc(ctx->device, n_bytes);
}

void cuda_dealloc(struct kernels_ctx *ctx, void *memory, size_t n_bytes) {
    (void)n_bytes;
    if (!memory)
        return;
    ctx->kind->use(ctx->device);
    cuda_flush(ctx);
    cuda_beside_join(ctx);
    if (ctx->main.stream)
        (void)cuda_wait(ctx, ctx->main.stream); /* a failure is told by the next step_end() */
    ctx->kind->dealloc(ctx->device, memory);
}

void cuda_free_ints(struct kernels_ctx *ctx, const struct gpu_ints *ints) {
    cuda_dealloc(ctx, ints->q, 0);
    cuda_dealloc(ctx, ints->scales, 0);
    cuda_dealloc(ctx, ints->sums, 0);
}

enum status cuda_reserve(struct kernels_ctx *ctx, uint32_t k_stored) {
    uint32_t n_groups = (order_filled(k_stored) / GROUP + 3) / 4 * 4; /* see struct gpu_ints */
    if (ctx->ints.q && n_groups <= ctx->ints.n_groups)
        return STATUS_OK;
    size_t n = (size_t)ctx->ints_rows * n_groups;
    struct gpu_ints made = {.q = cuda_alloc(ctx, n * GROUP),
                            .scales = cuda_alloc(ctx, n * sizeof(float)),
                            .sums = cuda_alloc(ctx, n * sizeof(float)),
                            .n_groups = n_groups};
    if (!made.q || !made.scales || !made.sums) {
        cuda_free_ints(ctx, &made);
        return STATUS_NOMEM;
    }
    cuda_free_ints(ctx, &ctx->ints);
    ctx->ints = made;
    return STATUS_OK;
}

void cuda_put(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    ctx->kind->use(ctx->device);
    cuda_flush(ctx);
    cuda_beside_join(ctx);
    cuda_to_device(ctx, &ctx->main, to, from, n_bytes);
}

void cuda_get(struct kernels_ctx *ctx, void *to, const void *from, size_t n_bytes) {
    ctx->kind->use(ctx->device);
    cuda_flush(ctx);
    cuda_beside_join(ctx);
    (void)cuda_from_device(ctx, &ctx->main, to, from, n_bytes); /* a failure: step_end() */
}
