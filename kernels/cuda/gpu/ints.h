/* kernels/cuda/gpu/ints.h: what the products with matrices of integers share, whatever their number of rows. */
#pragma once

#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

/* What scales and minima are: binary16, float32, or binary16 with a zero each (struct gpu_matrix). */
enum ints_scales { INTS_HALF, INTS_WIDE, INTS_ZEROS };
template <ints_scales SCALES> struct ints_numbers { typedef uint16_t scale, min; };
template <> struct ints_numbers<INTS_WIDE> { typedef float scale, min; };
template <> struct ints_numbers<INTS_ZEROS> {
    typedef uint16_t scale;
    typedef uint8_t min;
};

/* A GPU turns integers into floats at a fraction of the rate of its sums, which would limit a product. So an mma begins
 * at the bits of 1.5 * 2^23: its results are the bits of floats that are as much too large, as dots are below 2^22. */
#define DOT_BIAS 0x4b400000

__device__ __forceinline__ void dot_block(int32_t dot[4], const uint32_t a[4],
                                          const uint32_t b[2]) {
    const int32_t bias[4] = {DOT_BIAS, DOT_BIAS, DOT_BIAS, DOT_BIAS};
    mma_m16n8k32_s8_s32_from(dot, a, b, bias);
}

__device__ __forceinline__ float dot_value(int32_t dot) {
    return float_from_bits((uint32_t)dot) - float_from_bits(DOT_BIAS);
}

} // namespace GPU_NAMESPACE
