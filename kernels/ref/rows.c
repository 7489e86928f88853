#include "kernels/ref/ref.h"

#include <stdlib.h>

void ref_free_rows(struct kernels_ctx *ctx) {
    free(ctx->gathered);
    free(ctx->q);
    free(ctx->scales);
    free(ctx->fine_q);
    free(ctx->fine_scales);
    free(ctx->rounded);
}

enum status ref_reserve(struct kernels_ctx *ctx, uint32_t k_stored) {
    if (k_stored <= ctx->max_stored)
        return STATUS_OK;
    struct kernels_ctx made = *ctx;
    made.max_stored = k_stored;
    made.gathered = calloc(k_stored, sizeof *made.gathered);
    made.q = calloc(k_stored, sizeof *made.q);
    made.scales = calloc(k_stored / GROUP + 1, sizeof *made.scales);
    made.fine_q = calloc(k_stored, sizeof *made.fine_q);
    made.fine_scales = calloc(k_stored / GROUP + 1, sizeof *made.fine_scales);
    made.rounded = calloc(k_stored, sizeof *made.rounded);
    if (!made.gathered || !made.q || !made.scales || !made.fine_q || !made.fine_scales ||
        !made.rounded) {
        ref_free_rows(&made);
        return STATUS_NOMEM;
    }
    ref_free_rows(ctx);
    *ctx = made;
    return STATUS_OK;
}

void ref_norm_row(float *out, const float *x, const float *gain, float eps, uint32_t dim) {
    float lanes[NUMBERS_LANES] = {0};
    for (uint32_t i = 0; i < dim; i++)
        lanes[i % NUMBERS_LANES] = fmaf(x[i], x[i], lanes[i % NUMBERS_LANES]);
    float factor = 1.0f / sqrtf(numbers_tree(lanes) / (float)dim + eps);
    for (uint32_t i = 0; i < dim; i++)
        out[i] = x[i] * factor * gain[i];
}
