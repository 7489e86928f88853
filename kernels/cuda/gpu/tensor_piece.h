/* kernels/cuda/gpu/tensor_piece.h: pieces of a row of activations, rounded, for the kernels that make them (tensor.h). */
#pragma once

#include "kernels/cuda/gpu/tensor_form.h"

namespace GPU_NAMESPACE {

/* Eight inputs of a row: of floats a unit of it; of integers what lane t multiplies in mma 2 w and 2 w + 1 of a chunk, a word
 * of each of four units. */
struct row_piece {
    float x[PIECE_INPUTS];

    __device__ __forceinline__ uint32_t max_bits() const {
        uint32_t bits = 0;
#pragma unroll
        for (int e = 0; e < PIECE_INPUTS; e++) {
            uint32_t own = float_bits(x[e]) & 0x7fffffffu;
            bits = own > bits ? own : bits;
        }
        return bits;
    }
    template <weight_format FORMAT> __device__ __forceinline__ uint4 rounded(float factor) const {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            words[i] = FORMAT == WEIGHT_BF16
                           ? float_to_bf16(x[2 * i]) | (uint32_t)float_to_bf16(x[2 * i + 1]) << 16
                           : half2_of(x[2 * i] * factor, x[2 * i + 1] * factor);
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
};

/* The largest of a warp's. */
__device__ __forceinline__ uint32_t warp_max(uint32_t bits) {
#pragma unroll
    for (int width = 16; width > 0; width /= 2) {
        uint32_t other = __shfl_xor_sync(FULL_WARP, bits, width);
        bits = other > bits ? other : bits;
    }
    return bits;
}

/* Which input is number e of piece number `piece` of a row, counted over all chunks; k_stored or more: none. Of integers piece
 * 4 w + t of a chunk is lane t's of mma 2 w and 2 w + 1. */
template <bool INTS> __device__ __forceinline__ uint32_t piece_input(uint32_t piece, uint32_t e) {
    typedef form_ints<ints_stored<true, false, uint16_t, uint8_t>, true> any_ints;
    if (!INTS)
        return piece * PIECE_INPUTS + e;
    return piece / CHUNK_UNITS * TENSOR_CHUNK +
           any_ints::input(piece % 4, piece % CHUNK_UNITS / 4, e);
}
/* Numbers 0 to 3 of a piece, or 4 to 7, are four neighbouring inputs: number e of them is this one. */
template <bool INTS> __device__ __forceinline__ constexpr int neighbour(int e) {
    return INTS ? e % 2 * 2 + e / 2 : e; /* of integers the even ones come first */
}
/* A piece goes to its place in a rounded row. */
template <bool INTS>
__device__ __forceinline__ void store_piece(uint4 *row, uint32_t piece, const uint4 &rounded) {
    if (!INTS) {
        row[piece] = rounded;
        return;
    }
    uint32_t *to = (uint32_t *)(row + piece / 4 * 4) + piece % 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i * 4] = word_of(rounded, i);
}

/* The input of a row that stored input i of a matrix is; WEIGHT_NO_INPUT: none. */
__device__ __forceinline__ uint32_t input_of(const gpu_matrix &w, uint32_t i) {
    if (w.order)
        return i < w.k_stored ? w.order[i] : WEIGHT_NO_INPUT;
    return i < w.k ? i : WEIGHT_NO_INPUT;
}

#define SLICE_THREADS                                                                              \
    (TENSOR_SLICE / PIECE_INPUTS) /* of a block that has a slice of a row: a piece each */
#define SLICE_WARPS (SLICE_THREADS / WARP)

struct slice_shared {
    uint32_t max_bits[SLICE_WARPS];
};

/* The block's slice, number blockIdx.y of row blockIdx.x, goes to its place, rounded. The block calls. */
template <typename ROUNDING>
__device__ __forceinline__ void store_slice(slice_shared &s, const gpu_ints &to,
                                            const gpu_matrix &w, const row_piece &x) {
    uint32_t piece = blockIdx.y * SLICE_THREADS + threadIdx.x;
    uint32_t n_pieces = count_chunks(w) * CHUNK_UNITS;
    slice_powers powers = {1.0f, 1.0f};
    if (ROUNDING::format == WEIGHT_F16) {
        uint32_t bits = warp_max(x.max_bits());
        if (threadIdx.x % WARP == 0)
            s.max_bits[threadIdx.x / WARP] = bits;
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < SLICE_WARPS; i++)
            bits = s.max_bits[i] > bits ? s.max_bits[i] : bits;
        powers = powers_of(bits);
    }
    if (piece < n_pieces)
        store_piece<ROUNDING::ints>((uint4 *)to.q + (size_t)blockIdx.x * n_pieces, piece,
                                    x.template rounded<ROUNDING::format>(powers.factor));
    if (threadIdx.x == 0)
        to.scales[(size_t)blockIdx.x * gridDim.y + blockIdx.y] = powers.back;
}

/* A kernel by the type of a matrix's operands: with(format, whether it is of integers). */
template <weight_format FORMAT, bool INTS> struct rounding {
    static const weight_format format = FORMAT;
    static const bool ints = INTS;
};
template <typename WITH> static inline void with_rounding(const gpu_matrix &w, const WITH &with) {
    if (w.format == WEIGHT_F16)
        with(rounding<WEIGHT_F16, false>());
    else if (w.format == WEIGHT_BF16)
        with(rounding<WEIGHT_BF16, false>());
    else
        with(rounding<WEIGHT_F16, true>());
}

} // namespace GPU_NAMESPACE
