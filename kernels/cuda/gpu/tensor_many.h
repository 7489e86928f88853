/* kernels/cuda/gpu/tensor_many.h: products on tensor cores of many rows: tiles of 128 outputs and ROWS rows, a stage a chunk of the
 * inputs. A warp makes the operands of its outputs once for all of its rows. The order is that of tensor.h, with the sums of
 * slices beside the running one.
 *
 * By mma.sync each of eight warps copies a share of the next stage and multiplies 32 outputs by half of the rows. By wgmma
 * they multiply 16 outputs each by all rows, which lie in shared memory alone, and leave the copies to four warps more, whose
 * registers they take over. */
#pragma once

#include "kernels/cuda/gpu/tensor_many_stage.h"

namespace GPU_NAMESPACE {

/* What a warp computes: outputs from `output` of the tile on, rows from `row` on. */
template <typename WAY> struct many_warp {
    static const int tiles = WAY::tiles, m = WAY::m;
    uint32_t r, t, output, row;

    __device__ __forceinline__ many_warp() {
        uint32_t warp = threadIdx.x / WARP;
        r = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
        output = (WAY::wgmma ? warp : warp % 4) * tiles * 16;
        row = WAY::wgmma ? 0 : warp / 4 * (WAY::rows / 2);
    }
};

/* Sums of a warp's outputs by its rows, as the accumulators of an instruction lie. */
template <typename WAY> struct many_sums { float x[WAY::tiles][WAY::m][4]; };

/* What a lane multiplies of a stage. */
template <typename WAY> struct many_operands {
    typedef typename WAY::form FORM;
    uint4 w[WAY::tiles][2][FORM::ints ? FORM::pieces : 1];
    typename form_lane<FORM>::type lane[WAY::tiles];
    const uint4 *from;

    __device__ __forceinline__ many_operands(const many_warp<WAY> &of, const many_stages<WAY> &s,
                                             uint32_t stage, bool has_mins) {
        from = &s.w[stage][threadIdx.x % WARP / 16][of.output + threadIdx.x % 16];
        if constexpr (FORM::ints)
#pragma unroll
            for (int i = 0; i < WAY::tiles; i++) {
#pragma unroll
                for (int j = 0; j < 2 * FORM::pieces; j++)
                    w[i][j / FORM::pieces][j % FORM::pieces] =
                        s.w[stage][of.t * FORM::pieces + j % FORM::pieces]
                           [(of.output + i * 16 + j / FORM::pieces * 8 + of.r) ^ 2 * of.t];
                lane[i].load(s.scales[stage].bytes[0] +
                                 (of.output / 16 + i) * many_scales<FORM>::block,
                             many_scales<FORM>::row, of.t, of.r, has_mins);
            }
    }
    /* Of tile i and mma 2 word + h. */
    __device__ __forceinline__ void make(uint32_t a[4], int i, int word, int h) const {
        if constexpr (FORM::ints)
            lane[i].operand(a, w[i], word, h);
        else
            ldmatrix_x4(a, from + (2 * word + h) * 2 * MANY_OUTPUTS + i * 16);
    }
};

/* A stage's part of the warp's chains, by mma.sync. */
template <typename WAY>
__device__ __forceinline__ void many_multiply(many_sums<WAY> &acc, const many_warp<WAY> &of,
                                              const many_stages<WAY> &s, uint32_t stage,
                                              bool has_mins) {
    const many_operands<WAY> operands(of, s, stage, has_mins);
    const uint4 *x[2]; /* of mma 0 and 1, or 2 and 3, of four */
    const uint32_t lane = threadIdx.x % WARP;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
        x[i] = &s.x[stage][0][of.row + lane % 8][tensor_swizzle(4 * i + lane / 8, lane)];
#pragma unroll
    for (int word = 0; word < 4; word++) {
        uint32_t a[WAY::tiles][2][4];
#pragma unroll
        for (int i = 0; i < 2 * WAY::tiles; i++)
            operands.make(a[i / 2][i % 2], i / 2, word, i % 2);
#pragma unroll
        for (int j = 0; j < WAY::m; j++) {
            uint32_t b[4];
            ldmatrix_x4(b, x[word % 2] + (word / 2 * WAY::rows + j * 8) * 8);
#pragma unroll
            for (int i = 0; i < 2 * WAY::tiles; i++)
                mma_16<WAY::form::format>(acc.x[i / 2][j], a[i / 2][i % 2], b + i % 2 * 2);
        }
    }
}

/* The same by wgmma. Products go on behind it, with the last operands: until they are waited for. */
template <typename WAY> struct many_flow {
    typedef typename WAY::form FORM;
    static const bool bf16 = FORM::format == WEIGHT_BF16;
    uint32_t a[2][4]; /* of two products that are under way, where A is made in registers */

    __device__ __forceinline__ void multiply(many_sums<WAY> &acc, const many_warp<WAY> &of,
                                             const many_stages<WAY> &s, uint32_t stage,
                                             bool has_mins) {
        float(&d)[WAY::rows / 2] = *(float(*)[WAY::rows / 2]) & acc.x[0][0][0];
        if constexpr (FORM::ints) {
            const many_operands<WAY> operands(of, s, stage, has_mins);
#pragma unroll
            for (int i = 0; i < CHUNK_MMA; i++) {
                wgmma_wait<1>(); /* no lane reads a[i % 2] any more */
                operands.make(a[i % 2], 0, i / 2, i % 2);
                wgmma_fence();
                wgmma_a<WAY::rows, bf16>(d, a[i % 2],
                                         wgmma_swizzled(&s.x[stage][i / 4][0][i % 4 * 2]));
                wgmma_commit();
            }
        } else {
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < CHUNK_MMA; i++)
                wgmma_ab<WAY::rows, bf16>(
                    d, wgmma_plain(&s.w[stage][2 * i][of.output / 64 * 64], MANY_OUTPUTS * 16),
                    wgmma_swizzled(&s.x[stage][i / 4][0][i % 4 * 2]));
            wgmma_commit();
            wgmma_wait<1>(); /* no warp reads the stage before any more */
        }
    }
};

