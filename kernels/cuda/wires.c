/* kernels/cuda/wires.c: what ranks compute together where NCCL brings each the others' numbers: short vectors whole, of long ones each
 * rank its slice of all, whose sums are spread again. Kernels of ours add up, in the order of ranks (gpu/wires.cu), so sums have the
 * bits that all other ways give, at every length. */
#include "kernels/cuda/wires.h"

#include "base/assert.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/wait.h"

#include <string.h>

static size_t cuda_wires_most_of(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t cuda_wires_least_of(size_t a, size_t b) {
    return a < b ? a : b;
}

static float *cuda_wires_stage_of(const struct kernels_ctx *ctx) {
    return (float *)(ctx->ranks.room + 1);
}

/* Floats that take as much memory as n numbers of bfloat16: the library moves them without a look at what they are. */
static size_t cuda_wires_words_of(size_t n) {
    return (n + 7) / 8 * 4;
}

/* The end of the numbers from `at` on that are added up together. */
static size_t cuda_wires_end_of(const struct kernels_ctx *ctx, size_t at, size_t n) {
    size_t most = ctx->ranks.group.n_floats;
    return n - at < most ? n : at + most;
}

size_t cuda_wires_floats(uint32_t n_ranks, size_t n_floats, uint32_t columns) {
    size_t whole = cuda_wires_least_of(n_floats, gpu_sum_whole(n_ranks, false)),
           rounded_whole =
               cuda_wires_words_of(cuda_wires_least_of(n_floats, gpu_sum_whole(n_ranks, true))),
           row = GPU_COLUMNS + (size_t)columns;
    size_t most = n_ranks * cuda_wires_most_of(cuda_wires_most_of(whole, rounded_whole), row);
    size_t slices = n_floats + 4 * (size_t)n_ranks;
    size_t rounded =
        2 * cuda_wires_words_of(n_floats) + 4 * (size_t)n_ranks; /* with what is the rank's own */
    return cuda_wires_most_of(most, cuda_wires_most_of(slices, rounded));
}

/* Sums. */

struct wires_sum {
    float *x;
    uint64_t n;
};

static struct nccl_slices cuda_wires_slices_of(const struct kernels_ctx *ctx, size_t n) {
    size_t n_ranks = ctx->ranks.group.n_ranks, slice = (n + 4 * n_ranks - 1) / (4 * n_ranks) * 4;
    ASSERT(slice * (n_ranks - 1) <
           n); /* each rank has some: n is that of gpu_sum_whole() at least, or half of it */
    return (struct nccl_slices){.n = n, .slice = slice};
}

/* The rank's own numbers (n) become the sum, with those of the others in the stage. */
static void cuda_wires_sum_parts(struct kernels_ctx *ctx, float *own, size_t n, size_t stride) {
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    struct gpu_sum_parts sum = {.parts = cuda_wires_stage_of(ctx),
                                .own = own,
                                .out = own,
                                .stride = stride,
                                .n = (uint32_t)n,
                                .rank = group->rank,
                                .n_ranks = group->n_ranks};
    sum.whole = (uintptr_t)own % 16 == 0 && n % 4 == 0 && stride % 4 == 0;
    ctx->gpu->sum_parts(ctx->main.stream, &sum);
}

static void cuda_wires_run_sum(struct kernels_ctx *ctx, const void *what) {
    struct wires_sum sum;
    struct nccl_group *nccl = ctx->ranks.nccl;
    memcpy(&sum, what, sizeof sum);
    if (sum.n <= gpu_sum_whole(ctx->ranks.group.n_ranks, false)) {
        nccl_all_gather(nccl, ctx->main.stream, cuda_wires_stage_of(ctx), sum.x, sum.n);
        cuda_wires_sum_parts(ctx, sum.x, sum.n, sum.n);
        return;
    }
    struct nccl_slices cut = cuda_wires_slices_of(ctx, sum.n);
    uint32_t rank = ctx->ranks.group.rank;
    nccl_exchange(nccl, ctx->main.stream, cuda_wires_stage_of(ctx), sum.x, &cut);
    cuda_wires_sum_parts(ctx, sum.x + rank * cut.slice, nccl_slice_of(&cut, rank), cut.slice);
    nccl_spread(nccl, ctx->main.stream, sum.x, &cut);
}

size_t cuda_wires_sum(struct kernels_ctx *ctx, float *x, size_t at, size_t n) {
    size_t end = cuda_wires_end_of(ctx, at, n);
    struct wires_sum sum = {x + at, end - at};
    cuda_operation(ctx, cuda_wires_run_sum, &sum, sizeof sum);
    return end;
}

/* Parts that cross rounded. The stage has what all ranks bring; of long ones the rank's own (words_of(n)), which the sums take the
 * place of, and behind it the others' slices. */

struct wires_add {
    float *x;
    const float *part;
    uint64_t n;
};

static void cuda_wires_round_part(struct kernels_ctx *ctx, float *to, const struct wires_add *add) {
    struct gpu_round_part what = {.part = add->part,
                                  .to = (uint16_t *)(void *)to,
                                  .n = (uint32_t)add->n,
                                  .n_to = (uint32_t)(2 * cuda_wires_words_of(add->n)),
                                  .whole = (uintptr_t)add->part % 16 == 0 && add->n % 4 == 0};
    ctx->gpu->round_part(ctx->main.stream, &what);
}

static void cuda_wires_add_stage(struct kernels_ctx *ctx, const struct wires_add *add,
                                 uint32_t n_parts) {
    struct gpu_add_parts what = {.parts = (const uint16_t *)(const void *)cuda_wires_stage_of(ctx),
                                 .x = add->x,
                                 .stride = 2 * cuda_wires_words_of(add->n),
                                 .n = (uint32_t)add->n,
                                 .n_parts = n_parts,
                                 .whole = (uintptr_t)add->x % 16 == 0 && add->n % 4 == 0};
    ctx->gpu->add_parts(ctx->main.stream, &what);
}

/* The rank's slice of `own` becomes the sum of all ranks' ones. */
static void cuda_wires_sum_slice(struct kernels_ctx *ctx, float *own, const float *others,
                                 const struct nccl_slices *cut) {
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    float *slice = own + group->rank * cut->slice;
    struct gpu_sum_parts sum = {.parts = others,
                                .own = slice,
                                .out = slice,
                                .stride = 2 * cut->slice,
                                .n = (uint32_t)(2 * nccl_slice_of(cut, group->rank)),
                                .rank = group->rank,
                                .n_ranks = group->n_ranks,
                                .whole = true,
                                .rounds = true};
    ctx->gpu->sum_parts(ctx->main.stream, &sum);
}

static void cuda_wires_run_add(struct kernels_ctx *ctx, const void *what) {
    struct wires_add add;
    struct nccl_group *nccl = ctx->ranks.nccl;
    struct device_stream *stream = ctx->main.stream;
    float *stage = cuda_wires_stage_of(ctx);
    memcpy(&add, what, sizeof add);
    size_t n_words = cuda_wires_words_of(add.n);
    if (add.n <= gpu_sum_whole(ctx->ranks.group.n_ranks, true)) {
        float *own = stage + ctx->ranks.group.rank * n_words;
        cuda_wires_round_part(ctx, own, &add);
        nccl_all_gather(nccl, stream, stage, own, n_words);
        cuda_wires_add_stage(ctx, &add, ctx->ranks.group.n_ranks);
        return;
    }
    struct nccl_slices cut = cuda_wires_slices_of(ctx, n_words);
    cuda_wires_round_part(ctx, stage, &add);
    nccl_exchange(nccl, stream, stage + n_words, stage, &cut);
    cuda_wires_sum_slice(ctx, stage, stage + n_words, &cut);
    nccl_spread(nccl, stream, stage, &cut);
    cuda_wires_add_stage(ctx, &add, 1);
}

size_t cuda_wires_add(struct kernels_ctx *ctx, float *x, const float *part, size_t at, size_t n) {
    size_t end = cuda_wires_end_of(ctx, at, n);
    struct wires_add add = {x + at, part + at, end - at};
    cuda_operation(ctx, cuda_wires_run_add, &add, sizeof add);
    return end;
}

/* Columns. */

struct wires_gather {
    struct gpu_pack_columns pack;
    struct gpu_place_columns place; /* out NULL: of another rank */
};

static void cuda_wires_run_gather(struct kernels_ctx *ctx, const void *what) {
    struct wires_gather gather;
    memcpy(&gather, what, sizeof gather);
    ctx->gpu->pack_columns(ctx->main.stream, &gather.pack);
    nccl_to_first(ctx->ranks.nccl, ctx->main.stream, gather.pack.to, gather.pack.to,
                  gather.place.each);
    if (gather.place.out)
        ctx->gpu->place_columns(ctx->main.stream, &gather.place);
}

void cuda_wires_gather(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *part,
                       size_t n_rows, size_t column_begin, size_t n_columns) {
    const struct cuda_ranks *ranks = &ctx->ranks;
    const uint32_t n_ranks = ranks->group.n_ranks;
    ASSERT(n_columns <= ranks->columns);
    size_t most = (ranks->stage_floats / n_ranks - GPU_COLUMNS) / ranks->columns;
    for (size_t row = 0, next; row < n_rows; row = next) {
        next = n_rows - row < most ? n_rows : row + most;
        struct wires_gather gather = {.pack = {.part = part + row * n_columns,
                                               .to = cuda_wires_stage_of(ctx),
                                               .n_rows = (uint32_t)(next - row),
                                               .n_columns = (uint32_t)n_columns,
                                               .begin = (uint32_t)column_begin},
                                      .place = {.from = cuda_wires_stage_of(ctx),
                                                .out = out ? out + row * out_stride : NULL,
                                                .out_stride = out_stride,
                                                .each = GPU_COLUMNS + (next - row) * ranks->columns,
                                                .n_rows = (uint32_t)(next - row),
                                                .n_ranks = n_ranks}};
        cuda_operation(ctx, cuda_wires_run_gather, &gather, sizeof gather);
    }
}

/* The first use. */

#define TRIED 4 /* numbers of each rank: that many times its own number */

static enum status cuda_wires_tell(struct kernels_ctx *ctx, const char *way, struct error *error) {
    const char *of_group = nccl_failure(ctx->ranks.nccl), *of_device = NULL;
    if (!of_group)
        of_device = ctx->kind->failure(ctx->device);
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s", way,
                     of_group    ? of_group
                     : of_device ? of_device
                                 : "the device failed");
}

