/* kernels/cuda/gpu/ints_mid_stage.h: what the blocks of ints_mid.cu share, in stages of shared memory: where things lie
 * there, and the warps that copy them. Included by ints_mid.cu alone. */
#pragma once

#include "kernels/cuda/gpu/ints.h"

namespace GPU_NAMESPACE {

#define MID_TILE   16 /* outputs */
#define MID_BLOCK  8  /* rows */
#define MID_GROUPS 8  /* of a stage */
#define MID_STAGES 4

/* Bytes of a row of a stage: so that neighbouring rows lie in different banks. */
#define MID_X_BYTES      (MID_GROUPS * GROUP + 16)
#define MID_SCALES_BYTES (MID_GROUPS * 4 + 16)

struct mid_shape {
    uint32_t warps;     /* of a block of threads that multiply; those behind them copy */
    uint32_t tiles;     /* of outputs, of a block of threads */
    uint32_t rows;      /* rows of integers of a block of threads */
    uint32_t slot_bits; /* a stage has room for 1 << slot_bits scales of an output */
    uint32_t n_scales;  /* of an output, in all */
};

/* Where things lie in a stage, in bytes. */
template <typename FORM> struct mid_layout {
    uint32_t x, x_scales, x_sums, scales, mins, end;

    __host__ __device__ explicit mid_layout(const mid_shape &shape) {
        uint32_t slots = (shape.tiles << shape.slot_bits) * MID_TILE;
        const uint32_t scale_bytes = sizeof(typename FORM::scale);
        const uint32_t min_bytes = FORM::halves ? 0 : sizeof(typename FORM::min);
        x = shape.tiles * MID_GROUPS * FORM::planes * MID_TILE * 16;
        x_scales = x + shape.rows * MID_X_BYTES;
        x_sums = x_scales + shape.rows * MID_SCALES_BYTES;
        scales = x_sums + shape.rows * MID_SCALES_BYTES;
        mins = scales + slots * scale_bytes;
        end = mins + slots * min_bytes;
    }
};

struct mid_shared {
    alignas(128) unsigned char bytes[128]; /* the first of MID_STAGES stages */
};

/* Groups of scales, counted without divisions: the scale that a stage begins with, and how many of its
 * groups came before. */
struct mid_walk {
    uint32_t share, whole, rest; /* groups per scale; scales of a stage, and groups beyond them */
    uint32_t scale, before;

