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

/* What one group of activations adds to 16 outputs: scales, then sums, then corrections. */
struct tile_group {
    const int8_t *q;
    const float *scales;
    const float *sums;
    const int32_t *corrections;
};

static inline __attribute__((always_inline)) struct tile_group tile_at(const void *tile, uint32_t g,
                                                                       uint32_t n_rows) {
    const char *at = (const char *)tile + (size_t)g * n_rows * TILE_ROW_BYTES;
    const float *scales = (const float *)(at + (size_t)n_rows * GROUP);
    return (struct tile_group){(const int8_t *)at, scales, scales + n_rows,
                               (const int32_t *)(scales + 2 * n_rows)};
}

static inline __attribute__((always_inline)) void gemm_i4(const struct gemm_job *job,
                                                          uint32_t panel, const uint32_t n_rows);
static inline __attribute__((always_inline)) void gemm_i8(const struct gemm_job *job,
                                                          uint32_t panel, const uint32_t n_rows);

#include "kernels/cpu/attend.h"
#include "kernels/cpu/gemm_float.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/rows.h"

static inline __attribute__((always_inline)) void gemm_i4(const struct gemm_job *job,
                                                          uint32_t panel, const uint32_t n_rows) {
    uint32_t n_groups = job->weight->k / GROUP;
    const uint8_t *w =
        (const uint8_t *)job->weight->data + (size_t)panel * n_groups * PANEL_I4_BYTES;
    const __m512i low = _mm512_set1_epi8(15);
    __m512 f[TILE_ROWS_MAX];
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = _mm512_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++, w += PANEL_I4_BYTES) {
        struct tile_group tile = tile_at(job->x, g, n_rows);
        __m512i weights[8];
        VEC_UNROLL(4)
        for (uint32_t j = 0; j < 4; j++) {
            __m512i nibbles = _mm512_load_si512(w + 64 * j);
            weights[2 * j] = _mm512_and_si512(nibbles, low);
            weights[2 * j + 1] = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low);
        }
        __m512 scale = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(w + PANEL_I4_SCALES)));
        __m512 min = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(w + PANEL_I4_MINS)));
        VEC_UNROLL(8)
        for (uint32_t r = 0; r < n_rows; r++) {
            __m512i dot = _mm512_setzero_si512();
            VEC_UNROLL(8)
            for (uint32_t j = 0; j < 8; j++)
                dot = _mm512_dpbusd_epi32(dot, weights[j],
                                          broadcast_four(tile.q + r * GROUP + 4 * j));
            __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(tile.scales[r]));
            f[r] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(dot), f[r]);
            f[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(tile.sums[r]), f[r]);
        }
    }
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        gemm_finish(job, panel, r, (struct vec){f[r]});
}

static inline __attribute__((always_inline)) void gemm_i8(const struct gemm_job *job,
                                                          uint32_t panel, const uint32_t n_rows) {
    uint32_t n_groups = job->weight->k / GROUP;
    const uint8_t *w = (const uint8_t *)job->weight->data +
                       (size_t)panel * panel_bytes(WEIGHT_I8G, job->weight->k);
    const uint8_t *scales = w + (size_t)n_groups * PANEL_I8_BYTES;
    __m512 f[TILE_ROWS_MAX];
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        f[r] = _mm512_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++, w += PANEL_I8_BYTES) {
        struct tile_group tile = tile_at(job->x, g, n_rows);
        __m512i weights[8];
        VEC_UNROLL(8)
        for (uint32_t j = 0; j < 8; j++)
            weights[j] = _mm512_load_si512(w + 64 * j);
        __m512 scale =
            _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(scales + (size_t)g * 2 * PANEL)));
        VEC_UNROLL(8)
        for (uint32_t r = 0; r < n_rows; r++) {
            __m512i dot = _mm512_set1_epi32(tile.corrections[r]);
            VEC_UNROLL(8)
            for (uint32_t j = 0; j < 8; j++)
                dot = _mm512_dpbusd_epi32(dot, weights[j],
                                          broadcast_four(tile.q + r * GROUP + 4 * j));
            __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(tile.scales[r]));
            f[r] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(dot), f[r]);
        }
    }
    VEC_UNROLL(8)
    for (uint32_t r = 0; r < n_rows; r++)
        gemm_finish(job, panel, r, (struct vec){f[r]});
}

/* One group of one row: 32 int8 and their sum; the scale. See numbers_quantize. */
static int32_t quantize_group(int8_t *q, float *scale, const float *x) {
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
    return _mm512_reduce_add_epi32(_mm512_add_epi32(qa, qb));
}

#include "kernels/cpu/quantize.h"

const struct path path_avx512 = {
    .name = "avx512",
    .tile_rows = 8,
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
