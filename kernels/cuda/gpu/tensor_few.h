/* kernels/cuda/gpu/tensor_few.h: products on tensor cores of 8 R rows a block, for steps that read more weights than they
 * multiply: tokens that are decoded, and chunks of some dozens.
 *
 * A warp has 16 outputs. Each lane brings the bytes of its own two outputs and group into a place of its own and reads them back
 * itself, so that no lane waits for another's weights; rows of activations are shared by warps of the same slice. A block has
 * warps_n x warps_k warps: those beside each other in n have other outputs, those in k other slices, which meet in shared
 * memory after each; the slices of a matrix may also be spread over blocks, whose sums then go into `parts`. */
#pragma once

#include "kernels/cuda/gpu/tensor_few_warp.h"

namespace GPU_NAMESPACE {

/* What a lane multiplies of chunk c of a stage. */
template <typename FORM, int R, bool GROUPED> struct few_operands {
    uint4 w[2][FORM::ints ? FORM::pieces : 1];
    typename form_lane<FORM>::type lane;
    const uint4 *from;

    __device__ __forceinline__ few_operands(const few_warp<FORM, R, GROUPED> &of,
                                            unsigned char *shared, uint32_t stage, uint32_t c) {
        const uint32_t row_bytes = FORM::scale_bytes * 16 + FORM::min_bytes * 16;
        from = (const uint4 *)(shared + stage + of.w_at) + c * 2 * FORM::pieces * WARP;
        if constexpr (FORM::ints) {
#pragma unroll
            for (int i = 0; i < 2 * FORM::pieces; i++)
                w[i / FORM::pieces][i % FORM::pieces] = from[i * WARP];
            lane.load(shared + stage + of.s_at + c * FORM::scale_rows * row_bytes, row_bytes, of.t,
                      of.r, of.has_mins);
        }
    }
    /* Of mma 2 word + h. */
    __device__ __forceinline__ void make(uint32_t a[4], int word, int h) const {
        if constexpr (FORM::ints)
            lane.operand(a, w, word, h);
        else
            ldmatrix_x4(a, from + (2 * word + h) * WARP);
    }
};

/* A stage's part of the warp's chains. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_multiply(float acc[R][4], const few_warp<FORM, R, GROUPED> &of,
                                             unsigned char *shared, uint32_t stage) {
    const unsigned char *x = shared + stage + of.row_at;
#pragma unroll
    for (uint32_t c = 0; c < of.chunks; c++) {
        const few_operands<FORM, R, GROUPED> operands(of, shared, stage, c);
#pragma unroll
        for (int word = 0; word < 4; word++) {
            const unsigned char *at = x + of.x_places[word % 2] + word / 2 * 128;
            uint32_t a[2][4];
            operands.make(a[0], word, 0);
            operands.make(a[1], word, 1);
#pragma unroll
            for (int i = 0; i < R; i++) {
                uint32_t b[4];
                ldmatrix_x4(b, at + (i * 8 * of.row_units + c * CHUNK_UNITS) * 16);
                mma_16<FORM::format>(acc[i], a[0], b);
                mma_16<FORM::format>(acc[i], a[1], b + 2);
            }
        }
    }
}

/* Row of the block and output of number e of tile i of a warp's sums. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ uint32_t few_row(const few_warp<FORM, R, GROUPED> &of, int i, int e) {
    return i * 8 + of.t * 2 + e % 2;
}
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ uint32_t few_output(const few_warp<FORM, R, GROUPED> &of, int e) {
    return of.n0 + of.r + e / 2 * 8;
}

template <int R> __device__ __forceinline__ void few_add(float sum[R][4], const float slice[R][4]) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[i][e] += slice[i][e];
}

/* The sums of slices that warps of the block have computed beside each other meet at the first of them. The block calls. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_meet(float sum[R][4], const float acc[R][4],
                                         const few_warp<FORM, R, GROUPED> &of,
                                         unsigned char *shared, uint32_t first) {
    const uint32_t warps_n = of.what.shape.warps_n;
    float4 *all = (float4 *)(shared + of.at.sums) + of.lane;
#pragma unroll
    for (int i = 0; i < R; i++)
        all[(of.warp * R + i) * WARP] = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
    __syncthreads();
    for (uint32_t k = 0; of.wk == 0 && k < of.what.shape.warps_k; k++) {
        float other[R][4];
        if (first + k >= of.slice + of.n_slices)
            break;
#pragma unroll
        for (int i = 0; i < R; i++)
            take_four(other[i], (const float *)&all[((k * warps_n + of.wn) * R + i) * WARP]);
        few_add<R>(sum, other);
    }
    __syncthreads(); /* before the next ones */
}

