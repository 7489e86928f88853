/* kernels/cpu/vec_avx2.h: sixteen float lanes in two registers. Contract: vec_scalar.h. */
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
    __m256 low;
    __m256 high;
};

VEC_INLINE struct vec vec_set(float value) {
    return (struct vec){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

VEC_INLINE struct vec vec_load(const float *from) {
    return (struct vec){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

VEC_INLINE struct vec vec_load_n(const float *from, uint32_t n, float fill) {
    float lanes[NUMBERS_LANES];
    for (uint32_t i = 0; i < NUMBERS_LANES; i++)
        lanes[i] = i < n ? from[i] : fill;
    return vec_load(lanes);
}

VEC_INLINE void vec_store(float *to, struct vec v) {
    _mm256_storeu_ps(to, v.low);
    _mm256_storeu_ps(to + 8, v.high);
}

VEC_INLINE void vec_store_n(float *to, uint32_t n, struct vec v) {
    float lanes[NUMBERS_LANES];
    vec_store(lanes, v);
    memcpy(to, lanes, n * sizeof lanes[0]);
}

VEC_INLINE struct vec vec_load_half(const uint16_t *from) {
    return (struct vec){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)),
                        _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + 8)))};
}

VEC_INLINE struct vec vec_load_half_n(const uint16_t *from, uint32_t n) {
    uint16_t halves[NUMBERS_LANES] = {0};
    memcpy(halves, from, n * sizeof halves[0]);
    return vec_load_half(halves);
}

VEC_INLINE void vec_store_half(uint16_t *to, struct vec v) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(to + 8), _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
}

VEC_INLINE __m256i vec_load_bits(const uint16_t *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

VEC_INLINE struct vec vec_load_bf16_even(const uint16_t *from) {
    return (struct vec){_mm256_castsi256_ps(_mm256_slli_epi32(vec_load_bits(from), 16)),
                        _mm256_castsi256_ps(_mm256_slli_epi32(vec_load_bits(from + 16), 16))};
}

VEC_INLINE struct vec vec_load_bf16_odd(const uint16_t *from) {
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    return (struct vec){_mm256_castsi256_ps(_mm256_and_si256(vec_load_bits(from), upper)),
                        _mm256_castsi256_ps(_mm256_and_si256(vec_load_bits(from + 16), upper))};
}

VEC_INLINE __m256 vec_round_bf16_8(__m256 a) {
    __m256i bits = _mm256_castps_si256(a);
    __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(lowest, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), nan);
    return _mm256_and_ps(chosen, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u)));
}

VEC_INLINE struct vec vec_round_bf16(struct vec a) {
    return (struct vec){vec_round_bf16_8(a.low), vec_round_bf16_8(a.high)};
}

VEC_INLINE struct vec vec_add(struct vec a, struct vec b) {
    return (struct vec){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

VEC_INLINE struct vec vec_sub(struct vec a, struct vec b) {
    return (struct vec){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

VEC_INLINE struct vec vec_mul(struct vec a, struct vec b) {
    return (struct vec){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

VEC_INLINE struct vec vec_div(struct vec a, struct vec b) {
    return (struct vec){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

VEC_INLINE struct vec vec_fma(struct vec a, struct vec b, struct vec c) {
    return (struct vec){_mm256_fmadd_ps(a.low, b.low, c.low),
                        _mm256_fmadd_ps(a.high, b.high, c.high)};
}

VEC_INLINE struct vec vec_max(struct vec a, struct vec b) {
    return (struct vec){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

VEC_INLINE struct vec vec_min(struct vec a, struct vec b) {
    return (struct vec){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

VEC_INLINE struct vec vec_zero_below(struct vec x, struct vec limit, struct vec value) {
    return (struct vec){
        _mm256_andnot_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ), value.low),
        _mm256_andnot_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ), value.high)};
}

VEC_INLINE __m256 vec_only_8(__m256 v, uint32_t lanes) {
    const __m256i bits = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)lanes), bits);
    __m256 is_set = _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bits));
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, is_set);
}

VEC_INLINE struct vec vec_only(struct vec v, uint32_t lanes) {
    return (struct vec){vec_only_8(v.low, lanes), vec_only_8(v.high, lanes >> 8)};
}

VEC_INLINE __m256 vec_power_8(__m256 shifted) {
    __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3f800000)));
}

VEC_INLINE struct vec vec_power(struct vec shifted) {
    return (struct vec){vec_power_8(shifted.low), vec_power_8(shifted.high)};
}

VEC_INLINE float vec_sum(struct vec v) {
    __m256 eight = _mm256_add_ps(v.low, v.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

VEC_INLINE float vec_max_lane(struct vec v) {
    __m256 eight = _mm256_max_ps(v.low, v.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

VEC_INLINE bool vec_any_nan(struct vec v) {
    return (_mm256_movemask_ps(_mm256_cmp_ps(v.low, v.low, _CMP_UNORD_Q)) |
            _mm256_movemask_ps(_mm256_cmp_ps(v.high, v.high, _CMP_UNORD_Q))) != 0;
}

VEC_INLINE uint32_t vec_mask_ge(struct vec a, struct vec b) {
    int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GE_OQ));
    int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GE_OQ));
    return (uint32_t)(low | high << 8);
}

/* Even lanes of 16 floats in order: shuffle within halves, then put the quarters right. */
VEC_INLINE __m256 vec_pairs_8(struct vec v, bool odd) {
    __m256 mixed =
        odd ? _mm256_shuffle_ps(v.low, v.high, 0xdd) : _mm256_shuffle_ps(v.low, v.high, 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}

VEC_INLINE struct vec vec_split_pairs(struct vec a, struct vec b, struct vec *odd) {
    *odd = (struct vec){vec_pairs_8(a, true), vec_pairs_8(b, true)};
    return (struct vec){vec_pairs_8(a, false), vec_pairs_8(b, false)};
}
