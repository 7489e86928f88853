/* kernels/cuda/ranks.c: what ranks, each with a device, compute together: the room that a rank's device keeps for it, how it meets
 * the others, and the operations where devices reach each other's rooms (gpu/ranks.cu). */
#include "kernels/cuda/ranks.h"

#include "base/assert.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/held.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/wait.h"
#include "kernels/cuda/wires.h"

#include <string.h>

#define STAGE_FLOATS (2u << 20) /* more numbers are added up in parts */
#define WAIT_MS      20000      /* for a rank that is late, where options do not say */

static size_t cuda_ranks_most_of(size_t a, size_t b) {
    return a > b ? a : b;
}

enum status cuda_ranks_open(struct kernels_ctx *ctx, const struct kernels_options *options,
                            struct error *error) {
    struct cuda_ranks *ranks = &ctx->ranks;
    if (options->n_ranks <= 1)
        return STATUS_OK;
    size_t n = options->together < STAGE_FLOATS ? options->together : STAGE_FLOATS;
    n = cuda_ranks_most_of(n, options->limits.n_vocab); /* a row of what is gathered */
    ranks->columns = options->columns > 0 ? options->columns : options->limits.n_vocab;
    ranks->group.n_floats = ((uint32_t)n + 3) / 4 * 4;
    ranks->stage_floats = cuda_ranks_most_of(
        2 * (size_t)ranks->group.n_floats,
        cuda_wires_floats(options->n_ranks, ranks->group.n_floats, ranks->columns));
    ranks->group.wait_ns = (options->wait_ms > 0 ? options->wait_ms : WAIT_MS) * 1000000ull;
    ranks->room = cuda_alloc(ctx, sizeof *ranks->room + ranks->stage_floats * sizeof(float));
    if (!ranks->room)
        return error_set(error, STATUS_NOMEM, "the device has no memory for sums of %u ranks",
                         options->n_ranks);
    return STATUS_OK;
}

/* To a rank that computes by itself. */
static void cuda_ranks_leave(struct kernels_ctx *ctx) {
    struct gpu_group_of_ranks *group = &ctx->ranks.group;
    for (uint32_t rank = 0; rank < group->n_ranks; rank++)
        if (rank != group->rank && group->rooms[rank])
            ctx->kind->unreach(ctx->device, group->rooms[rank]);
    memset(group->rooms, 0, sizeof group->rooms);
    group->n_ranks = 0;
    cuda_looks(ctx, false);
    nccl_close(ctx->ranks.nccl);
    ctx->ranks.nccl = NULL;
    ctx->ranks.has_met = false;
}

void cuda_ranks_close(struct kernels_ctx *ctx) {
    ctx->kind->use(ctx->device);
    cuda_ranks_leave(ctx);
    cuda_dealloc(ctx, ctx->ranks.room, 0);
}

static uint32_t cuda_ranks_wait_ms_of(const struct kernels_ctx *ctx) {
    return (uint32_t)(ctx->ranks.group.wait_ns / 1000000);
}

enum status cuda_group_id(struct kernels_ctx *ctx, struct kernels_group_id *id,
                          struct error *error) {
    ctx->kind->use(ctx->device);
    return nccl_group_id(ctx->kind, cuda_ranks_wait_ms_of(ctx), id, error);
}

/* By the memory of the others. */
static enum status cuda_ranks_reach_all(struct kernels_ctx *ctx, struct kernels_ctx *const *all,
                                        struct error *error) {
    struct gpu_group_of_ranks *group = &ctx->ranks.group;
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        const struct cuda_ranks *other = &all[i]->ranks;
        ASSERT(all[i]->kind == ctx->kind && other->group.n_floats == group->n_floats);
        group->rooms[i] = i == group->rank
                              ? other->room
                              : ctx->kind->reach(ctx->device, all[i]->device, other->room);
        if (!group->rooms[i])
            return error_set(error, STATUS_UNSUPPORTED,
                             "the device of rank %u does not reach that of rank %u", group->rank,
                             i);
    }
    return STATUS_OK;
}

/* By NCCL. */
static enum status cuda_ranks_join(struct kernels_ctx *ctx, const struct kernels_group_id *id,
                                   struct error *error) {
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    TRY(nccl_open(ctx->kind, id, group->rank, group->n_ranks, cuda_ranks_wait_ms_of(ctx),
                  &ctx->ranks.nccl, error));
    TRY(nccl_ready(ctx->ranks.nccl, error));
    return cuda_wires_try(ctx, error);
}