/* What a slice has come to, for the kernel that adds them up. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void
few_store_part(const float acc[R][4], const few_warp<FORM, R, GROUPED> &of, uint32_t slice) {
    const gpu_linear &linear = of.what.linear;
    const uint32_t n_padded = linear.choice.matrix.n_padded;
    if (slice >= of.slice + of.n_slices || of.n0 >= n_padded)
        return;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t row = of.out_row(few_row(of, i, e));
            if (row < linear.n_rows)
                of.what
                    .parts[((size_t)slice * linear.n_rows + row) * n_padded + few_output(of, e)] =
                    acc[i][e];
        }
}

template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_store(const float sum[R][4],
                                          const few_warp<FORM, R, GROUPED> &of) {
    const gpu_linear &linear = of.what.linear;
    const gpu_matrix w = of.matrix();
    float scale[2], bias[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        uint32_t n = few_output(of, 2 * j);
        scale[j] = w.scale && n < w.n ? w.scale[n] : 1.0f;
        bias[j] = w.bias && n < w.n ? w.bias[n] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float y = sum[i][e] * scale[e / 2] + bias[e / 2], next = 0.0f;
            if (linear.epilogue == EPILOGUE_SILU_MUL) /* of all lanes */
                next = __shfl_down_sync(FULL_WARP, y, 4);
            store_one(linear, w.n, of.out_row(few_row(of, i, e)), few_output(of, e), y, next);
        }
}

/* A warp's slice is over: its sums go where they are added up. */
template <typename FORM, int R, bool GROUPED>
__device__ __forceinline__ void few_end_slice(float sum[R][4], float acc[R][4],
                                              const few_warp<FORM, R, GROUPED> &of,
                                              unsigned char *shared, uint32_t turn) {
    const gpu_linear &linear = of.what.linear;
    const uint32_t n_slices = count_slices(linear.choice.matrix);
    uint32_t first = of.slice + turn * of.what.shape.warps_k, own = first + of.wk;
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t row = of.in_row(few_row(of, i, e));
            bool there = row != UINT32_MAX && own < n_slices;
            acc[i][e] = scale_slice(
                acc[i][e], there ? linear.ints.scales[(size_t)row * n_slices + own] : 0.0f);
        }
    if (of.what.parts)
        few_store_part(acc, of, own);
    else if (of.what.shape.warps_k == 1)
        few_add<R>(sum, acc);
    else
        few_meet(sum, acc, of, shared, first);
#pragma unroll
    for (int i = 0; i < R; i++)
        acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0.0f;
}

template <typename FORM, int R, bool GROUPED>
__global__ void __launch_bounds__(FEW_THREADS, 1)
    tensor_few_kernel(gpu_tensor what, uint32_t share) {
    typedef few_stages<FORM, R> stages;
    SHARED_BYTES(shared);
    griddep_launch();
    few_warp<FORM, R, GROUPED> of(what, shared);
    if (GROUPED && of.group.n == 0)
        return; /* the whole block */
    float acc[R][4] = {}, sum[R][4] = {};
    const uint32_t step = of.at.stage_bytes, end = of.at.sums;
    uint32_t stage = 0, last = end - step; /* where they begin */
    for (uint32_t first = 0; first < last; first += step) {
        few_fetch_weights(of, shared, first);
        few_fetch_scales(of, shared, first, share);
        of.advance();
    }
    griddep_wait();
    of.rewind();
    for (uint32_t first = 0; first < last; first += step) {
        few_fetch_rows(of, shared, first);
        of.advance();
    }
    for (uint32_t turn = 0; turn < of.n_turns; turn++) {
#pragma unroll 1
        for (uint32_t i = 0; i < SLICE_CHUNKS / stages::chunks; i++) {
            cp_async_wait<stages::n - 2>();
            of.sync(); /* the stage is there, and no thread reads the last one */
            few_fetch_weights(of, shared, last);
            few_fetch_scales(of, shared, last, share);
            few_fetch_rows(of, shared, last);
            of.advance();
            few_multiply(acc, of, shared, stage);
            last = stage;
            stage = stage + step == end ? 0 : stage + step;
        }
        few_end_slice(sum, acc, of, shared, turn);
    }
    cp_async_wait<0>();
    if (!what.parts && of.wk == 0)
        few_store(sum, of);
}

/* With fewer warps in a block where the device's shared memory has no room for so many. */
template <typename FORM, int R, bool GROUPED>
static void few_put(struct device_stream *stream, const gpu_tensor *what) {
    const gpu_matrix &w = what->linear.choice.matrix;
    gpu_tensor fits = *what;
    gpu_tensor_shape &shape = fits.shape;
    size_t n_bytes;
    while ((n_bytes = few_memory<FORM, R>(shape, what->linear.n_rows).n_bytes) >
           gpu_shared_bytes(stream)) {
        if (shape.warps_n >= shape.warps_k)
            shape.warps_n /= 2;
        else
            shape.warps_k /= 2;
    }
    gpu_launch_ahead(stream,
                     dim3(pieces_of(w.n_padded, shape.warps_n * 16),
                          GROUPED ? what->groups.n : pieces_of(what->linear.n_rows, R * 8),
                          pieces_of(count_slices(w), shape.slices)),
                     dim3(shape.warps_n * shape.warps_k * WARP), n_bytes,
                     tensor_few_kernel<FORM, R, GROUPED>, fits, form_share(w));
}

template <typename FORM, bool GROUPED>
static void few_launch(struct device_stream *stream, const gpu_tensor *what) {
    if (what->shape.rows == 8)
        few_put<FORM, 1, GROUPED>(stream, what);
    else if (what->shape.rows == 16)
        few_put<FORM, 2, GROUPED>(stream, what);
    else if (what->shape.rows == 32)
        few_put<FORM, 4, GROUPED>(stream, what);
    else
        few_put<FORM, 8, GROUPED>(stream, what);
}

} // namespace GPU_NAMESPACE
