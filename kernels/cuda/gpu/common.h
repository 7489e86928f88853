/* kernels/cuda/gpu/common.h: what several kernels share. */
#pragma once

#include "kernels/cuda/gpu/gpu.h"
#include "kernels/cuda/launch.h"
#include "kernels/numbers.h"

namespace GPU_NAMESPACE {

#define FULL_WARP 0xffffffffu
#define WARP      32u

static inline uint32_t pieces_of(size_t n, uint32_t size) {
    return (uint32_t)((n + size - 1) / size);
}

/* Adds 16 lanes in the order of numbers_tree(); all 16 get the sum. The whole warp calls. */
__device__ __forceinline__ float half_warp_tree(float sum) {
    for (int width = 8; width > 0; width /= 2)
        sum += __shfl_xor_sync(FULL_WARP, sum, width, 16);
    return sum;
}

__device__ __forceinline__ float load_scale(const void *scales, size_t at, bool wide) {
    return wide ? ((const float *)scales)[at] : half_float(((const uint16_t *)scales)[at]);
}

/* The minimum that a zero stands for (struct gpu_matrix). */
__device__ __forceinline__ float zero_min(float scale, int32_t zero_base, uint8_t zero) {
    return scale * (float)(zero_base - zero);
}

/* Minimum `at` of a matrix that has some; `scale` is the one beside it. */
__device__ __forceinline__ float load_min(const gpu_matrix &w, size_t at, float scale) {
    return w.zeros ? zero_min(scale, w.zero_base, ((const uint8_t *)w.mins)[at])
                   : load_scale(w.mins, at, w.wide);
}

/* Four floats, 16 bytes at once. */
__device__ __forceinline__ void take_four(float to[4], const float *from) {
    float4 four = *(const float4 *)from;
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

/* Whether rows of `dim` floats from p on all begin at 16 bytes. */
__host__ __device__ static inline bool are_fours(const void *p, uint32_t dim) {
    return dim % 4 == 0 && (uintptr_t)p % 16 == 0;
}

/* Numbers i to i + 3 of n, zeros behind the end; as 16 bytes where rows are of WHOLE fours (are_fours()). */
template <bool WHOLE>
__device__ __forceinline__ float4 load_four(const float *from, uint32_t i, uint32_t n) {
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (WHOLE && i < n)
        return *(const float4 *)(from + i);
    if (!WHOLE) {
        four.x = i < n ? from[i] : 0.0f;
        four.y = i + 1 < n ? from[i + 1] : 0.0f;
        four.z = i + 2 < n ? from[i + 2] : 0.0f;
        four.w = i + 3 < n ? from[i + 3] : 0.0f;
    }
    return four;
}

template <bool WHOLE>
__device__ __forceinline__ void store_four(float *to, uint32_t i, uint32_t n, float4 four) {
    if (WHOLE && i < n)
        *(float4 *)(to + i) = four;
    if (!WHOLE) {
        const float each[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            if (i + j < n)
                to[i + j] = each[j];
    }
}

__device__ __forceinline__ float4 add_fours(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* The matrix of row (or pair) `row`. */
__device__ __forceinline__ const gpu_matrix &chosen(const gpu_choice &choice, uint32_t row) {
    return choice.table ? choice.table[choice.ids[row]] : choice.matrix;
}

/* What becomes of one output y of a row: scale, bias, and the second term's product `rest`. */
__device__ __forceinline__ float with_scale(const gpu_matrix &w, uint32_t n, float y) {
    y = w.scale ? y * w.scale[n] : y;
    return w.bias ? y + w.bias[n] : y;
}

__device__ __forceinline__ void store_output(const gpu_matrix &w, float *at, uint32_t n, float y,
                                             bool add, bool fine, float rest) {
    float out = add ? *at + y : y;
    if (fine)
        out += w.scale ? rest * w.scale[n] : rest;
    *at = out;
}

} // namespace GPU_NAMESPACE
