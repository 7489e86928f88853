/* kernels/cuda/cuda.c: opening and closing a context, and the rows of the backend in the table of backends. */
#include "base/random.h"
#include "kernels/cuda/ahead.h"
#include "kernels/cuda/beside.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/experts.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/launches.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/ranks.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/step.h"
#include "kernels/cuda/wait.h"
#include "kernels/cuda/weight.h"
#include "kernels/limits.h"
#include "kernels/numbers.h"
#include "kernels/quant/order.h"

#include <stdio.h>
#include <stdlib.h>

#define INTS_ROWS 4096 /* rows of activations that are integers at a time */
/* Partial results of attention, those of 2,048 tokens of 32 heads: more are taken in parts, of whole tiles. */
#define ATTEND_FLOATS (72u << 20)

static void cuda_close(struct kernels_ctx *ctx) {
    if (!ctx)
        return;
    if (ctx->main.stream)
        (void)cuda_wait(ctx, ctx->main.stream);
    if (ctx->device) {
        cuda_graphs_close(ctx);
        cuda_experts_close(ctx);
        cuda_step_close(ctx);
        cuda_ahead_close(ctx);
        cuda_sampler_close(ctx);
        cuda_free_ints(ctx, &ctx->ints);
        cuda_dealloc(ctx, ctx->attend, 0);
        cuda_dealloc(ctx, ctx->parts, 0);
        cuda_ranks_close(ctx);
        cuda_beside_close(ctx);
        cuda_lane_close(ctx, &ctx->main);
        ctx->kind->close(ctx->device);
    }
    free(ctx);
}

static size_t cuda_attend_floats(const struct kernels_limits *limits) {
    size_t chunks = (limits->max_context + ATTEND_CHUNK - 1) / ATTEND_CHUNK;
    size_t per_token = chunks * limits->n_heads * ((size_t)limits->head_dim + 2);
    size_t all = per_token * limits->max_tokens;
    uint32_t group = limits_heads_in_group(limits);
    size_t tile = per_token * (group < GPU_QUERIES ? GPU_QUERIES / group : 1);
    size_t most = tile > ATTEND_FLOATS ? tile : ATTEND_FLOATS;
    return all < most ? all : most;
}

/* Slices of products of up to 64 rows, at most 64 MiB: what has more is added up where it is computed. */
#define PARTS_FLOATS (16u << 20)

static enum status cuda_open_parts(struct kernels_ctx *ctx, struct error *error) {
    const struct kernels_limits *limits = &ctx->limits;
    size_t rows = limits->max_tokens < TENSOR_FEW ? limits->max_tokens : TENSOR_FEW;
    size_t n_slices = limits->max_dim / TENSOR_SLICE + 1;
    size_t most = rows * n_slices * ((size_t)limits->max_dim + GPU_OUTPUTS);
    ctx->parts_floats = most < PARTS_FLOATS ? most : PARTS_FLOATS;
    ctx->parts = cuda_alloc(ctx, ctx->parts_floats * sizeof *ctx->parts);
    if (!ctx->parts)
        return error_set(error, STATUS_NOMEM, "the device has no memory for parts of products");
    return STATUS_OK;
}

static enum status cuda_open_device(struct kernels_ctx *ctx, uint32_t ordinal,
                                    struct error *error) {
    const struct kernels_limits *limits = &ctx->limits;
    TRY(ctx->kind->open(ordinal, &ctx->device, error));
    ctx->kind->use(ctx->device);
    ctx->kind->facts(ctx->device, &ctx->facts);
    enum status status = cuda_lane_open(ctx, &ctx->main, STAGE_BYTES);
    ctx->attend_floats = cuda_attend_floats(limits);
    ctx->attend = cuda_alloc(ctx, ctx->attend_floats * sizeof(float));
    if (status != STATUS_OK || !ctx->attend)
        return error_set(error, STATUS_NOMEM, "the device has no memory for a context");
    uint32_t rows = limits->max_tokens > EXPERTS_MAX ? limits->max_tokens : EXPERTS_MAX;
    ctx->ints_rows = 2 * (rows < INTS_ROWS ? rows : INTS_ROWS);
    if (cuda_reserve(ctx, order_filled(limits->max_dim)) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "the device has no memory for rows of %u inputs",
                         limits->max_dim);
    if (ctx->fast)
        TRY(cuda_open_parts(ctx, error));
    TRY(cuda_beside_open(ctx, error));
    TRY(cuda_sampler_open(ctx, error));
    TRY(cuda_step_open(ctx, error));
    return cuda_ahead_open(ctx, error);
}