/* Adds slice `slice` to the sums, and begins the next one. */
template <typename WAY>
__device__ __forceinline__ void
many_add(many_sums<WAY> &sum, many_sums<WAY> &acc, const many_warp<WAY> &of, const gpu_linear &what,
         const many_stages<WAY> &s, uint32_t slice, uint32_t n_slices) {
#pragma unroll
    for (int j = 0; j < WAY::m; j++) {
        float back[2];
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t row = s.in_rows[of.row + j * 8 + of.t * 2 + e];
            back[e] = row != UINT32_MAX ? what.ints.scales[(size_t)row * n_slices + slice] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < WAY::tiles; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                sum.x[i][j][e] += scale_slice(acc.x[i][j][e], back[e % 2]);
                acc.x[i][j][e] = 0.0f;
            }
    }
}

template <typename WAY>
__device__ __forceinline__ void many_store(const many_sums<WAY> &sum, const many_warp<WAY> &of,
                                           const many_stages<WAY> &s, const gpu_linear &what,
                                           const gpu_matrix &w) {
    uint32_t n0 = blockIdx.y * MANY_OUTPUTS + of.output + of.r, m0 = of.row + of.t * 2;
#pragma unroll
    for (int i = 0; i < 2 * WAY::tiles; i++) {
        uint32_t n = n0 + i * 8;
        float scale = w.scale && n < w.n ? w.scale[n] : 1.0f;
        float bias = w.bias && n < w.n ? w.bias[n] : 0.0f;
#pragma unroll
        for (int j = 0; j < 2 * WAY::m; j++) {
            float y = sum.x[i / 2][j / 2][i % 2 * 2 + j % 2] * scale + bias, next = 0.0f;
            if (what.epilogue == EPILOGUE_SILU_MUL) /* of all lanes */
                next = __shfl_down_sync(FULL_WARP, y, 4);
            store_one(what, w.n, s.out_rows[m0 + j / 2 * 8 + j % 2], n, y, next);
        }
    }
}

/* Where all of a block's threads meet once a chunk, those that copy and those that multiply. */
__device__ __forceinline__ void many_meet() {
    __syncthreads();
}

