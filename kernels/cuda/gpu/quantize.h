/* kernels/cuda/gpu/quantize.h: rows of activations in the order that a matrix of integers has its inputs in, and
 * numbers_quantize() on eight lanes a group of 32, which have four neighbours each. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

#define QUANTIZE_LANES (GROUP / 4) /* of a group */

/* Four neighbouring inputs of a row as the matrix has them. */
__device__ __forceinline__ void load_inputs(float x[4], const float *from, const uint32_t *order,
                                            uint32_t i) {
    if (order) {
        const uint4 at = *(const uint4 *)(order + i);
        const uint32_t inputs[4] = {at.x, at.y, at.z, at.w};
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[j] = inputs[j] == WEIGHT_NO_INPUT ? 0.0f : from[inputs[j]];
    } else if ((uintptr_t)from % 16 == 0) {
        const float4 four = *(const float4 *)(from + i);
        x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[j] = from[i + j];
    }
}

/* The largest number of a group's lanes; all of them get it. The warp calls. */
__device__ __forceinline__ uint32_t group_max(uint32_t bits) {
#pragma unroll
    for (int width = QUANTIZE_LANES / 2; width > 0; width /= 2) {
        uint32_t other = __shfl_xor_sync(FULL_WARP, bits, width);
        bits = other > bits ? other : bits;
    }
    return bits;
}

__device__ __forceinline__ int group_sum(int sum) {
#pragma unroll
    for (int width = QUANTIZE_LANES / 2; width > 0; width /= 2)
        sum += __shfl_xor_sync(FULL_WARP, sum, width);
    return sum;
}

/* One term of a group (`here`: there is one): a lane has four of its x; writes their q and the group's scale and
 * sum. What is left of x comes back in it. The warp calls.
 *
 * No product is above 127 but for its rounding, for x is at most max: there is nothing to clamp. And what
 * adding ROUND_MAGIC leaves has the integer in its low byte. */
__device__ __forceinline__ void quantize_term(float x[4], const gpu_ints &to, size_t group,
                                              bool here) {
    uint32_t max_bits = 0, lane = threadIdx.x % QUANTIZE_LANES, q = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
        max_bits = bits > max_bits ? bits : max_bits;
    }
    max_bits = group_max(max_bits);
    float max = float_from_bits(max_bits), scale = 0.0f;
    if (max_bits >= 0x7f800000u) {
        scale = float_from_bits(0x7fc00000u);
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] = scale;
    } else if (!(max < QUANT_TINY)) {
        float inverse = 127.0f / max, magic[4];
        scale = max / 127.0f;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            magic[i] = x[i] * inverse + ROUND_MAGIC;
            x[i] = x[i] - scale * (magic[i] - ROUND_MAGIC);
        }
        q = __byte_perm(__byte_perm(float_bits(magic[0]), float_bits(magic[1]), 0x0040),
                        __byte_perm(float_bits(magic[2]), float_bits(magic[3]), 0x0040), 0x5410);
    }
    int sum = group_sum(dp4a(0, q, 0x01010101u));
    if (!here)
        return;
    *(uint32_t *)(to.q + group * GROUP + 4 * lane) = q;
    if (lane == 0) {
        to.scales[group] = scale;
        to.sums[group] = scale * (float)sum;
    }
}

} // namespace GPU_NAMESPACE
