/* Rows of activations in the order that products on tensor cores take them in (tensor.h), rounded to the weights' type. */
#include "kernels/cuda/gpu/quantize.h"
#include "kernels/cuda/gpu/sum_rows.h"
#include "kernels/cuda/gpu/tensor_piece.h"

namespace GPU_NAMESPACE {

/* Four neighbouring inputs of a row from input i on, zeros behind the last. */
__device__ __forceinline__ void load_neighbours(float x[4], const float *row, const gpu_matrix &w,
                                                uint32_t i) {
    if (i + 4 <= (w.order ? w.k_stored : w.k)) {
        load_inputs(x, row, w.order, i);
        return;
    }
#pragma unroll
    for (uint32_t e = 0; e < 4; e++)
        x[e] = i + e < w.k ? row[i + e] : 0.0f;
}

/* A piece of a row as it lies. */
template <bool INTS>
__device__ __forceinline__ void load_piece(row_piece &to, const float *row, const gpu_matrix &w,
                                           uint32_t piece) {
#pragma unroll
    for (uint32_t e = 0; e < PIECE_INPUTS; e += 4) {
        float four[4];
        load_neighbours(four, row, w, piece_input<INTS>(piece, e));
#pragma unroll
        for (int i = 0; i < 4; i++)
            to.x[e + i] = four[neighbour<INTS>(i)];
    }
}

/* The same of what a product's gates let through, which is stored, too. */
template <bool INTS>
__device__ __forceinline__ void gate_piece(row_piece &to, const gpu_sum &sum, uint32_t row,
                                           const gpu_matrix &w, uint32_t piece) {
#pragma unroll
    for (uint32_t e = 0; e < PIECE_INPUTS; e++) {
        uint32_t i = input_of(w, piece_input<INTS>(piece, e));
        to.x[e] = 0.0f;
        if (i != WEIGHT_NO_INPUT) {
            to.x[e] = sum_gated(sum, row, i);
            sum.out[(size_t)row * sum.out_stride + i] = to.x[e];
        }
    }
}

/* A block a row and slice, a thread a piece. */
template <typename ROUNDING, bool GATED>
__global__ void __launch_bounds__(SLICE_THREADS) round_kernel(gpu_round_rows what) {
    SHARED(slice_shared, s);
    uint32_t piece = blockIdx.y * SLICE_THREADS + threadIdx.x;
    row_piece x;
    griddep_launch();
    griddep_wait();
    const gpu_matrix w = what.table ? what.table[what.ids[blockIdx.x]] : what.matrix;
    if (GATED)
        gate_piece<ROUNDING::ints>(x, what.sum, blockIdx.x, w, piece);
    else
        load_piece<ROUNDING::ints>(x, what.x + (size_t)(blockIdx.x / what.share) * w.k, w, piece);
    store_slice<ROUNDING>(s, what.to, what.matrix, x);
}

void round_rows(struct device_stream *stream, const gpu_round_rows *what) {
    with_rounding(what->matrix, [=](auto rounding) {
        typedef decltype(rounding) type;
        gpu_launch_ahead(stream, dim3(what->n_rows, count_slices(what->matrix)),
                         dim3(SLICE_THREADS), sizeof(slice_shared),
                         what->sum.parts ? round_kernel<type, true> : round_kernel<type, false>,
                         *what);
    });
}

} // namespace GPU_NAMESPACE
