/* kernels/cpu/gemm_float.h: products with F32, F16 and BF16 panels, and what happens to the outputs
 * of every product. Compiled once per path, after its vec_*.h. */
#pragma once

#include "kernels/cpu/path.h"

/* Outputs of a panel, the last of which may be cut off. */
VEC_INLINE struct vec load_outputs(const float *from, uint32_t n) {
    return n == PANEL ? vec_load(from) : vec_load_n(from, n, 0.0f);
}

/* Scale, bias and epilogue of 16 outputs of one row. With `rest`, what its second term comes to is added behind
 * all else. */
VEC_INLINE void gemm_finish(const struct gemm_job *job, uint32_t panel, uint32_t row, struct vec y,
                            const struct vec *rest) {
    const struct weight *weight = job->weight;
    uint32_t first = panel * PANEL;
    uint32_t n = weight->n - first;
    n = n > PANEL ? PANEL : n;
    if (weight->scale)
        y = vec_mul(y, load_outputs(weight->scale + first, n));
    if (weight->bias)
        y = vec_add(y, load_outputs(weight->bias + first, n));
    float *out = job->out + row * job->out_stride;
    if (job->epilogue == EPILOGUE_SILU_MUL) {
        struct vec up;
        struct vec gate = vec_split_pairs(y, y, &up);
        vec_store_n(out + first / 2, n / 2, vec_mul(vec_silu(gate), up));
        return;
    }
    out += first;
    if (job->epilogue == EPILOGUE_ADD)
        y = vec_add(load_outputs(out, n), y);
    if (rest)
        y = vec_add(y,
                    weight->scale ? vec_mul(*rest, load_outputs(weight->scale + first, n)) : *rest);
    if (n == PANEL)
        vec_store(out, y);
    else
        vec_store_n(out, n, y);
}

/* All rows of a tile of integers. */
VEC_INLINE void gemm_finish_tile(const struct gemm_job *job, uint32_t panel, const struct vec *y,
                                 const uint32_t n_rows) {
    if (job->fine)
        VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows / 2; r++)
        gemm_finish(job, panel, r, y[r], &y[n_rows / 2 + r]);
    else VEC_UNROLL(8) for (uint32_t r = 0; r < n_rows; r++) gemm_finish(job, panel, r, y[r], NULL);
}

/* Asks for weights that are n_bytes long, some panels or blocks before their turn. With one row what a
 * processor works on ahead of time reaches far enough by itself; with more it ends within two blocks,
 * and each new line would be waited for. */
#define GEMM_AHEAD 8192
VEC_INLINE void gemm_fetch(const void *weights, const size_t n_bytes, const uint32_t n_rows) {
    for (size_t i = 0; n_rows > 1 && i < n_bytes; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)weights + GEMM_AHEAD + i), 0, 3);
}

/* PANELS panels times ROWS rows: one chain of FMAs per output, in rising k. */
#define GEMM_CHAIN(name, type, load)                                                               \
    VEC_INLINE void name(const struct gemm_job *job, uint32_t panel, const uint32_t n_panels,      \
                         const uint32_t n_rows) {                                                  \
        uint32_t k = job->weight->k_stored;                                                        \
        const type *w = (const type *)job->weight->data + (size_t)panel * k * PANEL;               \
        const float *x = job->x;                                                                   \
        struct vec f[4 * TILE_ROWS_MAX];                                                           \
        VEC_UNROLL(32) for (uint32_t i = 0; i < n_panels * n_rows; i++) f[i] = vec_set(0.0f);      \
        for (uint32_t i = 0; i < k; i++)                                                           \
            VEC_UNROLL(4) for (uint32_t p = 0; p < n_panels; p++) {                                \
                const type *from = w + ((size_t)p * k + i) * PANEL;                                \
                if (i * PANEL * sizeof(type) % 64 == 0)                                            \
                    gemm_fetch(from, 64, n_rows);                                                  \
                struct vec v = load(from);                                                         \
                VEC_UNROLL(8)                                                                      \
                for (uint32_t r = 0; r < n_rows; r++)                                              \
                    f[p * n_rows + r] =                                                            \
                        vec_fma(v, vec_set(x[(size_t)r * k + i]), f[p * n_rows + r]);              \
            }                                                                                      \
        VEC_UNROLL(4)                                                                              \
        for (uint32_t p = 0; p < n_panels; p++)                                                    \
            VEC_UNROLL(8)                                                                          \
        for (uint32_t r = 0; r < n_rows; r++)                                                      \
            gemm_finish(job, panel + p, r, f[p * n_rows + r], NULL);                               \
    }

GEMM_CHAIN(gemm_chain_f32, float, vec_load)
GEMM_CHAIN(gemm_chain_f16, uint16_t, vec_load_half)

