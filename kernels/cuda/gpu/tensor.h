/* kernels/cuda/gpu/tensor.h: the order of every product on 16-bit tensor cores, and what its kernels share.
 *
 * The inputs of an output are cut into slices of 1,024. A slice is one chain of mma.m16n8k16 from zero, in rising chunks of 128
 * inputs; what the slices come to is added in rising order, in float32. So a row has the same bits whether its slices are
 * computed one after the other, by different warps or by different blocks, and whatever other rows stand beside it: rows are
 * columns of operand B, and outputs rows of operand A.
 *
 * A chunk takes eight mma. Lane t of the four that have an output's operand brings in mma 2 w + h, of integers, four inputs of
 * group t of the chunk's four groups, so that its bytes (16 of 4 bits, 32 of 8) are multiplied as they lie; of floats, four of 16
 * neighbouring inputs in their own order. Which inputs of integers these are follows from the format's bytes (input() in tensor_form.h),
 * and rows of activations are rounded into that order: a row and chunk is 16 units of 16 bytes, of which mma i takes units 2 i and
 * 2 i + 1, and lane t word t of each. That is the plain order of an operand B, by rows, for ldmatrix as for the descriptors of wgmma.
 * In shared memory unit u of row r lies at place tensor_swizzle(u, r) of its row, so that eight rows read together, or written
 * together, touch different banks: the swizzle of 128 bytes that wgmma knows.
 *
 * wgmma adds up as a chain of mma.sync does, bit for bit: a device is asked at the start whether that is so (probe.cu), and
 * takes the one for the other only then.
 *
 * Rows are rounded to the weights' own type. For binary16 each slice of a row is multiplied by a power of two first, and its
 * sum by the inverse: that is exact. */
#pragma once

#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define CHUNK_UNITS  (TENSOR_CHUNK / 8)
#define CHUNK_MMA    (TENSOR_CHUNK / 16)
#define SLICE_CHUNKS (TENSOR_SLICE / TENSOR_CHUNK)
#define PIECE_INPUTS 8

__host__ __device__ static inline uint32_t tensor_swizzle(uint32_t unit, uint32_t row) {
    return unit ^ row % 8;
}

/* The largest number of a slice comes to lie in [2^14, 2^15): none overflows, and those down to 2^-28 of it keep all
 * their bits. A slice with an infinity or a NaN is not scaled. */
struct slice_powers {
    float factor; /* of the numbers before they are rounded */
    float back;   /* of what their products add up to */
};

__device__ __forceinline__ slice_powers powers_of(uint32_t max_bits) {
    slice_powers powers = {1.0f, 1.0f};
    uint32_t exponent = max_bits >> 23;
    if (exponent < 255) {
        exponent = exponent < 15 ? 15 : exponent; /* so that both powers are normal numbers */
        powers.factor = float_from_bits((268 - exponent) << 23);
        powers.back = float_from_bits((exponent - 14) << 23);
    }
    return powers;
}

/* What a slice has come to: then they are added in rising order. */
__device__ __forceinline__ float scale_slice(float slice, float back) {
    return slice * back;
}

/* (a & b) | c in one instruction: nvcc makes two of it where b and c are constants. */
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#else
    return (a & b) | c;
#endif
}

/* Stays in its register: nvcc would rather compute it again in each turn of a loop. */
template <typename T> __device__ __forceinline__ void keep(T &value) {
#ifdef __CUDACC__
    if constexpr (sizeof(T) == 8)
        asm volatile("" : "+l"(value));
    else
        asm volatile("" : "+r"(value));
#else
    (void)value;
#endif
}

/* Word i of 16 bytes. */
__device__ __forceinline__ uint32_t word_of(const uint4 &four, int i) {
    return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
}

template <weight_format FORMAT>
__device__ __forceinline__ void mma_16(float acc[4], const uint32_t a[4], const uint32_t b[2]) {
    if (FORMAT == WEIGHT_BF16)
        mma_m16n8k16_bf16_f32(acc, a, b);
    else
        mma_m16n8k16_f16_f32(acc, a, b);
}

__host__ __device__ static inline uint32_t count_chunks(const gpu_matrix &w) {
    return (w.k_stored + TENSOR_CHUNK - 1) / TENSOR_CHUNK;
}
__host__ __device__ static inline uint32_t count_slices(const gpu_matrix &w) {
    return (w.k_stored + TENSOR_SLICE - 1) / TENSOR_SLICE;
}

/* Output n of row m, of a matrix of n_outputs; `next` is output n + 1. */
__device__ __forceinline__ void store_one(const gpu_linear &what, uint32_t n_outputs, uint32_t m,
                                          uint32_t n, float y, float next) {
    if (m >= what.n_rows || n >= n_outputs)
        return;
    float *out = what.out + (size_t)m * what.out_stride;
    if (what.epilogue != EPILOGUE_SILU_MUL)
        out[n] = what.epilogue == EPILOGUE_ADD ? out[n] + y : y;
    else if (n % 2 == 0 && n + 1 < n_outputs)
        out[n / 2] = numbers_silu(y) * next;
}

} // namespace GPU_NAMESPACE