/* All slices of the tile, of which multiply(acc, stage, chunk) takes a chunk at a time; and stores what they come to. */
template <typename WAY, typename MULTIPLY>
__device__ __forceinline__ void many_run(const many_warp<WAY> &of, const many_stages<WAY> &s,
                                         const gpu_tensor &what, const gpu_matrix &w,
                                         const MULTIPLY &multiply) {
    const uint32_t n_chunks = count_chunks(what.linear.choice.matrix);
    const uint32_t n_slices = count_slices(what.linear.choice.matrix);
    many_sums<WAY> acc = {}, sum = {};
    for (uint32_t slice = 0, chunk = 0; slice < n_slices; slice++) {
        uint32_t end = chunk + SLICE_CHUNKS < n_chunks ? chunk + SLICE_CHUNKS : n_chunks;
#pragma unroll 1
        for (; chunk < end; chunk++)
            multiply(acc, chunk % WAY::stages, chunk);
        if (WAY::wgmma)
            wgmma_wait<0>();
        many_add(sum, acc, of, what.linear, s, slice, n_slices);
    }
    many_store(sum, of, s, what.linear, w);
}

template <typename WAY>
__device__ __forceinline__ void many_by_mma(many_stages<WAY> &s, const gpu_tensor &what,
                                            const gpu_matrix &w, uint32_t share) {
    const many_copier<WAY> copier(s, w, what, share);
    const many_warp<WAY> of;
    const bool has_mins = w.mins != NULL;
    copier.begin();
    many_run(of, s, what, w, [&](many_sums<WAY> &acc, uint32_t stage, uint32_t chunk) {
        copier.await();
        many_meet(); /* the stage is there, and no thread reads the one before */
        copier.fetch_behind(chunk);
        many_multiply(acc, of, s, stage, has_mins);
    });
    cp_async_wait<0>();
}

template <typename WAY>
__device__ __forceinline__ void many_by_wgmma(many_stages<WAY> &s, const gpu_tensor &what,
                                              const gpu_matrix &w, uint32_t share) {
    if (threadIdx.x >= MANY_THREADS) {
        registers_fewer<72>();
        const many_copier<WAY> copier(s, w, what, share);
        copier.begin();
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < copier.n_chunks; chunk++) {
            copier.await();
            many_meet(); /* the stage is there, and no thread reads the one that is `lag` before it */
            copier.fetch_behind(chunk);
        }
        cp_async_wait<0>();
        return;
    }
    registers_more<216>();
    const many_warp<WAY> of;
    const bool has_mins = w.mins != NULL;
    many_flow<WAY> flow;
    griddep_wait();
    many_run(of, s, what, w, [&](many_sums<WAY> &acc, uint32_t stage, uint32_t) {
        many_meet();
        flow.multiply(acc, of, s, stage, has_mins);
    });
}

template <typename WAY>
__global__ void __launch_bounds__(WAY::threads, 1)
    tensor_many_kernel(gpu_tensor what, uint32_t share) {
    typedef many_stages<WAY> stages;
    SHARED(stages, s);
    griddep_launch();
#ifndef WGMMA_THERE
    if constexpr (WAY::wgmma)
        return; /* cuda/tensor.c asks for it on devices alone that have it */
    else
#endif
    {
        if (what.groups.list)
            griddep_wait();
        const gpu_matrix w = many_find_rows(s, what);
        if (s.out_rows[0] == UINT32_MAX)
            return; /* the whole block: a group of nothing */
        if constexpr (WAY::wgmma)
            many_by_wgmma(s, what, w, share);
        else
            many_by_mma(s, what, w, share);
    }
}

template <typename WAY> static void many_put(struct device_stream *stream, const gpu_tensor *what) {
    const gpu_linear &linear = what->linear;
    gpu_launch_ahead(stream,
                     dim3(what->groups.list ? what->groups.n : pieces_of(linear.n_rows, WAY::rows),
                          pieces_of(linear.choice.matrix.n_padded, MANY_OUTPUTS)),
                     dim3(WAY::threads), sizeof(many_stages<WAY>), tensor_many_kernel<WAY>, *what,
                     form_share(linear.choice.matrix));
}

template <typename FORM, int ROWS>
static void many_put_rows(struct device_stream *stream, const gpu_tensor *what) {
    if (what->shape.wgmma)
        many_put<many_way<FORM, ROWS, true>>(stream, what);
    else
        many_put<many_way<FORM, ROWS, false>>(stream, what);
}

template <typename FORM>
static void many_launch(struct device_stream *stream, const gpu_tensor *what) {
    if (what->shape.rows == 128)
        many_put_rows<FORM, 128>(stream, what);
    else
        many_put_rows<FORM, 64>(stream, what);
}

} // namespace GPU_NAMESPACE
