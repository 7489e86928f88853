/* kernels/cpu/path_avx2.c: AVX2 with FMA and F16C. vpmaddubsw adds pairs of products in 16 bits: of
 * 4-bit weights a whole group of 32 fits (16 x 15 x 127 = 30,480); of 8-bit ones two do, with the
 * sign moved from weight to activation (2 x 128 x 127 = 32,512). A panel is done in two halves. */
#include "kernels/cpu/path.h"

#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vec_math.h"

#define PATH_VECS 1 /* see attend.h */

static inline __attribute__((always_inline)) __m256i broadcast_four(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline __attribute__((always_inline)) __m256i load_32(const uint8_t *from) {
    return _mm256_load_si256((const __m256i *)from);
}

/* Half a panel's scales or minima. */
VEC_INLINE __m256 load_8(const uint8_t *from, const bool wide) {
    return wide ? _mm256_load_ps((const float *)from)
                : _mm256_cvtph_ps(_mm_load_si128((const __m128i *)from));
}

VEC_INLINE void gemm_ints(const struct gemm_job *job, uint32_t panel, const uint32_t n_rows,
                          const struct panel_form form);

#include "kernels/cpu/attend.h"
#include "kernels/cpu/gemm_float.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/rows.h"

#define ROWS 4 /* rows at once: four 16-bit sums, four outputs, two weights, one broadcast */

/* Dots of one block of 4-bit weights, half a panel wide. */
VEC_INLINE void dots_i4(__m256i dots[ROWS], const uint8_t *w, const int8_t *q,
                        const uint32_t n_rows) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i ones = _mm256_set1_epi16(1);
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        dots[r] = _mm256_setzero_si256();
    VEC_UNROLL(4)
    for (uint32_t j = 0; j < 4; j++) {
        __m256i nibbles = load_32(w + (size_t)64 * j);
        __m256i even = _mm256_and_si256(nibbles, low);
        __m256i odd = _mm256_and_si256(_mm256_srli_epi16(nibbles, 4), low);
        VEC_UNROLL(4)
        for (uint32_t r = 0; r < n_rows; r++) {
            const int8_t *at = q + r * GROUP + 8 * j;
            dots[r] = _mm256_add_epi16(dots[r], _mm256_maddubs_epi16(even, broadcast_four(at)));
            dots[r] = _mm256_add_epi16(dots[r], _mm256_maddubs_epi16(odd, broadcast_four(at + 4)));
        }
    }
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        dots[r] = _mm256_madd_epi16(dots[r], ones);
}

/* Dots of inputs 4 begin to 4 end of a block of 8-bit weights. */
VEC_INLINE void dots_i8(__m256i dots[ROWS], const uint8_t *w, const int8_t *q,
                        const uint32_t n_rows, const uint32_t begin, const uint32_t end) {
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    const __m256i ones = _mm256_set1_epi16(1);
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        dots[r] = _mm256_setzero_si256();
    VEC_UNROLL(8)
    for (uint32_t j = begin; j < end; j++) {
        __m256i weights = _mm256_xor_si256(load_32(w + (size_t)64 * j), flip);
        __m256i size = _mm256_abs_epi8(weights);
        VEC_UNROLL(4)
        for (uint32_t r = 0; r < n_rows; r++) {
            __m256i x = _mm256_sign_epi8(broadcast_four(q + r * GROUP + 4 * j), weights);
            __m256i pairs = _mm256_maddubs_epi16(size, x);
            dots[r] = _mm256_add_epi32(dots[r], _mm256_madd_epi16(pairs, ones));
        }
    }
}

VEC_INLINE void rescale(__m256 f[ROWS], __m256 scale, const float *act_scales,
                        const __m256i dots[ROWS], const uint32_t n_rows) {
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = _mm256_fmadd_ps(_mm256_mul_ps(scale, _mm256_set1_ps(act_scales[r])),
                               _mm256_cvtepi32_ps(dots[r]), f[r]);
}

/* Where half a panel's numbers begin. */
struct half_place {
    const uint8_t *values;
    const uint8_t *scales;
    const uint8_t *mins;
};

/* One block, half a panel wide, times all rows. Scales are loaded after the dots, which want the
 * registers. */
