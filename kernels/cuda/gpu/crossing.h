/* kernels/cuda/gpu/crossing.h: how the numbers of ranks lie while they are on their way to each other, four side by side. Numbers i
 * to i + 3 are the four i / 4 of such memory, i being a multiple of 4. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

/* As they are: a sum takes the place of the rank's own numbers. */
struct crossing_floats {
    static const bool rounds = false;
    typedef float4 four;
    static __device__ __forceinline__ four of(float4 x) {
        return x;
    }
    static __device__ __forceinline__ float4 numbers(four x) {
        return x;
    }
};

/* Rounded to bfloat16: a rank's part of what is added to its x, and then what all parts come to. */
struct crossing_rounded {
    static const bool rounds = true;
    typedef uint2 four;
    static __device__ __forceinline__ four of(float4 x) {
        return make_uint2(float_to_bf16(x.x) | (uint32_t)float_to_bf16(x.y) << 16,
                          float_to_bf16(x.z) | (uint32_t)float_to_bf16(x.w) << 16);
    }
    static __device__ __forceinline__ float4 numbers(four x) {
        return make_float4(float_from_bits(x.x << 16), float_from_bits(x.x & 0xffff0000u),
                           float_from_bits(x.y << 16), float_from_bits(x.y & 0xffff0000u));
    }
};

/* The four with number i. */
template <typename CROSSING>
__device__ __forceinline__ typename CROSSING::four &four_at(void *stage, uint32_t i) {
    return ((typename CROSSING::four *)stage)[i / 4];
}
template <typename CROSSING>
__device__ __forceinline__ const typename CROSSING::four &four_at(const void *stage, uint32_t i) {
    return ((const typename CROSSING::four *)stage)[i / 4];
}

/* What has come of all ranks becomes x, or is added to it: numbers i to i + 3 of n. Answers what they are then. */
template <typename CROSSING, bool WHOLE>
__device__ __forceinline__ float4 store_sum(float *x, uint32_t i, uint32_t n,
                                            const typename CROSSING::four &came) {
    float4 sum = CROSSING::numbers(came);
    if (CROSSING::rounds)
        sum = add_fours(load_four<WHOLE>(x, i, n), sum);
    store_four<WHOLE>(x, i, n, sum);
    return sum;
}

} // namespace GPU_NAMESPACE
