#include "kernels/cuda/cuda.h"

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
        (void)ctx->kind->wait(ctx->main.stream);
    if (ctx->device) {
        cuda_graphs_close(ctx);
        cuda_experts_close(ctx);
        cuda_step_close(ctx);
        cuda_sampler_close(ctx);
        cuda_free_ints(ctx, &ctx->ints);
        cuda_dealloc(ctx, ctx->attend, 0);
        cuda_beside_close(ctx);
        cuda_lane_close(ctx, &ctx->main);
        ctx->kind->close(ctx->device);
    }
    free(ctx);
}

static size_t attend_floats(const struct kernels_limits *limits) {
    size_t chunks = (limits->max_context + ATTEND_CHUNK - 1) / ATTEND_CHUNK;
    size_t per_token = chunks * limits->n_heads * ((size_t)limits->head_dim + 2);
    size_t all = per_token * limits->max_tokens;
    uint32_t group = limits->n_heads / limits->n_kv_heads;
    size_t tile = per_token * (group < GPU_QUERIES ? GPU_QUERIES / group : 1);
    size_t most = tile > ATTEND_FLOATS ? tile : ATTEND_FLOATS;
    return all < most ? all : most;
}

static enum status open_device(struct kernels_ctx *ctx, uint32_t ordinal, struct error *error) {
    const struct kernels_limits *limits = &ctx->limits;
    TRY(ctx->kind->open(ordinal, &ctx->device, error));
    ctx->kind->use(ctx->device);
    enum status status = cuda_lane_open(ctx, &ctx->main, STAGE_BYTES);
    ctx->attend_floats = attend_floats(limits);
    ctx->attend = cuda_alloc(ctx, ctx->attend_floats * sizeof(float));
    if (status != STATUS_OK || !ctx->attend)
        return error_set(error, STATUS_NOMEM, "the device has no memory for a context");
    uint32_t rows = limits->max_tokens > EXPERTS_MAX ? limits->max_tokens : EXPERTS_MAX;
    ctx->ints_rows = 2 * (rows < INTS_ROWS ? rows : INTS_ROWS);
    if (cuda_reserve(ctx, order_filled(limits->max_dim)) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "the device has no memory for rows of %u inputs",
                         limits->max_dim);
    TRY(cuda_beside_open(ctx, error));
    TRY(cuda_sampler_open(ctx, error));
    return cuda_step_open(ctx, error);
}

/* How tensor cores round inside of an mma differs from generation to generation. */
static void name_numerics(struct kernels_ctx *ctx) {
    struct device_facts facts;
    ctx->kind->facts(ctx->device, &facts);
    if (ctx->fast)
        snprintf(ctx->numerics, sizeof ctx->numerics,
                 "%s; products by mma16 of %s %u; attend by mma16 s256", NUMERICS_TEXT,
                 ctx->kind->name, facts.capability);
    else
        snprintf(ctx->numerics, sizeof ctx->numerics, "%s", NUMERICS_TEXT);
}

static enum status open_with(const struct device_kind *kind, const struct gpu_launches *gpu,
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
    made->graphs.off = options->no_graphs;
    enum status status = open_device(made, options->device, error);
    if (status != STATUS_OK) {
        cuda_close(made);
        return status;
    }
    name_numerics(made);
    *ctx = made;
    return STATUS_OK;
}

static enum status free_bytes_of(const struct device_kind *kind, uint32_t ordinal,
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
        return open_with(&device_kind_, &launches, fast, options, ctx, error);                     \
    }                                                                                              \
    static enum status row##_free_bytes(uint32_t device, uint64_t *n_bytes, struct error *error) { \
        return free_bytes_of(&device_kind_, device, n_bytes, error);                               \
    }                                                                                              \
    const struct kernels row = {                                                                   \
        .name = name_text,                                                                         \
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
        .moe_ffn = cuda_moe_ffn,                                                                   \
        .rope_kv = cuda_rope_kv,                                                                   \
        .attend = cuda_attend,                                                                     \
        .gather_rows = cuda_gather_rows,                                                           \
        .sample = cuda_sample,                                                                     \
    }

#ifdef TANDEM_CUDA
CUDA_BACKEND(kernels_cuda, "cuda", device_cuda, launches_cuda, false);
CUDA_BACKEND(kernels_cuda_fast, "cuda-fast", device_cuda, launches_cuda, true);
#endif
#ifdef TANDEM_EMU
CUDA_BACKEND(kernels_cuda_emu, "cuda-emu", device_emu, launches_emu, false);
CUDA_BACKEND(kernels_cuda_emu_fast, "cuda-emu-fast", device_emu, launches_emu, true);
#endif