/* A digest of what the device's tensor cores make of fixed operands: devices of the same one round alike. */
static enum status cuda_probe_device(struct kernels_ctx *ctx, uint64_t *digest,
                                     struct error *error) {
    float results[GPU_PROBES];
    struct gpu_probe probe = {cuda_alloc(ctx, sizeof results)};
    if (!probe.out)
        return error_set(error, STATUS_NOMEM, "the device has no memory for a probe");
    ctx->gpu->probe(ctx->main.stream, &probe);
    enum status status = cuda_from_device(ctx, &ctx->main, results, probe.out, sizeof results);
    cuda_dealloc(ctx, probe.out, sizeof results);
    if (status != STATUS_OK)
        return error_set(error, status, "the device failed at its first kernel: %s",
                         ctx->kind->failure(ctx->device));
    *digest = 0;
    for (uint32_t i = 0; i < GPU_PROBES; i++)
        *digest = mix64(*digest ^ float_bits(results[i]));
    return STATUS_OK;
}

/* Whether the device has wgmma, and it adds up as mma.sync does. */
static enum status cuda_probe_warpgroup(struct kernels_ctx *ctx, struct error *error) {
    uint32_t n_unlike[GPU_WARPGROUPS], all = 0;
    if (ctx->facts.capability != 90)
        return STATUS_OK;
    struct gpu_probe_warpgroup probe = {cuda_alloc(ctx, sizeof n_unlike)};
    if (!probe.n_unlike)
        return error_set(error, STATUS_NOMEM, "the device has no memory for a probe");
    ctx->gpu->probe_warpgroup(ctx->main.stream, &probe);
    enum status status =
        cuda_from_device(ctx, &ctx->main, n_unlike, probe.n_unlike, sizeof n_unlike);
    cuda_dealloc(ctx, probe.n_unlike, sizeof n_unlike);
    if (status != STATUS_OK)
        return error_set(error, status, "the device failed at its probe of wgmma: %s",
                         ctx->kind->failure(ctx->device));
    for (uint32_t i = 0; i < GPU_WARPGROUPS; i++)
        all |= n_unlike[i];
    ctx->wgmma = all == 0;
    return STATUS_OK;
}

static enum status cuda_name_numerics(struct kernels_ctx *ctx, uint32_t n_ranks,
                                      struct error *error) {
    uint64_t digest = 0;
    snprintf(ctx->numerics, sizeof ctx->numerics, "%s", NUMERICS_TEXT);
    if (!ctx->fast)
        return STATUS_OK;
    TRY(cuda_probe_device(ctx, &digest, error));
    TRY(cuda_probe_warpgroup(ctx, error));
    snprintf(ctx->numerics, sizeof ctx->numerics,
             "%s; mma16 %016llx: products s1024, attend s256, norm t512%s", NUMERICS_TEXT,
             (unsigned long long)digest, n_ranks > 1 ? ", parts bf16" : "");
    return STATUS_OK;
}

static enum status cuda_open_with(const struct device_kind *kind, const struct gpu_launches *gpu,
                                  bool fast, const struct kernels_options *options,
                                  struct kernels_ctx **ctx, struct error *error) {
    TRY(limits_check(options, error));
    struct kernels_ctx *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for a context");
    made->kind = kind;
    made->gpu = gpu;
    made->fast = fast;
    made->limits = options->limits;
    made->ranks.no_graphs = options->no_graphs;
    made->graphs.off = options->no_graphs || options->n_ranks > 1; /* until they have met */
    enum status status = cuda_open_device(made, options->device, error);
    if (status == STATUS_OK)
        status = cuda_name_numerics(made, options->n_ranks, error);
    if (status == STATUS_OK)
        status = cuda_ranks_open(made, options, error);
    if (status != STATUS_OK) {
        cuda_close(made);
        return status;
    }
    *ctx = made;
    return STATUS_OK;
}

