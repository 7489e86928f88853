/* kernels/cpu/vec_scalar.h: sixteen float lanes as an array. The three vec_*.h define the same
 * functions, each in the same order of operations; see kernels/numbers.h. */
#pragma once

#include "kernels/numbers.h"

#include <stdbool.h>

/* Inlining and unrolling are forced where they keep sums in registers. Here there are none to keep
 * them in, and with sanitizers the code would become very large. */
#define VEC_INLINE static inline __attribute__((unused))
#define VEC_UNROLL(n)

struct vec {
    float lane[NUMBERS_LANES];
};

#define VEC_EACH(i) for (int i = 0; i < NUMBERS_LANES; i++)

VEC_INLINE struct vec vec_set(float value) {
    struct vec v;
    VEC_EACH(i)
    v.lane[i] = value;
    return v;
}

VEC_INLINE struct vec vec_load(const float *from) {
    struct vec v;
    memcpy(v.lane, from, sizeof v.lane);
    return v;
}

/* The first n lanes from memory, the others `fill`. */
VEC_INLINE struct vec vec_load_n(const float *from, uint32_t n, float fill) {
    struct vec v = vec_set(fill);
    memcpy(v.lane, from, n * sizeof v.lane[0]);
    return v;
}

VEC_INLINE void vec_store(float *to, struct vec v) {
    memcpy(to, v.lane, sizeof v.lane);
}

VEC_INLINE void vec_store_n(float *to, uint32_t n, struct vec v) {
    memcpy(to, v.lane, n * sizeof v.lane[0]);
}

VEC_INLINE struct vec vec_load_half(const uint16_t *from) {
    struct vec v;
    VEC_EACH(i)
    v.lane[i] = half_to_float(from[i]);
    return v;
}

/* The first n, the other lanes 0. */
VEC_INLINE struct vec vec_load_half_n(const uint16_t *from, uint32_t n) {
    uint16_t halves[NUMBERS_LANES] = {0};
    memcpy(halves, from, n * sizeof halves[0]);
    return vec_load_half(halves);
}

VEC_INLINE void vec_store_half(uint16_t *to, struct vec v) {
    VEC_EACH(i)
    to[i] = float_to_half(v.lane[i]);
}

/* 16 pairs of bfloat16: the first or the second of each. */
VEC_INLINE struct vec vec_load_bf16_even(const uint16_t *from) {
    struct vec v;
    VEC_EACH(i)
    v.lane[i] = bf16_to_float(from[2 * i]);
    return v;
}

VEC_INLINE struct vec vec_load_bf16_odd(const uint16_t *from) {
    struct vec v;
    VEC_EACH(i)
    v.lane[i] = bf16_to_float(from[2 * i + 1]);
    return v;
}

VEC_INLINE struct vec vec_round_bf16(struct vec a) {
    VEC_EACH(i)
    a.lane[i] = bf16_to_float(float_to_bf16(a.lane[i]));
    return a;
}

VEC_INLINE struct vec vec_add(struct vec a, struct vec b) {
    VEC_EACH(i)
    a.lane[i] += b.lane[i];
    return a;
}

VEC_INLINE struct vec vec_sub(struct vec a, struct vec b) {
    VEC_EACH(i)
    a.lane[i] -= b.lane[i];
    return a;
}

VEC_INLINE struct vec vec_mul(struct vec a, struct vec b) {
    VEC_EACH(i)
    a.lane[i] *= b.lane[i];
    return a;
}

VEC_INLINE struct vec vec_div(struct vec a, struct vec b) {
    VEC_EACH(i)
    a.lane[i] /= b.lane[i];
    return a;
}

/* a * b + c, rounded once. */
VEC_INLINE struct vec vec_fma(struct vec a, struct vec b, struct vec c) {
    VEC_EACH(i)
    a.lane[i] = fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return a;
}

/* a > b ? a : b and a < b ? a : b in each lane: b where one is NaN. */
VEC_INLINE struct vec vec_max(struct vec a, struct vec b) {
    VEC_EACH(i)
    a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

VEC_INLINE struct vec vec_min(struct vec a, struct vec b) {
    VEC_EACH(i)
    a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
}

/* x < limit ? 0 : value. */
VEC_INLINE struct vec vec_zero_below(struct vec x, struct vec limit, struct vec value) {
    VEC_EACH(i)
    value.lane[i] = x.lane[i] < limit.lane[i] ? 0.0f : value.lane[i];
    return value;
}

/* The lanes whose bit of the lower 16 is set, -INFINITY in the others. */
VEC_INLINE struct vec vec_only(struct vec v, uint32_t lanes) {
    VEC_EACH(i)
    v.lane[i] = lanes >> i & 1 ? v.lane[i] : -INFINITY;
    return v;
}

/* 2^n from the bits of n + ROUND_MAGIC. */
VEC_INLINE struct vec vec_power(struct vec shifted) {
    VEC_EACH(i)
    shifted.lane[i] = float_from_bits((float_bits(shifted.lane[i]) << 23) + 0x3f800000u);
    return shifted;
}

VEC_INLINE float vec_sum(struct vec v) {
    return numbers_tree(v.lane);
}

VEC_INLINE float vec_max_lane(struct vec v) {
    float max = v.lane[0];
    for (int i = 1; i < NUMBERS_LANES; i++)
        max = max > v.lane[i] ? max : v.lane[i];
    return max;
}

VEC_INLINE bool vec_any_nan(struct vec v) {
    bool any = false;
    VEC_EACH(i)
    any |= v.lane[i] != v.lane[i];
    return any;
}

/* Lanes where a >= b, one bit each. */
VEC_INLINE uint32_t vec_mask_ge(struct vec a, struct vec b) {
    uint32_t mask = 0;
    VEC_EACH(i)
    mask |= (uint32_t)(a.lane[i] >= b.lane[i]) << i;
    return mask;
}

/* The even lanes of (a, b) in the result, the odd ones in *odd. */
VEC_INLINE struct vec vec_split_pairs(struct vec a, struct vec b, struct vec *odd) {
    struct vec even;
    for (int i = 0; i < 8; i++) {
        even.lane[i] = a.lane[2 * i];
        even.lane[i + 8] = b.lane[2 * i];
        odd->lane[i] = a.lane[2 * i + 1];
        odd->lane[i + 8] = b.lane[2 * i + 1];
    }
    return even;
}
