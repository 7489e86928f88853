/* kernels/cuda/gpu/ints_tiles_stage.h: what the tiles of ints_tiles.cu hold in shared memory, and how it comes there: stages
 * of integers, and scales, minima and sums, as they lie and as the lanes want them. Included by
 * ints_tiles.cu alone. */
#pragma once

#include "kernels/cuda/gpu/ints.h"

namespace GPU_NAMESPACE {

#define STEP   4u /* groups of a stage */
#define CHUNKS (STEP * GROUP / 16)

/* How the matrix is stored: 4 or 8 bits; scales of each half of a group; minima; whether all groups of a stage
 * have the same scales. */
template <bool FOUR_, bool HALVES_, bool MINS_, bool SAME_> struct ints_form {
    static const bool four = FOUR_, halves = HALVES_, mins = MINS_, same = SAME_;
    static const uint32_t planes = FOUR_ ? 1 : 2;
    static const uint32_t scales = SAME_ ? 1 : STEP; /* of a stage, for each output */
    static const uint32_t stored = HALVES_ ? 2 * STEP : scales;
};

/* A block's outputs: warps of 16 * BLOCKS rows and 8 * ACROSS columns, M of them below N beside each other; as many
 * blocks on a multiprocessor as leave a thread REGISTERS. */
template <uint32_t M, uint32_t N, uint32_t BLOCKS, uint32_t ACROSS, uint32_t REGISTERS>
struct ints_tile {
    static const uint32_t warps_n = N, blocks = BLOCKS, warp_rows = 16 * BLOCKS;
    static const uint32_t across = ACROSS, warp_columns = 8 * ACROSS;
    static const uint32_t threads = M * N * WARP, rows = M * 16 * BLOCKS, columns = N * 8 * ACROSS;
    static const uint32_t resident = 65536 / REGISTERS / threads;
};

/* A stage as the lanes want it. */
template <typename FORM, typename TILE> struct ints_stage {
    /* Chunk c of a row's 16 bytes lies at c ^ row / 2 % 8: eight rows that ldmatrix takes, two apart, are in
     * different banks. */
    alignas(128) int8_t x[TILE::rows][CHUNKS * 16];
    alignas(16) uint32_t w[STEP * FORM::planes][TILE::columns * 4];
    /* Of two neighbours: their scales, then their minima or the scales of the second half. */
    alignas(16) float scales[FORM::scales][TILE::columns / 2][4];
    alignas(16) float x_scales[STEP][TILE::rows / 2][4]; /* scales, sums */
};

/* What goes with a stage's integers as it lies: numbers of up to float32; of activations, scales and then sums. */
template <typename FORM, typename TILE> struct ints_raw {
    alignas(16) uint8_t scales[FORM::stored][TILE::columns * 4];
    alignas(16) uint8_t mins[FORM::stored][TILE::columns * 4];
    alignas(16) float x[2][TILE::rows][STEP];
};

template <typename FORM, typename TILE> struct ints_shared {
    ints_stage<FORM, TILE> stages[2];
    ints_raw<FORM, TILE> raw[2];
};

/* Numbers of the launch. */
struct ints_counts {
    uint32_t n_rows; /* of integers */
    uint32_t share;  /* ceil(2^31 / groups_per_scale): a division becomes a product */
};

/* What a block copies from where. Behind the last row and column the last is copied again: it makes results that
 * no thread stores. Within a tile and a stage offsets have 32 bits. */
template <typename FORM, typename TILE> struct ints_source {
    typedef ints_stage<FORM, TILE> stage;
    typedef ints_raw<FORM, TILE> raw;
    const gpu_matrix &w;
    const gpu_ints &ints;
    const ints_counts counts;
    uint32_t n_groups;
    uint32_t m; /* the tile's first row and column */
    uint32_t n;
    const int8_t *next_x; /* what this thread copies first of the next stage's integers */
    const uint4 *next_w;
    uint32_t last_x; /* behind next_x: the last row */

    __device__ __forceinline__ void begin_copies() {
        uint32_t row = inside(threadIdx.x / CHUNKS);
        uint32_t column = min(threadIdx.x % TILE::columns, w.n_padded - 1 - n);
        next_x = ints.q + (size_t)(m + row) * ints.n_groups * GROUP + threadIdx.x % CHUNKS * 16;
        next_w =
            (const uint4 *)w.data + (size_t)(threadIdx.x / TILE::columns) * w.n_padded + n + column;
        last_x = (counts.n_rows - 1 - m - row) * ints.n_groups * GROUP;
    }

    __device__ __forceinline__ uint32_t inside(uint32_t row) const {
        return min(row, counts.n_rows - 1 - m);
    }

    /* Which scale group g has. */
    __device__ __forceinline__ uint32_t scale_of(uint32_t g) const {
        return FORM::halves ? 2 * g : (uint32_t)((uint64_t)g * counts.share >> 31);
    }

    /* The integers of groups from `begin` on. */
    __device__ __forceinline__ void copy_ints(stage &to, uint32_t begin) {
        uint32_t chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS;
        int8_t *to_x = &to.x[first][(chunk ^ first / 2 % 8) * 16];
#pragma unroll
        for (uint32_t row = 0; row < TILE::rows; row += TILE::threads / CHUNKS)
            cp_async_16(to_x + row * CHUNKS * 16,
                        next_x + min(row * ints.n_groups * GROUP, last_x));
        uint32_t column = threadIdx.x % TILE::columns, plane = threadIdx.x / TILE::columns;
#pragma unroll
        for (uint32_t i = 0; i < STEP * FORM::planes; i += TILE::threads / TILE::columns)
            if (begin + (i + plane) / FORM::planes < n_groups)
                cp_async_16(&to.w[i + plane][column * 4], next_w + i * w.n_padded);
        next_x += STEP * GROUP;
        next_w += STEP * FORM::planes * w.n_padded;
    }

    /* As they lie, 16 bytes at a time: scales of activations and of the matrix, then sums and minima, each by as many
     * threads as the tile has rows. */
    __device__ __forceinline__ void copy_scales(raw &to, uint32_t begin) const {
#pragma unroll
        for (uint32_t i = 0; i < 2 * TILE::rows; i += TILE::threads) {
            uint32_t thread = (i + threadIdx.x) % TILE::rows;
            bool second = (i + threadIdx.x) / TILE::rows > 0;
            const float *x = (second ? ints.sums : ints.scales) + (size_t)m * ints.n_groups + begin;
            cp_async_16(to.x[second][thread], x + inside(thread) * ints.n_groups);
            uint32_t width = w.wide ? 2 : 1;
            if (!second)
                copy_numbers(to.scales, w.scales, width, begin, thread);
            else if (FORM::mins)
                copy_numbers(to.mins, w.mins, w.zeros ? 0 : width, begin, thread);
        }
    }

    /* What belongs to groups from `begin` on, of numbers of 1 << width bytes. */
    __device__ __forceinline__ void copy_numbers(uint8_t (*to)[TILE::columns * 4], const void *from,
                                                 uint32_t width, uint32_t begin,
                                                 uint32_t thread) const {
        const uint32_t quads = TILE::columns / 16; /* pieces of a row whose numbers have a byte */
        for (uint32_t i = thread; i < FORM::stored * quads << width; i += TILE::rows) {
            uint32_t row = (i >> width) / quads, column = (i << (4 - width)) % TILE::columns;
            uint32_t first = scale_of(begin);
            bool there = row == 0 || first + row <= scale_of(n_groups - 1) + FORM::halves;
            if (there && n + column < w.n_padded)
                cp_async_16(to[row] + (column << width),
                            (const uint8_t *)from +
                                (((size_t)(first + row) * w.n_padded + n + column) << width));
            if (FORM::same)
                break;
        }
    }

    /* What was copied, as the lanes want it. */
    __device__ __forceinline__ void prepare(stage &to, const raw &from, uint32_t begin) const {
#pragma unroll
        for (uint32_t i = 0; i < 2 * TILE::rows; i += TILE::threads) {
            uint32_t row = (i + threadIdx.x) % TILE::rows, kind = (i + threadIdx.x) / TILE::rows;
            float4 x = *(const float4 *)from.x[kind][row];
            float *at = &to.x_scales[0][row / 2][kind * 2 + row % 2];
            at[0] = x.x;
            at[TILE::rows * 2] = x.y;
            at[TILE::rows * 4] = x.z;
            at[TILE::rows * 6] = x.w;
        }
#pragma unroll
        for (uint32_t i = 0; i < TILE::columns * FORM::scales; i += TILE::threads) {
            uint32_t column = (i + threadIdx.x) % TILE::columns;
            uint32_t part = (i + threadIdx.x) / TILE::columns;
            uint32_t row = FORM::same ? 0 : scale_of(begin + part) - scale_of(begin);
            if (part < FORM::scales && begin + part < n_groups)
                prepare_scale(&to.scales[part][column / 2][column % 2], from, row, column);
        }
    }

    __device__ __forceinline__ void prepare_scale(float *to, const raw &from, uint32_t row,
                                                  uint32_t column) const {
        float scale = load_scale(from.scales[row], column, w.wide);
        to[0] = scale;
        if (FORM::halves)
            to[2] = load_scale(from.scales[row + 1], column, w.wide);
        if (FORM::mins)
            to[2] = w.zeros ? zero_min(scale, w.zero_base, from.mins[row][column])
                            : load_scale(from.mins[row], column, w.wide);
    }
};

} // namespace GPU_NAMESPACE
