/* kernels/cpu/path_scalar.c: plain C, for any processor, and in the tests for every one. */
#include "kernels/cpu/path.h"

#include "kernels/cpu/vec_scalar.h"

#include "kernels/cpu/vec_math.h"

#define PATH_VECS 1 /* see attend.h */

static void gemm_ints(const struct gemm_job *job, uint32_t panel, uint32_t n_rows,
                      struct panel_form form);

#include "kernels/cpu/attend.h"
#include "kernels/cpu/gemm_float.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/rows.h"

static struct vec load_16(const uint8_t *from, bool wide) {
    return wide ? vec_load((const float *)from) : vec_load_half((const uint16_t *)from);
}

/* Inputs [begin, end) of a block, by 16 outputs. */
static struct vec products(const uint8_t *w, const int8_t *q, uint32_t begin, uint32_t end,
                           bool four) {
    int32_t dots[PANEL] = {0};
    for (uint32_t i = begin; i < end; i++)
        for (uint32_t c = 0; c < PANEL; c++) {
            uint8_t nibbles = w[i / 8 * 64 + 4 * c + i % 4];
            int32_t weight = four ? (i % 8 < 4 ? nibbles & 15 : nibbles >> 4)
                                  : w[i / 4 * 64 + 4 * c + i % 4] - 128;
            dots[c] += weight * q[i];
        }
    struct vec dot;
    VEC_EACH(c)
    dot.lane[c] = (float)dots[c];
    return dot;
}

/* One row of a tile times one panel. */
static struct vec row_ints(const struct gemm_job *job, const uint8_t *first, uint32_t row,
                           struct panel_form form) {
    uint32_t n_blocks = job->weight->k_stored / GROUP;
    uint32_t stride = panel_stride(job->weight);
    uint32_t width = form.halves ? GROUP / 2 : GROUP; /* inputs of one dot product */
    struct vec f = vec_set(0.0f);
    for (uint32_t b = 0; b < n_blocks; b++) {
        struct panel_place place = panel_place(form, stride, b / stride);
        const uint8_t *w = first + place.values +
                           (size_t)(b % stride) * (form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES);
        const uint8_t *tile = (const uint8_t *)job->x + (size_t)b * job->n_rows * TILE_ROW_BYTES;
        const int8_t *q = (const int8_t *)tile + (size_t)row * GROUP;
        const float *scales = (const float *)(tile + (size_t)job->n_rows * GROUP);
        for (uint32_t i = 0; i < GROUP; i += width) {
            struct vec scale = load_16(first + place.scales + i / width * PANEL_FLOATS, form.wide);
            f = vec_fma(vec_mul(scale, vec_set(scales[row])),
                        products(w, q, i, i + width, form.four), f);
        }
        if (form.has_min)
            f = vec_fma(load_16(first + place.mins, form.wide), vec_set(scales[job->n_rows + row]),
                        f);
    }
    return f;
}

static void gemm_ints(const struct gemm_job *job, uint32_t panel, uint32_t n_rows,
                      struct panel_form form) {
    const uint8_t *first = (const uint8_t *)job->weight->data + panel * panel_bytes(job->weight);
    struct vec y[TILE_ROWS_MAX];
    for (uint32_t r = 0; r < n_rows; r++)
        y[r] = row_ints(job, first, r, form);
    gemm_finish_tile(job, panel, y, n_rows);
}

static int32_t quantize_group(int8_t *q, float *scale, const float *x, int32_t *first) {
    numbers_quantize(x, q, scale);
    int32_t second = 0;
    *first = 0;
    for (int i = 0; i < GROUP / 2; i++) {
        *first += q[i];
        second += q[i + GROUP / 2];
    }
    return *first + second;
}

#include "kernels/cpu/quantize.h"

const struct path path_scalar = PATH_TABLE("scalar", 4);
