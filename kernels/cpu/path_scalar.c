/* kernels/cpu/path_scalar.c: plain C, for any processor, and in the tests for every one. */
#include "kernels/cpu/path.h"

#include "kernels/cpu/vec_scalar.h"

#include "kernels/cpu/vec_math.h"

#define PATH_VECS 1 /* see attend.h */

static inline void gemm_i4(const struct gemm_job *job, uint32_t panel, uint32_t n_rows);
static inline void gemm_i8(const struct gemm_job *job, uint32_t panel, uint32_t n_rows);

#include "kernels/cpu/attend.h"
#include "kernels/cpu/gemm_float.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/rows.h"

/* f += (scale * act_scale) * dot on 16 lanes. */
static void rescale(struct vec *f, const uint8_t *scales, float act_scale,
                    const int32_t dots[PANEL]) {
    struct vec dot;
    for (int i = 0; i < PANEL; i++)
        dot.lane[i] = (float)dots[i];
    struct vec both = vec_mul(vec_load_half((const uint16_t *)scales), vec_set(act_scale));
    *f = vec_fma(both, dot, *f);
}

static inline void gemm_i4(const struct gemm_job *job, uint32_t panel, uint32_t n_rows) {
    uint32_t n_groups = job->weight->k / GROUP;
    const uint8_t *first =
        (const uint8_t *)job->weight->data + (size_t)panel * n_groups * PANEL_I4_BYTES;
    for (uint32_t r = 0; r < n_rows; r++) {
        struct vec f = vec_set(0.0f);
        for (uint32_t g = 0; g < n_groups; g++) {
            const uint8_t *w = first + (size_t)g * PANEL_I4_BYTES;
            const uint8_t *tile = (const uint8_t *)job->x + (size_t)g * n_rows * TILE_ROW_BYTES;
            const int8_t *q = (const int8_t *)tile + (size_t)r * GROUP;
            const float *scales = (const float *)(tile + (size_t)n_rows * GROUP);
            int32_t dots[PANEL] = {0};
            for (int j = 0; j < 4; j++)
                for (int c = 0; c < PANEL; c++)
                    for (int b = 0; b < 4; b++) {
                        uint8_t nibbles = w[64 * j + 4 * c + b];
                        dots[c] += (nibbles & 15) * q[8 * j + b];
                        dots[c] += (nibbles >> 4) * q[8 * j + 4 + b];
                    }
            rescale(&f, w + PANEL_I4_SCALES, scales[r], dots);
            f = vec_fma(vec_load_half((const uint16_t *)(w + PANEL_I4_MINS)),
                        vec_set(scales[n_rows + r]), f);
        }
        gemm_finish(job, panel, r, f);
    }
}

static inline void gemm_i8(const struct gemm_job *job, uint32_t panel, uint32_t n_rows) {
    uint32_t n_groups = job->weight->k / GROUP;
    const uint8_t *first = (const uint8_t *)job->weight->data +
                           (size_t)panel * panel_bytes(WEIGHT_I8G, job->weight->k);
    const uint8_t *w_scales = first + (size_t)n_groups * PANEL_I8_BYTES;
    for (uint32_t r = 0; r < n_rows; r++) {
        struct vec f = vec_set(0.0f);
        for (uint32_t g = 0; g < n_groups; g++) {
            const uint8_t *w = first + (size_t)g * PANEL_I8_BYTES;
            const uint8_t *tile = (const uint8_t *)job->x + (size_t)g * n_rows * TILE_ROW_BYTES;
            const int8_t *q = (const int8_t *)tile + (size_t)r * GROUP;
            const float *scales = (const float *)(tile + (size_t)n_rows * GROUP);
            int32_t dots[PANEL] = {0};
            for (int j = 0; j < 8; j++)
                for (int c = 0; c < PANEL; c++)
                    for (int b = 0; b < 4; b++)
                        dots[c] += (w[64 * j + 4 * c + b] - 128) * q[4 * j + b];
            rescale(&f, w_scales + (size_t)g * 2 * PANEL, scales[r], dots);
        }
        gemm_finish(job, panel, r, f);
    }
}

static int32_t quantize_group(int8_t *q, float *scale, const float *x) {
    numbers_quantize(x, q, scale);
    int32_t sum = 0;
    for (int i = 0; i < GROUP; i++)
        sum += q[i];
    return sum;
}

#include "kernels/cpu/quantize.h"

const struct path path_scalar = {
    .name = "scalar",
    .tile_rows = 4,
    .quantize = path_quantize,
    .round_bf16 = path_round_bf16,
    .gemm = path_gemm,
    .norm = path_norm,
    .silu_mul = path_silu_mul,
    .add_scaled = path_add_scaled,
    .softmax = path_softmax,
    .rope_kv = path_rope_kv,
    .attend = path_attend,
    .block_maxima = path_block_maxima,
    .block_exps = path_block_exps,
    .find_at_least = path_find_at_least,
};
