/* kernels/cuda/gpu/tensor.h: what products on 16-bit tensor cores share, whatever the matrix is stored as: how rows of
 * activations are rounded, tiles, the copies into shared memory, operands, and what becomes of the sums.
 *
 * Activations lie as a matrix of 16-bit floats does: (inputs / 8, rows, 8). Each output is one chain of mma.m16n8k16 in
 * rising steps of 16 inputs, with the weights as operand A and the activations as operand B, whatever the tile: a row has
 * the same bits beside any others. Included by linear_tensor.cu and linear_tensor_ints.cu alone. */
#pragma once

#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define PLANE         8 /* inputs of an output or row in 16 bytes */
#define ROUND_THREADS 256
#define ROUND_WARPS   (ROUND_THREADS / WARP)

struct round_shared {
    uint32_t max_bits[ROUND_WARPS];
};

/* Inputs [8 plane, 8 plane + 8) of a row, zeros behind the last. */
__device__ __forceinline__ void load_plane(float to[PLANE], const float *row, uint32_t k,
                                           uint32_t plane) {
    uint32_t begin = plane * PLANE;
    if ((uintptr_t)row % 16 == 0 && begin + PLANE <= k) {
        const float4 *from = (const float4 *)(row + begin);
        float4 a = from[0], b = from[1];
        to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
        to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < PLANE; i++)
        to[i] = begin + i < k ? row[begin + i] : 0.0f;
}

/* The largest magnitude of a row, as bits; the whole block calls. */
__device__ static uint32_t largest_bits(round_shared &s, const float *row, uint32_t k) {
    uint32_t max_bits = 0, n_planes = (k + PLANE - 1) / PLANE;
#pragma unroll 4
    for (uint32_t plane = threadIdx.x; plane < n_planes; plane += ROUND_THREADS) {
        float x[PLANE];
        load_plane(x, row, k, plane);
#pragma unroll
        for (uint32_t i = 0; i < PLANE; i++) {
            uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
            max_bits = bits > max_bits ? bits : max_bits;
        }
    }
    for (int width = 16; width > 0; width /= 2) {
        uint32_t other = __shfl_xor_sync(FULL_WARP, max_bits, width);
        max_bits = other > max_bits ? other : max_bits;
    }
    if (threadIdx.x % WARP == 0)
        s.max_bits[threadIdx.x / WARP] = max_bits;
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < ROUND_WARPS; i++)
        max_bits = s.max_bits[i] > max_bits ? s.max_bits[i] : max_bits;
    return max_bits;
}

/* What a row of binary16 is multiplied by before it is rounded, and its products afterwards. The largest number of a
 * row comes to lie in [2^14, 2^15): none overflows, and those down to 2^-28 of it keep all their bits. A row with an
 * infinity or a NaN is not scaled. */
struct row_powers {
    float factor, back;
};

__device__ __forceinline__ row_powers powers_of(uint32_t max_bits) {
    row_powers powers = {1.0f, 1.0f};
    uint32_t exponent = max_bits >> 23;
    if (exponent < 255) {
        exponent = exponent < 15 ? 15 : exponent; /* so that both powers are normal numbers */
        powers.factor = float_from_bits((268 - exponent) << 23);
        powers.back = float_from_bits((exponent - 14) << 23);
    }
    return powers;
}

/* A block's outputs and rows: WARPS_N x WARPS_M warps of N x 16 outputs and M x 8 rows each; PLANES of 8 inputs in a
 * stage. */
template <int WARPS_N, int WARPS_M, int N, int M, int PLANES, int STAGES> struct tensor_tile {
    static const uint32_t outputs = WARPS_N * N * 16, rows = WARPS_M * M * 8;
    static const uint32_t n_threads = WARPS_N * WARPS_M * WARP;
    static const int warps_m = WARPS_M, n = N, m = M, n_planes = PLANES, n_stages = STAGES;
    static const int w_each = PLANES * outputs / n_threads, x_each = PLANES * rows / n_threads;
    static_assert(PLANES * outputs % n_threads == 0 && PLANES * rows % n_threads == 0,
                  "all threads fetch alike");
    static_assert(M % 2 == 0 && PLANES % 2 == 0, "ldmatrix takes four matrices at a time");
};

/* EACH pieces of 16 bytes a thread of a stage of `N` neighbours from `first` on, `n` lying beside each other in a plane;
 * zeros behind the last of them and the last inputs. */
