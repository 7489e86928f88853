/* kernels/cuda/gpu/floats.h: what the products with matrices of floats share: the order of kernels/ref. One chain of
 * FMAs an output in rising k; of bfloat16, per 32 inputs a chain over the even and one over the odd
 * ones, then their sum added. */
#pragma once

#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

/* One output's sum, as its format's order has it. */
template <weight_format FORMAT> struct chain {
    float f = 0.0f, even = 0.0f, odd = 0.0f;
    /* Inputs come in rising i. */
    __device__ __forceinline__ void add(uint32_t i, float w, float x) {
        if (FORMAT != WEIGHT_BF16)
            f = fmaf(w, x, f);
        else if (i % 2 == 0)
            even = fmaf(w, x, even);
        else
            odd = fmaf(w, x, odd);
    }
    /* Behind each 32 inputs. */
    __device__ __forceinline__ void end_group() {
        if (FORMAT == WEIGHT_BF16) {
            f += even + odd;
            even = odd = 0.0f;
        }
    }
};

/* Inputs in 16 bytes of a matrix. */
template <weight_format FORMAT> struct packed {
    static const int n = FORMAT == WEIGHT_F32 ? 4 : 8;
};

template <weight_format FORMAT>
__device__ __forceinline__ void unpack(const uint4 &raw, float w[packed<FORMAT>::n]) {
    uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (FORMAT == WEIGHT_F32) {
            w[i] = float_from_bits(words[i]);
        } else if (FORMAT == WEIGHT_F16) {
            w[2 * i] = half_float((uint16_t)words[i]);
            w[2 * i + 1] = half_float((uint16_t)(words[i] >> 16));
        } else {
            w[2 * i] = float_from_bits(words[i] << 16);
            w[2 * i + 1] = float_from_bits(words[i] & 0xffff0000u);
        }
    }
}

/* Inputs that a product runs through. */
template <weight_format FORMAT> __device__ __forceinline__ uint32_t inputs_of(const gpu_matrix &w) {
    return FORMAT == WEIGHT_BF16 ? w.k_stored : w.k;
}

/* Inputs i to i + 3 of a row of k activations; `aligned`: every fourth lies at 16 bytes. Behind the row's end they are
 * what changes no sum: -0, for fma(0, -0, f) is f. Groups of bfloat16 end with zeros. */
template <weight_format FORMAT>
__device__ __forceinline__ float4 load_x(const float *x, uint32_t i, uint32_t k, bool aligned) {
    const float none = FORMAT == WEIGHT_BF16 ? 0.0f : -0.0f;
    float4 value = {none, none, none, none};
    if (aligned && i < k)
        return *(const float4 *)(x + i);
    if (i < k)
        value.x = x[i];
    if (i + 1 < k)
        value.y = x[i + 1];
    if (i + 2 < k)
        value.z = x[i + 2];
    if (i + 3 < k)
        value.w = x[i + 3];
    return value;
}

/* An activation as the product takes it. */
template <weight_format FORMAT> __device__ __forceinline__ float take_x(float x) {
    return FORMAT == WEIGHT_BF16 ? bf16_to_float(float_to_bf16(x)) : x;
}

/* Output n of a row, or with the next one the half of it that SILU makes of the two. */
__device__ __forceinline__ void store_row(const gpu_linear &what, const gpu_matrix &w, uint32_t row,
                                          uint32_t n, float y, float next) {
    float *out = what.out + (size_t)row * what.out_stride;
    if (what.epilogue != EPILOGUE_SILU_MUL)
        store_output(w, out + n, n, with_scale(w, n, y), what.epilogue == EPILOGUE_ADD, false,
                     0.0f);
    else if (n % 2 == 0 && n + 1 < w.n)
        out[n / 2] = numbers_silu(with_scale(w, n, y)) * with_scale(w, n + 1, next);
}

} // namespace GPU_NAMESPACE