/* One panel times n_rows rows in the order of AMX: per 32 inputs an even and an odd chain. */
VEC_INLINE void gemm_bf16(const struct gemm_job *job, uint32_t panel, const uint32_t n_rows) {
    uint32_t k = job->weight->k_stored;
    const uint16_t *w = (const uint16_t *)job->weight->data + (size_t)panel * k * PANEL;
    const float *x = job->x;
    struct vec f[TILE_ROWS_MAX];
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = vec_set(0.0f);
    for (uint32_t g = 0; g < k; g += GROUP) {
        struct vec even[TILE_ROWS_MAX];
        struct vec odd[TILE_ROWS_MAX];
        VEC_UNROLL(8)
        for (uint32_t r = 0; r < n_rows; r++)
            even[r] = odd[r] = vec_set(0.0f);
        gemm_fetch(w, sizeof *w * PANEL * GROUP, n_rows);
        for (uint32_t i = g; i < g + GROUP; i += 2, w += 2 * PANEL) {
            struct vec first = vec_load_bf16_even(w);
            struct vec second = vec_load_bf16_odd(w);
            VEC_UNROLL(8)
            for (uint32_t r = 0; r < n_rows; r++) {
                even[r] = vec_fma(first, vec_set(x[(size_t)r * k + i]), even[r]);
                odd[r] = vec_fma(second, vec_set(x[(size_t)r * k + i + 1]), odd[r]);
            }
        }
        VEC_UNROLL(8)
        for (uint32_t r = 0; r < n_rows; r++)
            f[r] = vec_add(f[r], vec_add(even[r], odd[r]));
    }
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        gemm_finish(job, panel, r, f[r], NULL);
}

/* Runs kernel(job, panel, R) with R a constant. */
#define GEMM_ROWS(kernel, job, panel)                                                              \
    switch ((job)->n_rows) {                                                                       \
    case 1:                                                                                        \
        kernel(job, panel, 1);                                                                     \
        break;                                                                                     \
    case 2:                                                                                        \
        kernel(job, panel, 2);                                                                     \
        break;                                                                                     \
    case 3:                                                                                        \
        kernel(job, panel, 3);                                                                     \
        break;                                                                                     \
    case 4:                                                                                        \
        kernel(job, panel, 4);                                                                     \
        break;                                                                                     \
        GEMM_ROWS_MORE(kernel, job, panel)                                                         \
    }

/* Paths with 32 registers take up to 8 rows. */
#if defined(PATH_WIDE)
#define GEMM_ROWS_MORE(kernel, job, panel)                                                         \
    case 5:                                                                                        \
        kernel(job, panel, 5);                                                                     \
        break;                                                                                     \
    case 6:                                                                                        \
        kernel(job, panel, 6);                                                                     \
        break;                                                                                     \
    case 7:                                                                                        \
        kernel(job, panel, 7);                                                                     \
        break;                                                                                     \
    case 8:                                                                                        \
        kernel(job, panel, 8);                                                                     \
        break;
#else
#define GEMM_ROWS_MORE(kernel, job, panel)
#endif

#define GEMM_ONE_F32(job, panel, rows) gemm_chain_f32(job, panel, 1, rows)
#define GEMM_ONE_F16(job, panel, rows) gemm_chain_f16(job, panel, 1, rows)

static void gemm_panels_f32(const struct gemm_job *job) {
    uint32_t panel = job->panel_begin;
    if (job->n_rows == 1)
        for (; panel + 4 <= job->panel_end; panel += 4)
            gemm_chain_f32(job, panel, 4, 1);
    for (; panel < job->panel_end; panel++)
        GEMM_ROWS(GEMM_ONE_F32, job, panel)
}

static void gemm_panels_f16(const struct gemm_job *job) {
    uint32_t panel = job->panel_begin;
    if (job->n_rows == 1)
        for (; panel + 4 <= job->panel_end; panel += 4)
            gemm_chain_f16(job, panel, 4, 1);
    for (; panel < job->panel_end; panel++)
        GEMM_ROWS(GEMM_ONE_F16, job, panel)
}

static void gemm_panels_bf16(const struct gemm_job *job) {
    for (uint32_t panel = job->panel_begin; panel < job->panel_end; panel++)
        GEMM_ROWS(gemm_bf16, job, panel)
}

/* The integer products come from the path: gemm_ints, compiled for each form and number of rows. */
#define GEMM_FORM(name, ...)                                                                       \
    VEC_INLINE void name##_rows(const struct gemm_job *job, uint32_t panel,                        \
                                const uint32_t n_rows) {                                           \
        gemm_ints(job, panel, n_rows, (struct panel_form){__VA_ARGS__});                           \
    }                                                                                              \
    static void name(const struct gemm_job *job) {                                                 \
        for (uint32_t panel = job->panel_begin; panel < job->panel_end; panel++)                   \
            GEMM_ROWS(name##_rows, job, panel)                                                     \
    }

GEMM_FORM(gemm_i4, .four = true, .has_min = true)
GEMM_FORM(gemm_i4_wide, .four = true, .has_min = true, .wide = true)
GEMM_FORM(gemm_i8, .four = false)
GEMM_FORM(gemm_i8_min, .has_min = true)
GEMM_FORM(gemm_i8_wide, .wide = true)
GEMM_FORM(gemm_i8_wide_min, .wide = true, .has_min = true)
GEMM_FORM(gemm_i8_halves, .wide = true, .halves = true)

static void gemm_panels_i8(const struct gemm_job *job) {
    struct panel_form form = panel_form(job->weight);
    if (form.halves)
        gemm_i8_halves(job);
    else if (form.wide && form.has_min)
        gemm_i8_wide_min(job);
    else if (form.wide)
        gemm_i8_wide(job);
    else if (form.has_min)
        gemm_i8_min(job);
    else
        gemm_i8(job);
}

static void path_gemm(const struct gemm_job *job) {
    switch (job->weight->format) {
    case WEIGHT_F32:
        gemm_panels_f32(job);
        break;
    case WEIGHT_F16:
        gemm_panels_f16(job);
        break;
    case WEIGHT_BF16:
        gemm_panels_bf16(job);
        break;
    case WEIGHT_I4G:
        if (job->weight->wide)
            gemm_i4_wide(job);
        else
            gemm_i4(job);
        break;
    case WEIGHT_I8G:
        gemm_panels_i8(job);
        break;
    }
}
