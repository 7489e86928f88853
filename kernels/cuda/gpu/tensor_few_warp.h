/* kernels/cuda/gpu/tensor_few_warp.h: what a warp of tensor_few.h computes, and the copies of its weights, their scales and its rows
 * into shared memory. */
#pragma once

#include "kernels/cuda/gpu/tensor_form.h"

namespace GPU_NAMESPACE {

#define FEW_THREADS 256 /* at most */

/* Chunks of a stage, and stages: so many bytes are under way that memory does not wait, in 99 KiB of shared memory. */
template <typename FORM, int R> struct few_stages {
    static const int chunks = FORM::pieces == 1 && R <= 4 ? 2 : 1;
    static const int n = R == 8 && FORM::pieces == 4                             ? 2
                         : FORM::pieces == 4 || FORM::pieces * R == 16 || R == 4 ? 3
                                                                                 : 4;
};

/* Offsets in shared memory: a stage has the weights of all warps, their scales, and rows of activations. */
template <typename FORM, int R> struct few_memory {
    typedef few_stages<FORM, R> stages;
    static const uint32_t warp_bytes = stages::chunks * 2 * FORM::pieces * WARP * 16;
    static const uint32_t row_bytes = stages::chunks * CHUNK_UNITS * 16; /* of activations */
    static const uint32_t scales_bytes =
        stages::chunks * FORM::scale_rows * 16 * (FORM::scale_bytes + FORM::min_bytes);
    uint32_t scales, x, stage_bytes; /* of a stage */
    uint32_t rows_bytes;             /* of a slice's rows */
    uint32_t sums, pairs, n_bytes;   /* behind the stages */

    __host__ __device__ __forceinline__ few_memory(const gpu_tensor_shape &shape, uint32_t n_rows) {
        uint32_t n_warps = shape.warps_n * shape.warps_k;
        rows_bytes = rows_kept(n_rows) * row_bytes;
        scales = n_warps * warp_bytes;
        x = scales + n_warps * scales_bytes;
        stage_bytes = x + shape.warps_k * rows_bytes;
        sums = stages::n * stage_bytes;
        pairs = sums + (shape.warps_k > 1 ? n_warps * R * WARP * 16 : 0);
        n_bytes = pairs + R * 8 * sizeof(uint32_t);
    }
    /* A block of 8 rows keeps no more than there are. */
    __host__ __device__ __forceinline__ static uint32_t rows_kept(uint32_t n_rows) {
        return R > 1 || n_rows > 8 ? R * 8 : n_rows;
    }
};

/* Where a warp and its lane stand: what they compute, and how far their copies have come. */
template <typename FORM, int R, bool GROUPED> struct few_warp {
    typedef few_memory<FORM, R> memory;
    typedef few_stages<FORM, R> stages;
    static const uint32_t chunks = stages::chunks;
    static const uint32_t row_units = chunks * CHUNK_UNITS;     /* of a stage */
    static const uint32_t rows_at_once = WARP / row_units;      /* that a warp copies */
    static const uint32_t n_scales = memory::scales_bytes / 16; /* pieces of a stage's scales */
    static const uint32_t n_turns_s = (n_scales + WARP - 1) / WARP;
    const gpu_tensor &what;
    memory at;
    uint32_t lane, warp, wn, wk, r, t;
    uint32_t n0;           /* the warp's first output; the matrix may end before it */
    gpu_group group;       /* of the block: its rows, where there are no groups */
    const uint32_t *pairs; /* of the group, in shared memory */
    uint32_t slice;        /* the block's first one */
    uint32_t n_slices;     /* of the block */
    uint32_t n_turns;      /* of as many slices as there are warps beside each other in k */
    uint32_t chunk_end;    /* of the block's slices */
    uint32_t plane_end;    /* of the matrix's planes in them */
    uint32_t chunk_bytes;  /* of an output's planes, from chunk to chunk */
    bool has_mins;
    /* in a stage: the lane's own weights, the warp's scales, the slice's rows, the lane's row */
    uint32_t w_at, s_at, x_at, row_at;
    uint32_t jump; /* from a slice's last stage to the warp's next slice, in chunks */
    uint32_t
        x_places[2]; /* of the lane's units in its row of a chunk: of mma 0 and 1, or 2 and 3 */
    /* of the next copy */
    uint32_t chunk;
    uint32_t n_copied;
    const char *w_from;
    const char *x_from;
    uint32_t x_row;  /* of the block: the warp's first one, */
    uint32_t x_to;   /* in a stage's rows, */
    uint32_t x_more; /* and chunks that the lane's unit is behind the stage's first */
    /* of the lane's pieces of scales and minima */
    const char *s_from[n_turns_s > 0 ? n_turns_s : 1];
    uint32_t s_step[n_turns_s > 0 ? n_turns_s : 1]; /* bytes, from number to number */
    uint32_t s_end[n_turns_s > 0 ? n_turns_s : 1];

    /* Waits for the kernels before, where these say what the block computes. */
    __device__ __forceinline__ few_warp(const gpu_tensor &what_, unsigned char *shared)
        : what(what_), at(what_.shape, what_.linear.n_rows) {
        const gpu_tensor_shape &shape = what.shape;
        lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, r = lane / 4, t = lane % 4;
        wn = warp % shape.warps_n, wk = warp / shape.warps_n;
        n0 = (blockIdx.x * shape.warps_n + wn) * 16;
        find_rows(shared);
        const gpu_matrix w = matrix();
        uint32_t n_chunks = count_chunks(w), n_all = count_slices(what.linear.choice.matrix);
        slice = blockIdx.z * shape.slices;
        n_slices = n_all - slice < shape.slices ? n_all - slice : shape.slices;
        n_turns = (n_slices + shape.warps_k - 1) / shape.warps_k;
        chunk_end = (slice + n_slices) * SLICE_CHUNKS;
        chunk_end = chunk_end < n_chunks ? chunk_end : n_chunks;
        uint32_t planes = FORM::ints ? w.k_stored / GROUP * FORM::pieces
                                     : (w.k_stored + PIECE_INPUTS - 1) / PIECE_INPUTS;
        plane_end = chunk_end * 4 * FORM::pieces < planes ? chunk_end * 4 * FORM::pieces : planes;
        plane_end = n0 < w.n_padded ? plane_end : 0;
        chunk_bytes = 4 * FORM::pieces * w.n_padded * 16;
        has_mins = w.mins != NULL;
        /* Rows that are not there are other ones: what comes of them is not stored. */
        uint32_t row = R > 1 || lane % 8 < group.n ? lane % 8 : 0;
        jump = chunks + (shape.warps_k - 1) * SLICE_CHUNKS;
        w_at = warp * memory::warp_bytes + lane * 16;
        s_at = at.scales + warp * memory::scales_bytes;
        x_at = at.x + wk * at.rows_bytes;
        row_at = x_at + row * row_units * 16;
        x_row = wn * rows_at_once + lane / row_units;
        x_to = (x_row * row_units + tensor_swizzle(lane % row_units, x_row)) * 16;
        x_more = lane % row_units / CHUNK_UNITS;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            x_places[i] = tensor_swizzle(4 * i + lane / 8, row) * 16;
        if constexpr (FORM::ints)
            find_scales(w);
        rewind();
        keep(w_at), keep(s_at), keep(x_at), keep(row_at), keep(jump), keep(x_to), keep(x_row),
            keep(x_more), keep(plane_end);
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            keep(x_places[i]);
    }
    /* The rows of the block. */
    __device__ __forceinline__ void find_rows(unsigned char *shared) {
        uint32_t first = blockIdx.y * R * 8, left = what.linear.n_rows - first;
        group = {0, first, left < R * 8 ? left : R * 8};
        if (!GROUPED)
            return;
        griddep_wait();
        group = what.groups.list[blockIdx.y];
        uint32_t *to = (uint32_t *)(shared + at.pairs);
        for (uint32_t i = threadIdx.x; i < group.n; i += blockDim.x)
            to[i] = what.groups.pairs[group.first + i];
        __syncthreads();
        pairs = to;
    }
    __device__ __forceinline__ gpu_matrix matrix() const {
        const gpu_choice &choice = what.linear.choice;
        return GROUPED ? choice.table[group.expert] : choice.matrix;
    }
    /* Row i of the block among the results, and among the rounded rows; UINT32_MAX: there is none. */
    __device__ __forceinline__ uint32_t out_row(uint32_t i) const {
        if (i >= group.n)
            return UINT32_MAX;
        return GROUPED ? pairs[i] : group.first + i;
    }
    __device__ __forceinline__ uint32_t in_row(uint32_t i) const {
        if (i >= group.n)
            return UINT32_MAX;
        return GROUPED ? pairs[i] / what.groups.x_share : group.first + i;
    }
    /* Piece i of a stage's scales is piece i % each of one row of 16 outputs. */
    __device__ __forceinline__ void find_scales(const gpu_matrix &w) {
        const uint32_t each = FORM::scale_bytes + FORM::min_bytes;
#pragma unroll
        for (uint32_t turn = 0; turn < n_turns_s; turn++) {
            uint32_t piece = (turn * WARP + lane) % each;
            bool is_min = piece >= FORM::scale_bytes;
            uint32_t bytes = is_min ? FORM::min_bytes : FORM::scale_bytes;
            s_step[turn] = w.n_padded * bytes;
            s_end[turn] = plane_end > 0 && !(is_min && !w.mins) ? w.n_scales : 0;
            s_from[turn] = (const char *)(is_min ? w.mins : w.scales) + (size_t)n0 * bytes +
                           (is_min ? piece - FORM::scale_bytes : piece) * 16;
            keep(s_step[turn]), keep(s_end[turn]), keep(s_from[turn]);
        }
    }
    /* To the first copies. */
    __device__ __forceinline__ void rewind() {
        const gpu_matrix w = matrix();
        uint32_t plane = FORM::ints ? t * FORM::pieces : lane / 16, n = FORM::ints ? r : lane % 16;
        chunk = (slice + wk) * SLICE_CHUNKS;
        n_copied = 0;
        w_from = (const char *)w.data + (size_t)chunk * chunk_bytes +
                 ((size_t)plane * w.n_padded + n0 + n) * 16;
        x_from = row_from(x_row);
    }
    /* The lane's unit of row i, of the chunk that is copied next. */
    __device__ __forceinline__ const char *row_from(uint32_t i) const {
        size_t n_chunks = count_chunks(what.linear.choice.matrix);
        return (const char *)what.linear.ints.q +
               (((i < group.n ? in_row(i) : 0) * n_chunks + chunk) * CHUNK_UNITS +
                lane % row_units) *
                   16;
    }
    /* To the next stage's copies: of the slice, or the first of the warp's next slice. */
    __device__ __forceinline__ void advance() {
        uint32_t n = ++n_copied % (SLICE_CHUNKS / chunks) == 0 ? jump : chunks;
        chunk += n;
        w_from += (size_t)n * chunk_bytes;
        x_from += n * CHUNK_UNITS * 16;
    }
    /* What the copies of a stage have brought is there for all who read it. */
    __device__ __forceinline__ void sync() const {
        if (what.shape.warps_n > 1)
            __syncthreads();
        else
            __syncwarp();
    }
};

/* The warp's weights of a stage; zeros behind the last inputs. Of integers a lane copies what it multiplies itself: the
 * pieces of output r, then those of r + 8; of floats 16 outputs of a plane lie together. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_fetch_weights(const few_warp<FORM, R, GROUPED> &of,
                                                  unsigned char *shared, uint32_t stage) {
    uint4 *to = (uint4 *)(shared + stage + of.w_at);
    size_t plane_bytes = of.chunk_bytes / (4 * FORM::pieces);
#pragma unroll
    for (uint32_t c = 0; c < of.chunks; c++)
#pragma unroll
        for (uint32_t i = 0; i < 2 * FORM::pieces; i++) {
            uint32_t p = FORM::ints ? i % FORM::pieces : 2 * i;
            uint32_t first = FORM::ints ? FORM::pieces * of.t : of.lane / 16;
            uint32_t plane = 4 * FORM::pieces * (of.chunk + c) + first + p;
            cp_async_16(to + (c * 2 * FORM::pieces + i) * WARP,
                        of.w_from + c * of.chunk_bytes + p * plane_bytes +
                            (FORM::ints ? i / FORM::pieces * 128 : 0),
                        plane < of.plane_end ? 16 : 0);
        }
}

/* Scales and minima of the warp's outputs, 16 bytes a lane and turn; zeros behind the last. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_fetch_scales(const few_warp<FORM, R, GROUPED> &of,
                                                 unsigned char *shared, uint32_t stage,
                                                 uint32_t share) {
    if constexpr (FORM::ints) {
        const uint32_t each = FORM::scale_bytes + FORM::min_bytes; /* pieces of a row */
        uint8_t *to = shared + stage + of.s_at + of.lane * 16;
#pragma unroll
        for (uint32_t turn = 0; turn < of.n_turns_s; turn++) {
            uint32_t i = turn * WARP + of.lane, row = i / each;
            uint32_t number =
                FORM::scale_row(of.chunk + row / FORM::scale_rows, row % FORM::scale_rows, share);
            if (i < of.n_scales)
                cp_async_16(to + turn * WARP * 16,
                            of.s_from[turn] + (size_t)number * of.s_step[turn],
                            number < of.s_end[turn] ? 16 : 0);
        }
    }
}

