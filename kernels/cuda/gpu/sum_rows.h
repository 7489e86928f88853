/* kernels/cuda/gpu/sum_rows.h: what the slices of a product come to (gpu/tensor.h), for kernels that add them up on the way. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

/* Output n of a row, of its first `N` neighbours from n on: n is a multiple of N, and N divides the padding. */
template <uint32_t N>
__device__ __forceinline__ void sum_slices(float to[N], const gpu_sum &sum, uint32_t row,
                                           uint32_t n) {
    const float *from = sum.parts + (size_t)row * sum.n_padded + n;
    size_t step = (size_t)sum.n_rows * sum.n_padded;
#pragma unroll
    for (uint32_t e = 0; e < N; e++)
        to[e] = 0.0f;
#pragma unroll 4
    for (uint32_t slice = 0; slice < sum.n_slices; slice++) {
        float part[N];
        if constexpr (N == 4) {
            take_four(part, from);
        } else if constexpr (N == 2) {
            float2 two = *(const float2 *)from;
            part[0] = two.x, part[1] = two.y;
        } else {
            part[0] = *from;
        }
#pragma unroll
        for (uint32_t e = 0; e < N; e++)
            to[e] += part[e];
        from += step;
    }
#pragma unroll
    for (uint32_t e = 0; e < N; e++) {
        bool there = n + e < sum.n;
        to[e] = to[e] * (sum.scale && there ? sum.scale[n + e] : 1.0f) +
                (sum.bias && there ? sum.bias[n + e] : 0.0f);
    }
}

/* silu(gate) * up of outputs 2 i and 2 i + 1. */
__device__ __forceinline__ float sum_gated(const gpu_sum &sum, uint32_t row, uint32_t i) {
    float y[2];
    sum_slices<2>(y, sum, row, 2 * i);
    return numbers_silu(y[0]) * y[1];
}

} // namespace GPU_NAMESPACE
