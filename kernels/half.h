/* kernels/half.h: 16-bit floats to float32 and back, in integers only.
 *
 * The same bits with or without F16C, and under any MXCSR for denormals, so that the scalar
 * path, the loaders and the vector paths agree. Rounding is to nearest, ties to even. NaNs stay
 * NaNs (quiet, payload cut). Formats: IEEE 754 binary16; bfloat16 is the upper half of binary32. */
#pragma once

#include <stdint.h>
#include <string.h>

/* A function that kernels of a GPU call too. */
#ifdef __CUDACC__
#define EVERYWHERE static inline __host__ __device__
#else
#define EVERYWHERE static inline
#endif

EVERYWHERE uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

EVERYWHERE float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Zero bits above the highest one; not of 0. */
EVERYWHERE uint32_t leading_zeros(uint32_t bits) {
#ifdef __CUDA_ARCH__
    return (uint32_t)__clz((int)bits);
#else
    return (uint32_t)__builtin_clz(bits);
#endif
}

EVERYWHERE float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 31) /* infinity, or a NaN made quiet as VCVTPH2PS does */
        return float_from_bits(sign | 0x7f800000u | fraction << 13 |
                               (fraction != 0 ? 0x400000u : 0u));
    if (exponent != 0)
        return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    if (fraction == 0)
        return float_from_bits(sign);
    /* A subnormal half is a normal float: fraction * 2^-24. */
    uint32_t shift = leading_zeros(fraction) - 21;
    return float_from_bits(sign | (113 - shift) << 23 | ((fraction << shift) & 0x3ffu) << 13);
}

EVERYWHERE uint16_t float_to_half(float value) {
    uint32_t bits = float_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { /* at least 2^-14: a normal half */
        uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
        return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
    }
    if (magnitude <= 0x33000000u) /* at most 2^-25: half the smallest subnormal, ties to zero */
        return sign;
    uint32_t shift = 126 - (magnitude >> 23);
    uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t half = fraction >> shift;
    uint32_t rest = fraction & ((1u << shift) - 1);
    uint32_t tie = 1u << (shift - 1);
    half += rest > tie || (rest == tie && (half & 1u));
    return (uint16_t)(sign | half);
}

EVERYWHERE float bf16_to_float(uint16_t bf16) {
    return float_from_bits((uint32_t)bf16 << 16);
}

EVERYWHERE uint16_t float_to_bf16(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