/* Rows of activations of the warp's slice, shared out among the warps that have it; zeros behind the last. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_fetch_rows(const few_warp<FORM, R, GROUPED> &of,
                                               unsigned char *shared, uint32_t stage) {
    const uint32_t units = of.row_units, step = of.what.shape.warps_n * of.rows_at_once;
    const uint32_t n_kept = few_memory<FORM, R>::rows_kept(of.group.n);
    uint32_t row = of.x_row, n_there = of.chunk + of.x_more < of.chunk_end ? of.group.n : 0;
    unsigned char *to = shared + stage + of.x_at;
    bool has_more = step < n_kept;
    if (row < n_kept)
        cp_async_16(to + of.x_to, of.x_from, row < n_there ? 16 : 0);
    if (__builtin_expect(has_more, R > 1)) {
        size_t step_bytes =
            (size_t)step * count_chunks(of.what.linear.choice.matrix) * CHUNK_UNITS * 16;
        const char *from = of.x_from;
        for (row += step; row < n_kept; row += step) {
            from = GROUPED ? of.row_from(row) : from + step_bytes;
            cp_async_16(to + (row * units + tensor_swizzle(of.lane % units, row)) * 16, from,
                        row < n_there ? 16 : 0);
        }
    }
    cp_async_commit();
}

} // namespace GPU_NAMESPACE