enum status cuda_meet(struct kernels_ctx *ctx, uint32_t rank, uint32_t n_ranks,
                      struct kernels_ctx *const *all, const struct kernels_group_id *id,
                      struct error *error) {
    struct gpu_group_of_ranks *group = &ctx->ranks.group;
    ASSERT(n_ranks == 0 || (rank < n_ranks && ctx->ranks.room));
    ASSERT(n_ranks == 0 || (id ? !all : all && all[rank] == ctx));
    ctx->kind->use(ctx->device);
    cuda_flush(ctx);
    cuda_graphs_forget(ctx); /* they call the old group, which no record shows */
    cuda_ranks_leave(ctx);
    ctx->graphs.off = ctx->ranks.no_graphs || n_ranks == 0;
    if (n_ranks == 0)
        return STATUS_OK;
    if (n_ranks > GPU_RANKS)
        return error_set(error, STATUS_UNSUPPORTED, "more than %d devices", GPU_RANKS);
    group->rank = rank;
    group->n_ranks = n_ranks;
    enum status status =
        id ? cuda_ranks_join(ctx, id, error) : cuda_ranks_reach_all(ctx, all, error);
    ctx->ranks.has_met = status == STATUS_OK;
    if (status != STATUS_OK) {
        cuda_ranks_leave(ctx);
        ctx->graphs.off = true;
    }
    return status;
}

/* The numbers from `at` on of x and part, as many as a stage takes; answers where the next ones begin. */
static size_t cuda_ranks_sum_some(struct kernels_ctx *ctx, float *x, const float *part, size_t at,
                                  size_t n) {
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    size_t next = n - at < group->n_floats ? n : at + group->n_floats;
    struct gpu_sum_ranks sum = {.group = *group,
                                .part = part + at,
                                .x = x + at,
                                .n = (uint32_t)(next - at),
                                .rounds = part != x};
    sum.whole = (uintptr_t)sum.x % 16 == 0 && (uintptr_t)sum.part % 16 == 0 && sum.n % 4 == 0;
    sum.slices = sum.n > gpu_sum_whole(group->n_ranks, sum.rounds);
    if (sum.rounds && sum.whole && !sum.slices && sum.n == n)
        cuda_hold_ranks(ctx, &sum); /* a norm may follow */
    else
        cuda_launch_sum_ranks(ctx, &sum);
    return next;
}

void cuda_sum(struct kernels_ctx *ctx, float *x, size_t n) {
    ASSERT(ctx->ranks.group.n_ranks > 0);
    cuda_forget_rounded(ctx, x, n);
    for (size_t at = 0; at < n;)
        at =
            ctx->ranks.nccl ? cuda_wires_sum(ctx, x, at, n) : cuda_ranks_sum_some(ctx, x, x, at, n);
}

void cuda_add_parts(struct kernels_ctx *ctx, float *x, float *part, size_t n) {
    ASSERT(ctx->fast && ctx->ranks.group.n_ranks > 0 && part != x);
    cuda_forget_rounded(ctx, x, n);
    for (size_t at = 0; at < n;)
        at = ctx->ranks.nccl ? cuda_wires_add(ctx, x, part, at, n)
                             : cuda_ranks_sum_some(ctx, x, part, at, n);
}

void cuda_gather(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                 size_t n_rows, size_t column_begin, size_t n_columns) {
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    ASSERT(group->n_ranks > 0 && (out != NULL) == (group->rank == 0));
    ASSERT(out_stride > 0 && out_stride <= group->n_floats);
    ASSERT(column_begin <= out_stride && n_columns <= out_stride - column_begin);
    if (ctx->ranks.nccl) {
        cuda_wires_gather(ctx, out, out_stride, part, n_rows, column_begin, n_columns);
        return;
    }
    size_t most = group->n_floats / out_stride;
    for (size_t row = 0, next; row < n_rows; row = next) {
        next = n_rows - row < most ? n_rows : row + most;
        cuda_launch_gather_ranks(
            ctx, &(struct gpu_gather_ranks){.group = *group,
                                            .part = part + row * n_columns,
                                            .out = out ? out + row * out_stride : NULL,
                                            .out_stride = out_stride,
                                            .n_rows = (uint32_t)(next - row),
                                            .n_columns = (uint32_t)n_columns,
                                            .begin = (uint32_t)column_begin});
    }
}
