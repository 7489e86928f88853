#include "kernels/cuda/wait.h"

/* Why the group is at an end, which is a failure of the device, too; NULL: it is not. */
static const char *cuda_group_failure(struct kernels_ctx *ctx) {
    const char *why = nccl_failure(ctx->ranks.nccl);
    if (why && ctx->ranks.has_met)
        ctx->kind->fail(ctx->device, why);
    return why;
}

enum status cuda_wait(struct kernels_ctx *ctx, struct device_stream *stream) {
    struct nccl_group *nccl = ctx->ranks.nccl;
    struct nccl_wait wait;
    if (!nccl)
        return ctx->kind->wait(stream);
    nccl_wait_begins(nccl, &wait);
    enum status status = ctx->kind->wait(stream);
    nccl_wait_ends(nccl, &wait);
    return cuda_group_failure(ctx) ? STATUS_IO : status;
}

void cuda_looks(struct kernels_ctx *ctx, bool again) {
    struct cuda_ranks *ranks = &ctx->ranks;
    if (!ranks->nccl)
        return;
    if (again && !ranks->looks)
        nccl_wait_begins(ranks->nccl, &ranks->look);
    if (!again && ranks->looks)
        nccl_wait_ends(ranks->nccl, &ranks->look);
    ranks->looks = again;
    (void)cuda_group_failure(ctx);
}

/* Behind a link that broke, kernels of ours find numbers that are none: the group is asked first. */
const char *cuda_failure(const struct kernels_ctx *ctx) {
    const char *found = ctx->kind->failure(ctx->device), *of_group = NULL;
    if (found && ctx->ranks.nccl && ctx->ranks.has_met)
        of_group = nccl_failure_now(ctx->ranks.nccl);
    return of_group ? of_group : found;
}
