/* kernels/cpu/vec_avx512.h: sixteen float lanes in one register. Contract: vec_scalar.h. */
#pragma once

#include "kernels/numbers.h"

#include <immintrin.h>
#include <stdbool.h>

#if defined(TANDEM_SANITIZED) /* as in vec_scalar.h: the same sums, from much less code */
#define VEC_INLINE static inline __attribute__((unused))
#define VEC_UNROLL(n)
#else
#define VEC_INLINE    static inline __attribute__((always_inline, unused))
#define VEC_PRAGMA(x) _Pragma(#x)
#define VEC_UNROLL(n) VEC_PRAGMA(GCC unroll n)
#endif

struct vec {
    __m512 v;
};

VEC_INLINE __mmask16 vec_first(uint32_t n) {
    return (__mmask16)((1u << n) - 1);
}

VEC_INLINE struct vec vec_set(float value) {
    return (struct vec){_mm512_set1_ps(value)};
}

VEC_INLINE struct vec vec_load(const float *from) {
    return (struct vec){_mm512_loadu_ps(from)};
}

VEC_INLINE struct vec vec_load_n(const float *from, uint32_t n, float fill) {
    return (struct vec){_mm512_mask_loadu_ps(_mm512_set1_ps(fill), vec_first(n), from)};
}

VEC_INLINE void vec_store(float *to, struct vec v) {
    _mm512_storeu_ps(to, v.v);
}

VEC_INLINE void vec_store_n(float *to, uint32_t n, struct vec v) {
    _mm512_mask_storeu_ps(to, vec_first(n), v.v);
}

VEC_INLINE struct vec vec_load_half(const uint16_t *from) {
    return (struct vec){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from))};
}

VEC_INLINE struct vec vec_load_half_n(const uint16_t *from, uint32_t n) {
    return (struct vec){_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_first(n), from))};
}

VEC_INLINE void vec_store_half(uint16_t *to, struct vec v) {
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT));
}

VEC_INLINE struct vec vec_load_bf16_even(const uint16_t *from) {
    return (struct vec){_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(from), 16))};
}

VEC_INLINE struct vec vec_load_bf16_odd(const uint16_t *from) {
    return (struct vec){_mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi32((int)0xffff0000u)))};
}

VEC_INLINE struct vec vec_round_bf16(struct vec a) {
    __m512i bits = _mm512_castps_si512(a.v);
    __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(lowest, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return (struct vec){
        _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32((int)0xffff0000u)))};
}

VEC_INLINE struct vec vec_add(struct vec a, struct vec b) {
    return (struct vec){_mm512_add_ps(a.v, b.v)};
}

VEC_INLINE struct vec vec_sub(struct vec a, struct vec b) {
    return (struct vec){_mm512_sub_ps(a.v, b.v)};
}

VEC_INLINE struct vec vec_mul(struct vec a, struct vec b) {
    return (struct vec){_mm512_mul_ps(a.v, b.v)};
}

VEC_INLINE struct vec vec_div(struct vec a, struct vec b) {
    return (struct vec){_mm512_div_ps(a.v, b.v)};
}

VEC_INLINE struct vec vec_fma(struct vec a, struct vec b, struct vec c) {
    return (struct vec){_mm512_fmadd_ps(a.v, b.v, c.v)};
}

VEC_INLINE struct vec vec_max(struct vec a, struct vec b) {
    return (struct vec){_mm512_max_ps(a.v, b.v)};
}

VEC_INLINE struct vec vec_min(struct vec a, struct vec b) {
    return (struct vec){_mm512_min_ps(a.v, b.v)};
}

VEC_INLINE struct vec vec_zero_below(struct vec x, struct vec limit, struct vec value) {
    __mmask16 below = _mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ);
    return (struct vec){_mm512_mask_mov_ps(value.v, below, _mm512_setzero_ps())};
}

VEC_INLINE struct vec vec_only(struct vec v, uint32_t lanes) {
    return (struct vec){_mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (__mmask16)lanes, v.v)};
}

VEC_INLINE struct vec vec_power(struct vec shifted) {
    __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
    return (struct vec){_mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3f800000)))};
}

VEC_INLINE float vec_sum(struct vec v) {
    __m256 high = _mm512_extractf32x8_ps(v.v, 1);
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v.v), high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

VEC_INLINE float vec_max_lane(struct vec v) {
    return _mm512_reduce_max_ps(v.v);
}

VEC_INLINE bool vec_any_nan(struct vec v) {
    return _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q) != 0;
}

VEC_INLINE uint32_t vec_mask_ge(struct vec a, struct vec b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ);
}

VEC_INLINE struct vec vec_split_pairs(struct vec a, struct vec b, struct vec *odd) {
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    odd->v = _mm512_permutex2var_ps(a.v, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b.v);
    return (struct vec){_mm512_permutex2var_ps(a.v, even, b.v)};
}