static enum status cuda_wires_compare(struct kernels_ctx *ctx, const char *way, const float *at,
                                      bool but_own, struct error *error) {
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    float came[GPU_RANKS * TRIED];
    enum status status =
        cuda_from_device(ctx, &ctx->main, came, at, group->n_ranks * TRIED * sizeof *came);
    if (status != STATUS_OK)
        return cuda_wires_tell(ctx, way, error);
    for (uint32_t i = 0; i < group->n_ranks * TRIED; i++)
        if (came[i] != (float)(i / TRIED + 1) && !(but_own && i / TRIED == group->rank))
            return error_set(error, STATUS_UNSUPPORTED, "%s: rank %u got %g of rank %u", way,
                             group->rank, (double)came[i], i / TRIED);
    return STATUS_OK;
}

static enum status cuda_wires_try_ways(struct kernels_ctx *ctx, float *x, float *to,
                                       struct error *error) {
    static const char first[] = "numbers for the first rank";
    const struct gpu_group_of_ranks *group = &ctx->ranks.group;
    struct nccl_group *nccl = ctx->ranks.nccl;
    const struct nccl_slices cut = {.n = group->n_ranks * TRIED, .slice = TRIED};
    float mine[GPU_RANKS * TRIED];
    for (size_t i = 0; i < cut.n; i++)
        mine[i] = (float)(group->rank + 1);
    cuda_put(ctx, x, mine, cut.n * sizeof *x);
    nccl_all_gather(nccl, ctx->main.stream, to, x, TRIED);
    TRY(cuda_wires_compare(ctx, "numbers for all ranks", to, false, error));
    cuda_put(ctx, to, mine, cut.n * sizeof *to);
    nccl_exchange(nccl, ctx->main.stream, to, x, &cut);
    TRY(cuda_wires_compare(ctx, "slices between ranks", to, true, error));
    nccl_spread(nccl, ctx->main.stream, x, &cut);
    TRY(cuda_wires_compare(ctx, "slices for all ranks", x, false, error));
    cuda_put(ctx, to, mine, cut.n * sizeof *to);
    nccl_to_first(nccl, ctx->main.stream, to, x + group->rank * cut.slice, TRIED);
    if (group->rank == 0)
        return cuda_wires_compare(ctx, first, to, false, error);
    return cuda_wait(ctx, ctx->main.stream) == STATUS_OK ? STATUS_OK
                                                         : cuda_wires_tell(ctx, first, error);
}

enum status cuda_wires_try(struct kernels_ctx *ctx, struct error *error) {
    const size_t n_bytes = ctx->ranks.group.n_ranks * TRIED * sizeof(float);
    float *x = cuda_alloc(ctx, n_bytes), *to = cuda_alloc(ctx, n_bytes);
    enum status status = STATUS_NOMEM;
    if (x && to)
        status = cuda_wires_try_ways(ctx, x, to, error);
    else
        error_set(error, status, "the device has no memory to try its group");
    cuda_dealloc(ctx, x, n_bytes);
    cuda_dealloc(ctx, to, n_bytes);
    return status;
}
