#include "kernels/cuda/cuda.h"

enum status cuda_wait(struct kernels_ctx *ctx, struct device_stream *stream) {
    struct nccl_group *nccl = ctx->ranks.nccl;
    if (!nccl)
        return ctx->kind->wait(stream);
    nccl_wait_begins(nccl);
    enum status status = ctx->kind->wait(stream);
    nccl_wait_ends(nccl);
    const char *why = nccl_failure(nccl);
    if (why && ctx->ranks.has_met)
        ctx->kind->fail(ctx->device, why);
    return why ? STATUS_IO : status;
}

const char *cuda_failure(const struct kernels_ctx *ctx) {
    return ctx->kind->failure(ctx->device);
}