VEC_INLINE void half_block(__m256 f[ROWS], struct half_place w, const uint8_t *tile,
                           const uint32_t n_rows, const struct panel_form form) {
    const int8_t *q = (const int8_t *)tile;
    const float *scales = (const float *)(tile + (size_t)n_rows * GROUP);
    __m256i dots[ROWS];
    if (form.four)
        dots_i4(dots, w.values, q, n_rows);
    else
        dots_i8(dots, w.values, q, n_rows, 0, form.halves ? 4 : 8);
    rescale(f, load_8(w.scales, form.wide), scales, dots, n_rows);
    if (form.halves) {
        dots_i8(dots, w.values, q, n_rows, 4, 8);
        rescale(f, load_8(w.scales + PANEL_FLOATS, form.wide), scales, dots, n_rows);
    }
    if (!form.has_min)
        return;
    __m256 min = load_8(w.mins, form.wide);
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(scales[n_rows + r]), f[r]);
}

VEC_INLINE void half_ints(const struct gemm_job *job, uint32_t panel, const uint32_t half,
                          const uint32_t n_rows, const struct panel_form form, __m256 f[ROWS]) {
    const struct weight *weight = job->weight;
    const uint8_t *first = (const uint8_t *)weight->data + panel * panel_bytes(weight);
    const uint8_t *tile = job->x;
    const uint32_t n_blocks = weight->k_stored / GROUP;
    const uint32_t stride = form.wide && !form.halves ? panel_stride(weight) : 1;
    const size_t half_scales = half * (form.wide ? PANEL_FLOATS : PANEL_HALVES) / 2;
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = _mm256_setzero_ps();
    for (uint32_t b = 0, g = 0; b < n_blocks; g++) {
        const struct panel_place place = panel_place(form, stride, g);
        struct half_place w = {first + place.values + (size_t)half * 32,
                               first + place.scales + half_scales,
                               first + place.mins + half_scales};
        const uint32_t end = n_blocks - b < stride ? n_blocks : b + stride;
        do {
            if (half == 0)
                gemm_fetch(w.values, form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES, n_rows);
            half_block(f, w, tile, n_rows, form);
            w.values += form.four ? PANEL_I4_BYTES : PANEL_I8_BYTES;
            tile += (size_t)n_rows * TILE_ROW_BYTES;
        } while (++b < end);
    }
}

VEC_INLINE void gemm_ints(const struct gemm_job *job, uint32_t panel, const uint32_t n_rows,
                          const struct panel_form form) {
    __m256 low[ROWS];
    __m256 high[ROWS];
    half_ints(job, panel, 0, n_rows, form, low);
    half_ints(job, panel, 1, n_rows, form, high);
    struct vec y[ROWS];
    VEC_UNROLL(4)
    for (uint32_t r = 0; r < n_rows; r++)
        y[r] = (struct vec){low[r], high[r]};
    gemm_finish_tile(job, panel, y, n_rows);
}

static int32_t add_lanes(__m256i total) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return _mm_cvtsi128_si32(sum);
}

/* One group of one row: 32 int8, their sum and that of the first half; the scale. See
 * numbers_quantize. */
static int32_t quantize_group(int8_t *q, float *scale, const float *x, int32_t *first) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < GROUP; i += 8)
        most = _mm256_max_epu32(
            most, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i)), magnitude));
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    uint32_t max_bits = (uint32_t)_mm_cvtsi128_si32(four);
    float max = float_from_bits(max_bits);
    if (max_bits >= 0x7f800000u || max < QUANT_TINY) {
        memset(q, 0, GROUP);
        *scale = max_bits >= 0x7f800000u ? float_from_bits(0x7fc00000u) : 0.0f;
        *first = 0;
        return 0;
    }
    *scale = max / 127.0f;
    __m256 inverse = _mm256_set1_ps(127.0f / max);
    __m256i halves[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int i = 0; i < GROUP; i += 8) {
        __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), inverse));
        v = _mm256_max_epi32(_mm256_min_epi32(v, _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
        halves[i / 16] = _mm256_add_epi32(halves[i / 16], v);
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        _mm_storel_epi64((__m128i *)(q + i), _mm_packs_epi16(words, words));
    }
    *first = add_lanes(halves[0]);
    return *first + add_lanes(halves[1]);
}

#include "kernels/cpu/quantize.h"

const struct path path_avx2 = PATH_TABLE("avx2", ROWS);
