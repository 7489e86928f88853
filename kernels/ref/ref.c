#include "kernels/ref/ref.h"

#include "kernels/host.h"
#include "kernels/limits.h"
#include "kernels/quant/order.h"

#include <stdlib.h>

static void ref_close(struct kernels_ctx *ctx) {
    if (!ctx)
        return;
    ref_free_rows(ctx);
    free(ctx->scores);
    free(ctx->values);
    free(ctx->candidates);
    free(ctx->raw);
    free(ctx->allowed);
    free(ctx);
}

static enum status ref_open(const struct kernels_options *options, struct kernels_ctx **ctx,
                            struct error *error) {
    TRY(limits_check(options, error));
    struct kernels_ctx *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for a context");
    const struct kernels_limits *limits = &options->limits;
    made->limits = *limits;
    made->scores = calloc(ATTEND_CHUNK, sizeof *made->scores);
    made->values = calloc(limits->head_dim, sizeof *made->values);
    made->candidates = calloc(limits->n_vocab, sizeof *made->candidates);
    made->raw = calloc(limits->n_vocab, sizeof *made->raw);
    made->allowed = calloc(limits->n_vocab, sizeof *made->allowed);
    enum status status = ref_reserve(made, order_filled(limits->max_dim));
    if (status != STATUS_OK || !made->scores || !made->values || !made->candidates || !made->raw ||
        !made->allowed) {
        ref_close(made);
        return error_set(error, STATUS_NOMEM, "no memory for the scratch space of a context");
    }
    *ctx = made;
    return STATUS_OK;
}

static void *ref_alloc(struct kernels_ctx *ctx, size_t n_bytes) {
    (void)ctx;
    size_t rounded = (n_bytes + 63) / 64 * 64;
    void *memory = rounded >= n_bytes ? aligned_alloc(64, rounded) : NULL;
    if (memory)
        memset(memory, 0, rounded);
    return memory;
}

static void ref_dealloc(struct kernels_ctx *ctx, void *memory, size_t n_bytes) {
    (void)ctx;
    (void)n_bytes;
    free(memory);
}

static void ref_norm(struct kernels_ctx *ctx, float *out, const float *x, const float *gain,
                     float eps, uint32_t n_rows, uint32_t dim) {
    (void)ctx;
    uint32_t saved = numbers_enter();
    for (uint32_t row = 0; row < n_rows; row++, x += dim, out += dim)
        ref_norm_row(out, x, gain, eps, dim);
    numbers_leave(saved);
}

const struct kernels kernels_ref = {
    .name = "ref",
    .numerics_kind = "exact",
    .open = ref_open,
    .close = ref_close,
    .numerics = host_numerics,
    .alloc = ref_alloc,
    .dealloc = ref_dealloc,
    .put = host_put,
    .get = host_get,
    .put_beside = host_put,
    .get_beside = host_get_beside,
    .step_begin = host_step_begin,
    .step_end = host_step_end,
    .weight_size = ref_weight_size,
    .weight_pack = ref_weight_pack,
    .embed = ref_embed,
    .norm = ref_norm,
    .linear = ref_linear,
    .silu_mul = ref_silu_mul,
    .add_gated = ref_add_gated,
    .moe_route = ref_moe_route,
    .moe_scratch = host_moe_scratch,
    .moe_ffn = ref_moe_ffn,
    .rope_kv = ref_rope_kv,
    .attend = ref_attend,
    .gather_rows = host_gather_rows,
    .sample = ref_sample,
};