static enum status cuda_free_bytes_of(const struct device_kind *kind, uint32_t ordinal,
                                      uint64_t *n_bytes, struct error *error) {
    struct device *device;
    TRY(kind->open(ordinal, &device, error));
    kind->use(device);
    *n_bytes = kind->free_bytes(device);
    kind->close(device);
    return STATUS_OK;
}

static const char *cuda_numerics(const struct kernels_ctx *ctx) {
    return ctx->numerics;
}

/* A member of the table of backends: one device seam, one set of kernels, exact or fast numerics. */
#define CUDA_BACKEND(row, name_text, device_kind_, launches, fast)                                 \
    extern const struct device_kind device_kind_;                                                  \
    extern const struct gpu_launches launches;                                                     \
    static enum status row##_open(const struct kernels_options *options, struct kernels_ctx **ctx, \
                                  struct error *error) {                                           \
        return cuda_open_with(&device_kind_, &launches, fast, options, ctx, error);                \
    }                                                                                              \
    static enum status row##_free_bytes(uint32_t device, uint64_t *n_bytes, struct error *error) { \
        return cuda_free_bytes_of(&device_kind_, device, n_bytes, error);                          \
    }                                                                                              \
    const struct kernels row = {                                                                   \
        .name = name_text,                                                                         \
        .numerics_kind = (fast) ? "fast" : "exact",                                                \
        .open = row##_open,                                                                        \
        .close = cuda_close,                                                                       \
        .numerics = cuda_numerics,                                                                 \
        .free_bytes = row##_free_bytes,                                                            \
        .alloc = cuda_alloc,                                                                       \
        .dealloc = cuda_dealloc,                                                                   \
        .put = cuda_put,                                                                           \
        .get = cuda_get,                                                                           \
        .put_beside = cuda_put_beside,                                                             \
        .get_beside = cuda_get_beside,                                                             \
        .step_begin = cuda_step_begin,                                                             \
        .step_end = cuda_step_end,                                                                 \
        .rehearse = cuda_rehearse,                                                                 \
        .mark = cuda_mark,                                                                         \
        .marked = cuda_marked,                                                                     \
        .weight_size = cuda_weight_size,                                                           \
        .weight_pack = cuda_weight_pack,                                                           \
        .embed = cuda_embed,                                                                       \
        .norm = cuda_norm,                                                                         \
        .linear = cuda_linear,                                                                     \
        .silu_mul = cuda_silu_mul,                                                                 \
        .add_gated = cuda_add_gated,                                                               \
        .moe_route = cuda_moe_route,                                                               \
        .moe_scratch = cuda_moe_scratch,                                                           \
        .moe_ffn = cuda_moe_ffn,                                                                   \
        .rope_kv = cuda_rope_kv,                                                                   \
        .attend = cuda_attend,                                                                     \
        .gather_rows = cuda_gather_rows,                                                           \
        .sample = cuda_sample,                                                                     \
        .sample_begin = cuda_sample_begin,                                                         \
        .sample_done = cuda_sample_done,                                                           \
        .sample_end = cuda_sample_end,                                                             \
        .failure = cuda_failure,                                                                   \
        .group_id = cuda_group_id,                                                                 \
        .meet = cuda_meet,                                                                         \
        .sum = cuda_sum,                                                                           \
        .add_parts = (fast) ? cuda_add_parts : NULL,                                               \
        .gather = cuda_gather,                                                                     \
    }

#ifdef TANDEM_CUDA
CUDA_BACKEND(kernels_cuda_fast, "cuda", device_cuda, launches_cuda, true);
CUDA_BACKEND(kernels_cuda_exact, "cuda", device_cuda, launches_cuda, false);
#endif
#ifdef TANDEM_EMU
CUDA_BACKEND(kernels_cuda_emu_fast, "cuda-emu", device_emu, launches_emu, true);
CUDA_BACKEND(kernels_cuda_emu_exact, "cuda-emu", device_emu, launches_emu, false);
#endif
