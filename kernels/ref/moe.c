#include "kernels/ref/ref.h"

#include "base/assert.h"
#include "kernels/limits.h"

void ref_silu_mul(struct kernels_ctx *ctx, float *out, const float *gate, const float *up,
                  size_t n) {
    (void)ctx;
    uint32_t saved = numbers_enter();
    for (size_t i = 0; i < n; i++)
        out[i] = numbers_silu(gate[i]) * up[i];
    numbers_leave(saved);
}

/* out += factor * x, each one FMA. */
static void ref_moe_add_scaled(float *out, const float *x, float factor, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = fmaf(factor, x[i], out[i]);
}

void ref_add_gated(struct kernels_ctx *ctx, float *out, const float *x, const float *gate,
                   uint32_t n_rows, uint32_t dim) {
    (void)ctx;
    uint32_t saved = numbers_enter();
    for (uint32_t row = 0; row < n_rows; row++)
        ref_moe_add_scaled(out + (size_t)row * dim, x + (size_t)row * dim,
                           gate ? numbers_sigmoid(gate[row]) : 1.0f, dim);
    numbers_leave(saved);
}

static void ref_softmax(float *p, const float *x, uint32_t n) {
    float max = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    float lanes[NUMBERS_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        p[i] = numbers_exp(x[i] - max);
        lanes[i % NUMBERS_LANES] += p[i];
    }
    float total = numbers_tree(lanes);
    for (uint32_t i = 0; i < n; i++)
        p[i] = p[i] / total;
}

/* A row with NaN or infinity in its logits has NaN everywhere: its experts are the first ones, with
 * NaN as their weights. */
void ref_moe_route(struct kernels_ctx *ctx, uint32_t *ids, float *weights, const float *logits,
                   uint32_t n_rows, uint32_t n_experts, uint32_t n_active, bool normalise) {
    (void)ctx;
    ASSERT(n_experts <= EXPERTS_MAX);
    ASSERT(n_active >= 1 && n_active <= n_experts);
    uint32_t saved = numbers_enter();
    for (uint32_t row = 0; row < n_rows; row++, ids += n_active, weights += n_active) {
        float p[EXPERTS_MAX];
        bool taken[EXPERTS_MAX] = {false};
        ref_softmax(p, logits + (size_t)row * n_experts, n_experts);
        float total = 0.0f;
        for (uint32_t i = 0; i < n_active; i++) {
            uint32_t best = EXPERTS_MAX;
            for (uint32_t e = 0; e < n_experts; e++)
                if (!taken[e] && (best == EXPERTS_MAX || p[e] > p[best]))
                    best = e;
            ASSERT(best < n_experts); /* n_active of them are not more than there are */
            taken[best] = true;
            ids[i] = best;
            weights[i] = p[best];
            total += p[best];
        }
        for (uint32_t i = 0; normalise && i < n_active; i++)
            weights[i] = weights[i] / total;
    }
    numbers_leave(saved);
}

void ref_moe_ffn(struct kernels_ctx *ctx, float *out, const float *x, const uint32_t *ids,
                 const float *weights, uint32_t n_rows, uint32_t n_active,
                 const struct weight *gate_up, const struct weight *down, uint32_t n_experts,
                 float *scratch) {
    uint32_t dim = gate_up[0].k;
    float *inner = scratch;
    float *outer = scratch + gate_up[0].n / 2;
    uint32_t saved = numbers_enter();
    for (uint32_t row = 0; row < n_rows; row++, out += dim, x += dim, ids += n_active) {
        memset(out, 0, dim * sizeof *out);
        for (uint32_t e = 0; e < n_experts; e++)
            for (uint32_t i = 0; i < n_active; i++) {
                if (ids[i] != e)
                    continue;
                ref_linear(ctx, inner, gate_up[e].n / 2, x, &gate_up[e], 1, EPILOGUE_SILU_MUL);
                ref_linear(ctx, outer, dim, inner, &down[e], 1, EPILOGUE_NONE);
                ref_moe_add_scaled(out, outer, weights[(size_t)row * n_active + i], dim);
            }
    }
    numbers_leave(saved);
}