template <typename TILE, uint32_t N, int EACH>
__device__ __forceinline__ void fetch_planes(uint4 (*to)[N], const void *from, uint32_t first,
                                             uint32_t n, uint32_t plane, uint32_t n_planes) {
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        uint32_t i = threadIdx.x + j * TILE::n_threads, at = plane + i / N;
        bool there = at < n_planes && first + i % N < n;
        cp_async_16(&to[i / N][i % N],
                    (const uint4 *)from + (there ? (size_t)at * n + first + i % N : 0),
                    there ? 16 : 0);
    }
}

/* Stage `number` of the activations, of shared memory s. There is always one more stage, so that a wait counts them. */
template <typename TILE, typename SHARED>
__device__ __forceinline__ void fetch_x(SHARED &s, const gpu_linear &what, uint32_t number) {
    fetch_planes<TILE, TILE::rows, TILE::x_each>(
        s.x[number % TILE::n_stages], what.ints.q, blockIdx.x * TILE::rows, what.n_rows,
        number * TILE::n_planes, (what.choice.matrix.k_stored + PLANE - 1) / PLANE);
    cp_async_commit();
}

/* The operands of a warp for 16 inputs. */
template <typename TILE> struct tensor_operands {
    uint32_t a[TILE::n][4];
    uint32_t b[TILE::m / 2][4]; /* of 16 rows: two operands */

    /* Those of the activations, from a stage of them. */
    __device__ __forceinline__ void load_x(const uint4 (*x)[TILE::rows], uint32_t step) {
        uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        uint32_t row = warp % TILE::warps_m * TILE::m * 8 + lane / 16 * 8 + lane % 8;
#pragma unroll
        for (uint32_t i = 0; i < TILE::m / 2; i++)
            ldmatrix_x4(b[i], &x[2 * step + lane / 8 % 2][row + i * 16]);
    }
};

template <typename TILE, weight_format FORMAT>
__device__ __forceinline__ void multiply(float acc[TILE::n][TILE::m][4],
                                         const tensor_operands<TILE> &of) {
#pragma unroll
    for (uint32_t j = 0; j < TILE::m; j++)
#pragma unroll
        for (uint32_t i = 0; i < TILE::n; i++)
            if (FORMAT == WEIGHT_F16)
                mma_m16n8k16_f16_f32(acc[i][j], of.a[i], &of.b[j / 2][j % 2 * 2]);
            else
                mma_m16n8k16_bf16_f32(acc[i][j], of.a[i], &of.b[j / 2][j % 2 * 2]);
}

/* Output n of row m; `next` is output n + 1. */
__device__ __forceinline__ void store_one(const gpu_linear &what, uint32_t m, uint32_t n, float y,
                                          float next) {
    const gpu_matrix &w = what.choice.matrix;
    if (m >= what.n_rows || n >= w.n)
        return;
    float *out = what.out + (size_t)m * what.out_stride;
    if (what.epilogue != EPILOGUE_SILU_MUL)
        out[n] = what.epilogue == EPILOGUE_ADD ? out[n] + y : y;
    else if (n % 2 == 0 && n + 1 < w.n)
        out[n / 2] = numbers_silu(y) * next;
}

template <typename TILE>
__device__ __forceinline__ void store_all(const gpu_linear &what,
                                          const float acc[TILE::n][TILE::m][4]) {
    const gpu_matrix &w = what.choice.matrix;
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t n0 = blockIdx.y * TILE::outputs + warp / TILE::warps_m * TILE::n * 16 + lane / 4;
    uint32_t m0 = blockIdx.x * TILE::rows + warp % TILE::warps_m * TILE::m * 8 + lane % 4 * 2;
    float scale[TILE::n][2], bias[TILE::n][2];
#pragma unroll
    for (uint32_t i = 0; i < 2 * TILE::n; i++) {
        uint32_t n = n0 + i * 8;
        scale[i / 2][i % 2] = w.scale && n < w.n ? w.scale[n] : 1.0f;
        bias[i / 2][i % 2] = w.bias && n < w.n ? w.bias[n] : 0.0f;
    }
#pragma unroll
    for (uint32_t j = 0; j < 2 * TILE::m; j++) {
        uint32_t m = m0 + j / 2 * 8 + j % 2;
        float back = m < what.n_rows ? what.ints.scales[m] : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 2 * TILE::n; i++) {
            float y = acc[i / 2][j / 2][i % 2 * 2 + j % 2] * back * scale[i / 2][i % 2] +
                      bias[i / 2][i % 2];
            float next = 0.0f;
            if (what.epilogue == EPILOGUE_SILU_MUL) /* of all lanes */
                next = __shfl_down_sync(FULL_WARP, y, 4);
            store_one(what, m, n0 + i * 8, y, next);
        }
    }
}

#define ENOUGH_BLOCKS 128 /* about the multiprocessors of a large GPU */

} // namespace GPU_NAMESPACE
