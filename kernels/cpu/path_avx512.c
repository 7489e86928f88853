/* kernels/cpu/path_avx512.c: AVX-512 with VNNI. vpdpbusd multiplies unsigned weights with signed
 * activations, four inputs a lane, exact in int32; int8 weights are kept with 128 added, which the
 * accumulator's start (-128 * sum of the activations) takes back. */
#include "kernels/cpu/path.h"

#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vec_math.h"

#define PATH_WIDE   /* 32 registers: up to 8 rows of a product at once */
#define PATH_VECS 4 /* see attend.h */

static inline __attribute__((always_inline)) __m512i broadcast_four(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

/* What one group of activations adds to 16 outputs. */
struct tile_group {
    const int8_t *q;
    const float *scales;
    const float *sums;
    const int32_t *corrections;
    const int32_t *firsts;
};

VEC_INLINE struct tile_group tile_at(const void *tile, uint32_t g, uint32_t n_rows) {
    const char *at = (const char *)tile + (size_t)g * n_rows * TILE_ROW_BYTES;
    const float *scales = (const float *)(at + (size_t)n_rows * GROUP);
    const int32_t *corrections = (const int32_t *)(scales + 2 * n_rows);
    return (struct tile_group){(const int8_t *)at, scales, scales + n_rows, corrections,
                               corrections + n_rows};
}

VEC_INLINE void gemm_ints(const struct gemm_job *job, uint32_t panel, const uint32_t n_rows,
                          const struct panel_form form);

#include "kernels/cpu/attend.h"
#include "kernels/cpu/gemm_float.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/rows.h"

VEC_INLINE __m512 load_16(const uint8_t *from, const bool wide) {
    return wide ? _mm512_load_ps((const float *)from)
                : _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)from));
}

/* Eight registers of 4 inputs by 16 outputs. */
VEC_INLINE void load_block(__m512i weights[8], const uint8_t *w, const bool four) {
    const __m512i low = _mm512_set1_epi8(15);
    VEC_UNROLL(4)
    for (uint32_t j = 0; j < 8; j += 2) {
        __m512i bytes = _mm512_load_si512(w + (size_t)(four ? 32 : 64) * j);
        weights[j] = four ? _mm512_and_si512(bytes, low) : bytes;
        weights[j + 1] = four ? _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low)
                              : _mm512_load_si512(w + (size_t)64 * (j + 1));
    }
}

/* Inputs 4 begin to 4 end of the block, added to `dot`. */
VEC_INLINE __m512i products(__m512i dot, const __m512i weights[8], const int8_t *q,
                            const uint32_t begin, const uint32_t end) {
    VEC_UNROLL(8)
    for (uint32_t j = begin; j < end; j++)
        dot = _mm512_dpbusd_epi32(dot, weights[j], broadcast_four(q + (size_t)4 * j));
    return dot;
}

VEC_INLINE __m512 rescale(__m512 f, __m512 scale, float act_scale, __m512i dot) {
    return _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(act_scale)), _mm512_cvtepi32_ps(dot),
                           f);
}

/* One block times all rows. */
VEC_INLINE void gemm_block(__m512 f[TILE_ROWS_MAX], const __m512i weights[8], const __m512 scale[2],
                           __m512 min, const struct tile_group *tile, const uint32_t n_rows,
                           const struct panel_form form) {
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++) {
        const int8_t *q = tile->q + (size_t)r * GROUP;
        __m512i dot = form.four     ? _mm512_setzero_si512()
                      : form.halves ? _mm512_set1_epi32(tile->firsts[r])
                                    : _mm512_set1_epi32(tile->corrections[r]);
        dot = products(dot, weights, q, 0, form.halves ? 4 : 8);
        f[r] = rescale(f[r], scale[0], tile->scales[r], dot);
        if (form.halves) {
            dot = _mm512_set1_epi32(tile->corrections[r] - tile->firsts[r]);
            f[r] = rescale(f[r], scale[1], tile->scales[r], products(dot, weights, q, 4, 8));
        }
        if (form.has_min)
            f[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(tile->sums[r]), f[r]);
    }
}

VEC_INLINE void gemm_ints(const struct gemm_job *job, uint32_t panel, const uint32_t n_rows,
                          const struct panel_form form) {
    const struct weight *weight = job->weight;
    const uint8_t *first = (const uint8_t *)weight->data + panel * panel_bytes(weight);
    const uint32_t n_blocks = weight->k_stored / GROUP;
    const uint32_t stride = form.wide && !form.halves ? panel_stride(weight) : 1;
    __m512 f[TILE_ROWS_MAX];
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = _mm512_setzero_ps();
    for (uint32_t b = 0, g = 0; b < n_blocks; g++) {
        const struct panel_place place = panel_place(form, stride, g);
        const uint8_t *w = first + place.values;
        __m512 scale[2];
        scale[0] = load_16(first + place.scales, form.wide);
        scale[1] = form.halves ? load_16(first + place.scales + PANEL_FLOATS, true) : scale[0];
        __m512 min = form.has_min ? load_16(first + place.mins, form.wide) : scale[0];
        const uint32_t end = n_blocks - b < stride ? n_blocks : b + stride;
        do {
            const struct tile_group tile = tile_at(job->x, b, n_rows);
            __m512i weights[8];
            gemm_fetch(w, form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES, n_rows);
            load_block(weights, w, form.four);
            gemm_block(f, weights, scale, min, &tile, n_rows, form);
            w += form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES;
        } while (++b < end);
    }
    struct vec y[TILE_ROWS_MAX];
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        y[r] = (struct vec){f[r]};
    gemm_finish_tile(job, panel, y, n_rows);
}

/* One group of one row: 32 int8, their sum and that of the first half; the scale. See
 * numbers_quantize. */
static int32_t quantize_group(int8_t *q, float *scale, const float *x, int32_t *first) {
    __m512 a = _mm512_loadu_ps(x);
    __m512 b = _mm512_loadu_ps(x + 16);
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i most = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                    _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    uint32_t max_bits = _mm512_reduce_max_epu32(most);
    float max = float_from_bits(max_bits);
    if (max_bits >= 0x7f800000u || max < QUANT_TINY) {
        memset(q, 0, GROUP);
        *scale = max_bits >= 0x7f800000u ? float_from_bits(0x7fc00000u) : 0.0f;
        *first = 0;
        return 0;
    }
    *scale = max / 127.0f;
    __m512 inverse = _mm512_set1_ps(127.0f / max);
    const __m512i limit = _mm512_set1_epi32(127);
    const __m512i minus = _mm512_set1_epi32(-127);
    __m512i qa = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse));
    __m512i qb = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
    qa = _mm512_max_epi32(_mm512_min_epi32(qa, limit), minus);
    qb = _mm512_max_epi32(_mm512_min_epi32(qb, limit), minus);
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(qa));
    _mm_storeu_si128((__m128i *)(q + 16), _mm512_cvtepi32_epi8(qb));
    *first = _mm512_reduce_add_epi32(qa);
    return *first + _mm512_reduce_add_epi32(qb);
}

#include "kernels/cpu/quantize.h"

const struct path path_avx512 = PATH_TABLE("avx512", 8);
