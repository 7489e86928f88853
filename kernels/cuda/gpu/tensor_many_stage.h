/* kernels/cuda/gpu/tensor_many_stage.h: the stages of tensor_many.h in shared memory, each a chunk of a tile's inputs, and the
 * copies that fill them. */
#pragma once

#include "kernels/cuda/gpu/tensor_form.h"

namespace GPU_NAMESPACE {

#define MANY_OUTPUTS 128 /* of a tile */
#define MANY_THREADS 256 /* that multiply */
#define MANY_COPIERS 128 /* that copy for wgmma, and do nothing else */

template <typename FORM> struct many_scales {
    static const uint32_t block = 16 * (FORM::scale_bytes + FORM::min_bytes);
    static const uint32_t row = MANY_OUTPUTS / 16 * block;
    uint8_t bytes[FORM::scale_rows][row];
};
struct many_nothing {};

/* How tiles of 128 outputs and ROWS rows are multiplied. By mma.sync a warp has 32 outputs and half of the rows, and copies, too.
 * By wgmma it has 16 outputs and all rows; four warps more copy, and what is multiplied while they do may be two chunks old:
 * `lag` is how many chunks a stage is read after it has come. */
template <typename FORM, int ROWS, bool WGMMA> struct many_way {
    typedef FORM form;
    typedef typename std::conditional<FORM::ints, many_scales<FORM>, many_nothing>::type scales;
    static const bool wgmma = WGMMA;
    static const int rows = ROWS;
    static const uint32_t copiers = WGMMA ? MANY_COPIERS : MANY_THREADS;
    static const uint32_t threads = WGMMA ? MANY_THREADS + MANY_COPIERS : MANY_THREADS;
    static const uint32_t stage_bytes =
        (ROWS * CHUNK_UNITS + 4 * FORM::pieces * MANY_OUTPUTS) * 16 +
        FORM::scale_rows * MANY_OUTPUTS * (FORM::scale_bytes + FORM::min_bytes);
    static const uint32_t stages = !WGMMA ? 2 : 4 * stage_bytes <= 224 * 1024 ? 4 : 3;
    static const uint32_t lag = WGMMA ? 2 : 1;
    static const uint32_t ahead = stages - lag;        /* chunks that are under way */
    static const int tiles = WGMMA ? 1 : 2;            /* of 16 outputs, of a warp */
    static const int m = WGMMA ? ROWS / 8 : ROWS / 16; /* tiles of 8 rows, of a warp */
};

/* Of eight lanes that read integers together two have the same group of neighbouring outputs: output n of group t lies at n ^ 2 t.
 * Units of rows lie by halves of a chunk, swizzled, as wgmma takes 64 inputs at a time. */
template <typename WAY> struct many_stages {
    alignas(1024) uint4 x[WAY::stages][2][WAY::rows][8];
    alignas(16) uint4 w[WAY::stages][4 * WAY::form::pieces][MANY_OUTPUTS];
    alignas(16) typename WAY::scales scales[WAY::stages];
    /* among the rounded rows, and among the results; UINT32_MAX: there is none */
    uint32_t in_rows[WAY::rows], out_rows[WAY::rows];
};

/* The block's rows: of a group, or those of its place. Answers the matrix. */
template <typename WAY>
__device__ __forceinline__ gpu_matrix many_find_rows(many_stages<WAY> &s, const gpu_tensor &what) {
    const gpu_groups &groups = what.groups;
    gpu_group group = {0, blockIdx.x * WAY::rows, WAY::rows};
    if (groups.list)
        group = groups.list[blockIdx.x];
    for (uint32_t i = threadIdx.x; i < WAY::rows; i += WAY::threads) {
        uint32_t row = UINT32_MAX;
        if (i < group.n && groups.list)
            row = groups.pairs[group.first + i];
        else if (i < group.n && group.first + i < what.linear.n_rows)
            row = group.first + i;
        s.out_rows[i] = row;
        s.in_rows[i] = groups.list && row != UINT32_MAX ? row / groups.x_share : row;
    }
    __syncthreads();
    return groups.list ? what.linear.choice.table[group.expert] : what.linear.choice.matrix;
}

/* A thread that copies: number `thread` of WAY::copiers. Each chunk is one group of its copies. */
template <typename WAY> struct many_copier {
    typedef typename WAY::form FORM;
    static const uint32_t rows_at_once = WAY::copiers / CHUNK_UNITS;
    static const uint32_t each = WAY::rows / rows_at_once; /* units of a chunk */
    many_stages<WAY> &s;
    const gpu_matrix &w;
    const uint4 *x;
    uint32_t share, thread, n_chunks;
    uint32_t from
        [each]; /* where its rows begin among the rounded ones, in units; UINT32_MAX: there is none */

    __device__ __forceinline__ many_copier(many_stages<WAY> &s_, const gpu_matrix &w_,
                                           const gpu_tensor &what, uint32_t share_)
        : s(s_), w(w_), x((const uint4 *)what.linear.ints.q), share(share_),
          thread(threadIdx.x % WAY::copiers), n_chunks(count_chunks(what.linear.choice.matrix)) {
#pragma unroll
        for (uint32_t j = 0; j < each; j++) {
            uint32_t row = s.in_rows[thread / CHUNK_UNITS + j * rows_at_once];
            from[j] = row == UINT32_MAX ? UINT32_MAX : row * n_chunks * CHUNK_UNITS;
        }
    }
    /* Zeros behind the last inputs and outputs. */
    __device__ __forceinline__ void fetch_weights(uint32_t chunk) const {
        const uint32_t n_planes = FORM::ints ? w.k_stored / GROUP * FORM::pieces
                                             : (w.k_stored + PIECE_INPUTS - 1) / PIECE_INPUTS;
        uint32_t n0 = blockIdx.y * MANY_OUTPUTS, n = thread % MANY_OUTPUTS;
#pragma unroll
        for (uint32_t j = 0; j < 4 * FORM::pieces * MANY_OUTPUTS / WAY::copiers; j++) {
            uint32_t q = thread / MANY_OUTPUTS + j * (WAY::copiers / MANY_OUTPUTS);
            uint32_t plane = 4 * FORM::pieces * chunk + q;
            bool there = n0 + n < w.n_padded && plane < n_planes;
            cp_async_16(&s.w[chunk % WAY::stages][q][FORM::ints ? n ^ 2 * (q / FORM::pieces) : n],
                        (const uint4 *)w.data + (there ? (size_t)plane * w.n_padded + n0 + n : 0),
                        there ? 16 : 0);
        }
        if constexpr (FORM::ints)
            fetch_scales(chunk);
    }
    /* Scales and minima of 16 outputs beside each other; zeros behind the last. */
    __device__ __forceinline__ void fetch_scales(uint32_t chunk) const {
        const uint32_t row_pieces = many_scales<FORM>::row / 16;
        const uint32_t pieces = many_scales<FORM>::block / 16; /* of 16 outputs */
        for (uint32_t i = thread; i < FORM::scale_rows * row_pieces; i += WAY::copiers) {
            uint32_t piece = i % pieces, number = FORM::scale_row(chunk, i / row_pieces, share);
            uint32_t output = blockIdx.y * MANY_OUTPUTS + i % row_pieces / pieces * 16;
            bool is_min = piece >= FORM::scale_bytes;
            bool there = output < w.n_padded && number < w.n_scales && !(is_min && !w.mins);
            size_t at = (size_t)number * w.n_padded + output;
            const char *p = is_min ? (const char *)w.mins + at * FORM::min_bytes +
                                         (piece - FORM::scale_bytes) * 16
                                   : (const char *)w.scales + at * FORM::scale_bytes + piece * 16;
            cp_async_16((char *)s.scales[chunk % WAY::stages].bytes + i * 16,
                        there ? p : (const char *)w.data, there ? 16 : 0);
        }
    }
    /* And the end of the chunk's group of copies. */
    __device__ __forceinline__ void fetch_rows(uint32_t chunk) const {
        uint32_t unit = thread % CHUNK_UNITS;
#pragma unroll
        for (uint32_t j = 0; j < each; j++) {
            uint32_t row = thread / CHUNK_UNITS + j * rows_at_once;
            bool there = from[j] != UINT32_MAX && chunk < n_chunks;
            cp_async_16(&s.x[chunk % WAY::stages][unit / 8][row][tensor_swizzle(unit % 8, row)],
                        there ? x + from[j] + chunk * CHUNK_UNITS + unit : x, there ? 16 : 0);
        }
        cp_async_commit();
    }
    /* The first chunks; of their rows once the kernels before have ended. */
    __device__ __forceinline__ void begin() const {
#pragma unroll
        for (uint32_t chunk = 0; chunk < WAY::ahead; chunk++)
            fetch_weights(chunk);
        griddep_wait();
#pragma unroll
        for (uint32_t chunk = 0; chunk < WAY::ahead; chunk++)
            fetch_rows(chunk);
    }
    /* Until this thread's copies of the next chunk have come, which others read after a barrier. */
    __device__ __forceinline__ void await() const {
        cp_async_wait<WAY::ahead - 1>();
        if (WAY::wgmma)
            wgmma_publish();
    }
    /* While `chunk` is multiplied: into the stage that no warp reads any more. */
    __device__ __forceinline__ void fetch_behind(uint32_t chunk) const {
        fetch_weights(chunk + WAY::ahead);
        fetch_rows(chunk + WAY::ahead);
    }
};

} // namespace GPU_NAMESPACE
