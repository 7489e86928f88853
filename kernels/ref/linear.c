#include "kernels/ref/ref.h"

#include "base/assert.h"

/* Sum of n products and, in *sum, of the activations. */
static int32_t ref_dot(const int8_t *w, const int8_t *q, uint32_t n, int32_t *sum) {
    int32_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        total += w[i] * q[i];
        *sum += q[i];
    }
    return total;
}

/* One output of a quantized matrix. Per 32 inputs, in rising k: f += (scale * act_scale) * dot,
 * exact in int32, in two halves where the scales are per 16, and for formats with a minimum f +=
 * min * (act_scale * sum of the activations). */
static float ref_dot_ints(const struct weight *weight, uint32_t n, const int8_t *q,
                          const float *scales) {
    uint32_t n_groups = weight->k_stored / GROUP;
    uint32_t width = weight->group < GROUP ? GROUP / 2 : GROUP;
    const struct ref_group *groups = (const struct ref_group *)weight->data + (size_t)n * n_groups;
    float f = 0.0f;
    for (uint32_t g = 0; g < n_groups; g++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < GROUP; i += width)
            f = fmaf(groups[g].scale[i / width] * scales[g],
                     (float)ref_dot(groups[g].q + i, q + (size_t)g * GROUP + i, width, &sum), f);
        if (weight->format == WEIGHT_I4G || weight->has_min)
            f = fmaf(groups[g].min, scales[g] * (float)sum, f);
    }
    return f;
}

/* One output of an F32 or F16 matrix: one chain of FMAs in rising k. */
static float ref_dot_floats(const float *w, const float *x, uint32_t k) {
    float f = 0.0f;
    for (uint32_t i = 0; i < k; i++)
        f = fmaf(w[i], x[i], f);
    return f;
}

/* One output of a BF16 matrix, in the order of AMX's TDPBF16PS: per 32 stored inputs one chain over
 * the even and one over the odd ones, their sum added to the total. */
static float ref_dot_bf16(const float *w, const float *x, uint32_t k) {
    float f = 0.0f;
    for (uint32_t g = 0; g < k; g += GROUP) {
        float even = 0.0f;
        float odd = 0.0f;
        for (uint32_t i = g; i < g + GROUP; i += 2) {
            even = fmaf(w[i], x[i], even);
            odd = fmaf(w[i + 1], x[i + 1], odd);
        }
        f += even + odd;
    }
    return f;
}

static float ref_linear_output(const struct kernels_ctx *ctx, const struct weight *weight,
                               const float *x, uint32_t n) {
    const float *w = (const float *)weight->data + (size_t)n * weight->k_stored;
    float y = 0.0f;
    switch (weight->format) {
    case WEIGHT_F32:
    case WEIGHT_F16:
        y = ref_dot_floats(w, x, weight->k);
        break;
    case WEIGHT_BF16:
        y = ref_dot_bf16(w, ctx->rounded, weight->k_stored);
        break;
    case WEIGHT_I4G:
    case WEIGHT_I8G:
        y = ref_dot_ints(weight, n, ctx->q, ctx->scales);
        break;
    }
    if (weight->scale)
        y *= weight->scale[n];
    return weight->bias ? y + weight->bias[n] : y;
}

/* Quantizes one row in the matrix's order, into both terms where the second is used. */
static void ref_quantize_row(struct kernels_ctx *ctx, const float *x, const struct weight *weight,
                             bool fine) {
    for (uint32_t i = 0; weight->order && i < weight->k_stored; i++)
        ctx->gathered[i] = weight->order[i] == WEIGHT_NO_INPUT ? 0.0f : x[weight->order[i]];
    for (uint32_t g = 0; g < weight->k_stored / GROUP; g++) {
        const float *group = (weight->order ? ctx->gathered : x) + (size_t)g * GROUP;
        int8_t *q = ctx->q + (size_t)g * GROUP;
        float rest[GROUP];
        numbers_quantize(group, q, &ctx->scales[g]);
        if (!fine)
            continue;
        for (uint32_t i = 0; i < GROUP; i++)
            rest[i] = numbers_rest(group[i], ctx->scales[g], q[i]);
        numbers_quantize(rest, ctx->fine_q + (size_t)g * GROUP, &ctx->fine_scales[g]);
    }
}

static void ref_round_row(struct kernels_ctx *ctx, const float *x, const struct weight *weight) {
    for (uint32_t i = 0; i < weight->k_stored; i++)
        ctx->rounded[i] = i < weight->k ? bf16_to_float(float_to_bf16(x[i])) : 0.0f;
}

void ref_linear(struct kernels_ctx *ctx, float *out, size_t out_stride, const float *x,
                const struct weight *weight, uint32_t n_rows, enum epilogue epilogue) {
    ASSERT(weight->k <= ctx->limits.max_dim && weight->k_stored <= ctx->max_stored);
    uint32_t saved = numbers_enter();
    bool fine = numbers_fine(weight, epilogue);
    for (uint32_t row = 0; row < n_rows; row++, x += weight->k, out += out_stride) {
        if (weight->format == WEIGHT_I4G || weight->format == WEIGHT_I8G)
            ref_quantize_row(ctx, x, weight, fine);
        if (weight->format == WEIGHT_BF16)
            ref_round_row(ctx, x, weight);
        if (epilogue == EPILOGUE_SILU_MUL) {
            for (uint32_t n = 0; n + 1 < weight->n; n += 2)
                out[n / 2] = numbers_silu(ref_linear_output(ctx, weight, x, n)) *
                             ref_linear_output(ctx, weight, x, n + 1);
            continue;
        }
        for (uint32_t n = 0; n < weight->n; n++) {
            float y = ref_linear_output(ctx, weight, x, n);
            out[n] = epilogue == EPILOGUE_ADD ? out[n] + y : y;
            if (!fine)
                continue;
            float rest = ref_dot_ints(weight, n, ctx->fine_q, ctx->fine_scales);
            out[n] += weight->scale ? rest * weight->scale[n] : rest;
        }
    }
    numbers_leave(saved);
}