    __device__ __forceinline__ explicit mid_walk(uint32_t groups_per_scale)
        : share(groups_per_scale), whole(MID_GROUPS / groups_per_scale),
          rest(MID_GROUPS % groups_per_scale), scale(0), before(0) {
    }
    __device__ __forceinline__ void go() {
        scale += whole;
        before += rest;
        if (before >= share) {
            before -= share;
            scale++;
        }
    }
};

/* What a thread of the warps that copy brings into stages: pointers that go from stage to stage, so that a copy costs
 * little more than itself. Outputs and rows that are not there, and groups behind the last one, are left
 * as they are in shared memory. */
template <typename FORM> struct mid_copies {
    uint32_t i, n_threads;       /* of the threads that copy */
    uint32_t n_groups;           /* left, from the next stage on */
    uint32_t begin;              /* the next stage's first */
    uint32_t n, n_tiles, n_rows; /* of the block: first output, tiles and rows that are there */
    const uint4
        *w_from; /* the thread's place in one of two lines, a line being a group or a plane */
    const int8_t *x_from;                 /* its 16 bytes of a stage, of every so many rows */
    const float *scales_from, *sums_from; /* four groups of every so many rows */
    mid_walk walk;

    __device__ __forceinline__ mid_copies(const gpu_linear &what, uint32_t i_, uint32_t n_threads_,
                                          uint32_t first_n, uint32_t tiles, uint32_t first_row,
                                          uint32_t rows)
        : i(i_), n_threads(n_threads_), begin(0), n(first_n), n_tiles(tiles), n_rows(rows),
          walk(FORM::halves ? 1 : what.choice.matrix.groups_per_scale) {
        const gpu_matrix &w = what.choice.matrix;
        const gpu_ints &ints = what.ints;
        const uint32_t parts = MID_GROUPS * 2, quads = MID_GROUPS / 4;
        uint32_t place = i % MID_TILE, line = i / MID_TILE % 2;
        n_groups = w.k_stored / GROUP;
        w_from =
            (const uint4 *)w.data + (size_t)line * w.n_padded + first_n + place % 8 * 2 + place / 8;
        x_from = ints.q + (size_t)(first_row + i / parts) * ints.n_groups * GROUP + i % parts * 16;
        size_t at = (size_t)(first_row + i / quads) * ints.n_groups + i % quads * 4;
        scales_from = ints.scales + at;
        sums_from = ints.sums + at;
    }

    /* The next stage; there is always one more to wait for, so that a wait counts them. */
    __device__ __forceinline__ void fetch(unsigned char *to, const gpu_linear &what,
                                          const mid_shape &shape, const mid_layout<FORM> &at) {
        if (n_groups > 0) {
            const gpu_matrix &w = what.choice.matrix;
            uint32_t here = n_groups < MID_GROUPS ? n_groups : MID_GROUPS;
            fetch_w(to, here, w.n_padded);
            fetch_x(to + at.x, here, what.ints.n_groups * GROUP);
            fetch_x_scales(to + at.x_scales, here, shape, what.ints.n_groups);
            fetch_scales(to + at.scales, i, (const typename FORM::scale *)w.scales, w, shape);
            if (FORM::four || (!FORM::halves && w.mins))
                fetch_scales(to + at.mins, n_threads - 1 - i, (const typename FORM::min *)w.mins, w,
                             shape);
            n_groups -= here;
            begin += MID_GROUPS;
            walk.go();
        }
        cp_async_commit();
    }

    /* A warp copies two lines of a tile at once. */
    __device__ __forceinline__ void fetch_w(unsigned char *to, uint32_t here, uint32_t n_padded) {
        const uint32_t lines = MID_GROUPS * FORM::planes;
        to += i % WARP * 16;
        for (uint32_t tile = i / WARP; tile < n_tiles; tile += n_threads / WARP) {
            const uint4 *from = w_from + tile * MID_TILE;
#pragma unroll
            for (uint32_t line = 0; line < lines; line += 2) {
                if (line + i / MID_TILE % 2 < here * FORM::planes)
                    cp_async_16(to + (tile * lines + line) * MID_TILE * 16, from);
                from += 2 * n_padded;
            }
        }
        w_from += (size_t)lines * n_padded;
    }

    __device__ __forceinline__ void fetch_x(unsigned char *to, uint32_t here, uint32_t bytes) {
        const uint32_t parts = MID_GROUPS * 2;
        const int8_t *from = x_from;
        uint32_t step = n_threads / parts;
        to += i / parts * MID_X_BYTES + i % parts * 16;
        if (i % parts < 2 * here)
#pragma unroll 4
            for (uint32_t row = i / parts; row < n_rows; row += step) {
                cp_async_16(to, from);
                to += step * MID_X_BYTES;
                from += step * bytes;
            }
        x_from += MID_GROUPS * GROUP;
    }

    /* Rows of activations end at a multiple of four groups. */
    __device__ __forceinline__ void fetch_x_scales(unsigned char *to, uint32_t here,
                                                   const mid_shape &shape, uint32_t stride) {
        const uint32_t quads = MID_GROUPS / 4, sums = shape.rows * MID_SCALES_BYTES;
        uint32_t from = 0, step = n_threads / quads;
        to += i / quads * MID_SCALES_BYTES + i % quads * 16;
        if (i % quads * 4 < here)
            for (uint32_t row = i / quads; row < n_rows; row += step) {
                cp_async_16(to, scales_from + from);
                cp_async_16(to + sums, sums_from + from);
                to += step * MID_SCALES_BYTES;
                from += step * stride;
            }
        scales_from += MID_GROUPS;
        sums_from += MID_GROUPS;
    }

    template <typename T>
    __device__ __forceinline__ void fetch_scales(unsigned char *to, uint32_t at, const T *from,
                                                 const gpu_matrix &w,
                                                 const mid_shape &shape) const {
        const uint32_t each = 16 / sizeof(T), pieces = MID_TILE / each;
        uint32_t total = (n_tiles << shape.slot_bits) * pieces;
        uint32_t first = FORM::halves ? 2 * begin : walk.scale;
        for (; at < total; at += n_threads) {
            uint32_t piece = at % pieces, slot = at / pieces & ((1u << shape.slot_bits) - 1);
            uint32_t column = n + (at / pieces >> shape.slot_bits) * MID_TILE + piece * each;
            if (first + slot < shape.n_scales)
                cp_async_16(to + at * 16, from + (size_t)(first + slot) * w.n_padded + column);
        }
    }
};

} // namespace GPU_NAMESPACE
