/* The norm of fast numerics: a block a row. It adds up what a product has left of the row, where there is something, and rounds
 * the row for the next product.
 *
 * The sum of the squares: thread i of 512 has inputs 4 (i + 512 j) to 4 (i + 512 j) + 3, in one chain of FMAs in rising order;
 * the chains of a warp are added as a tree (16 lanes apart, then 8, 4, 2, 1), the warps in rising order. */
#include "kernels/cuda/gpu/sum_rows.h"
#include "kernels/cuda/gpu/tensor_piece.h"

namespace GPU_NAMESPACE {

#define ROW_THREADS 512
#define ROW_WARPS   (ROW_THREADS / WARP)
#define ROW_FLOATS  (4 * ROW_THREADS)

struct row_shared {
    float sums[ROW_WARPS];
    uint32_t max_bits[2][ROW_WARPS]; /* of pieces: one turn's, and the next one's */
};

/* The number that all threads' sums come to. The block calls. */
__device__ __forceinline__ float block_sum(row_shared &s, float sum) {
#pragma unroll
    for (int width = 16; width > 0; width /= 2)
        sum += __shfl_xor_sync(FULL_WARP, sum, width);
    if (threadIdx.x % WARP == 0)
        s.sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    sum = s.sums[0];
#pragma unroll
    for (uint32_t i = 1; i < ROW_WARPS; i++)
        sum += s.sums[i];
    return sum;
}

/* Inputs i to i + 3 of the row before its norm; what a product has left comes to the residual, which is stored. */
template <bool WHOLE>
__device__ __forceinline__ float4 fetch_four(const gpu_norm_rows &what, uint32_t row, uint32_t i) {
    const uint32_t dim = what.norm.dim;
    if (!what.sum.parts)
        return load_four<WHOLE>(what.norm.x + (size_t)row * dim, i, dim);
    float *to = what.sum.out + (size_t)row * dim;
    float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (i < dim)
        sum_slices<4>(y, what.sum, row, i);
    float4 four = make_float4(y[0], i + 1 < dim ? y[1] : 0.0f, i + 2 < dim ? y[2] : 0.0f,
                              i + 3 < dim ? y[3] : 0.0f);
    if (what.sum.epilogue == EPILOGUE_ADD)
        four = add_fours(load_four<WHOLE>(to, i, dim), four);
    store_four<WHOLE>(to, i, dim, four);
    return four;
}

/* The row in shared memory becomes pieces. The block calls. */
template <typename ROUNDING>
__device__ __forceinline__ void round_row(row_shared &s, const float *values,
                                          const gpu_norm_rows &what) {
    const gpu_matrix &w = what.matrix;
    const uint32_t n_pieces = count_chunks(w) * CHUNK_UNITS, n_slices = count_slices(w);
    const uint32_t per_slice = TENSOR_SLICE / PIECE_INPUTS, warps = per_slice / WARP;
    uint4 *to = (uint4 *)what.to.q + (size_t)blockIdx.x * n_pieces;
    for (uint32_t first = 0, turn = 0; first < n_pieces; first += ROW_THREADS, turn++) {
        uint32_t piece = first + threadIdx.x, slice = piece / per_slice;
        row_piece x;
#pragma unroll
        for (uint32_t e = 0; e < PIECE_INPUTS; e++) {
            uint32_t i = input_of(w, piece_input<ROUNDING::ints>(piece, e));
            x.x[e] = i == WEIGHT_NO_INPUT ? 0.0f : values[i];
        }
        slice_powers powers = {1.0f, 1.0f};
        if (ROUNDING::format == WEIGHT_F16) {
            uint32_t bits = warp_max(x.max_bits()), *max_bits = s.max_bits[turn % 2];
            if (threadIdx.x % WARP == 0)
                max_bits[threadIdx.x / WARP] = bits;
            __syncthreads();
#pragma unroll
            for (uint32_t i = 0; i < warps; i++) {
                uint32_t other = max_bits[threadIdx.x / per_slice * warps + i];
                bits = other > bits ? other : bits;
            }
            powers = powers_of(bits);
        }
        if (piece < n_pieces)
            store_piece<ROUNDING::ints>(to, piece,
                                        x.template rounded<ROUNDING::format>(powers.factor));
        if (threadIdx.x % per_slice == 0 && slice < n_slices)
            what.to.scales[(size_t)blockIdx.x * n_slices + slice] = powers.back;
    }
}

__device__ __forceinline__ float add_squares(float sum, float4 x) {
    sum = fmaf(x.x, x.x, sum);
    sum = fmaf(x.y, x.y, sum);
    sum = fmaf(x.z, x.z, sum);
    return fmaf(x.w, x.w, sum);
}

/* Inputs i to i + 3 after the norm. */
template <bool WHOLE>
__device__ __forceinline__ void store_normed(const gpu_norm &norm, uint32_t row, uint32_t i,
                                             float4 x, float factor, float *values) {
    float4 gain = load_four<WHOLE>(norm.gain, i, norm.dim);
    x = make_float4(x.x * factor * gain.x, x.y * factor * gain.y, x.z * factor * gain.z,
                    x.w * factor * gain.w);
    store_four<WHOLE>(norm.out + (size_t)row * norm.dim, i, norm.dim, x);
    if (values && i < norm.dim)
        *(float4 *)&values[i] = x;
}

/* KEPT fours of a row in registers of each thread; of longer rows the others are read again. */
template <typename ROUNDING, bool ROUNDS, bool WHOLE, uint32_t KEPT>
__global__ void __launch_bounds__(ROW_THREADS, 2) norm_rows_kernel(gpu_norm_rows what) {
    SHARED_BYTES(shared);
    row_shared &s = *(row_shared *)shared;
    float *values = ROUNDS ? (float *)(shared + sizeof(row_shared)) : NULL;
    const uint32_t dim = what.norm.dim, row = blockIdx.x, own = 4 * threadIdx.x;
    float4 kept[KEPT];
    float sum = 0.0f;
    griddep_launch();
    griddep_wait();
#pragma unroll
    for (uint32_t j = 0; j < KEPT; j++)
        if (j * ROW_FLOATS < dim) {
            kept[j] = fetch_four<WHOLE>(what, row, j * ROW_FLOATS + own);
            sum = add_squares(sum, kept[j]);
        }
    for (uint32_t i = KEPT * ROW_FLOATS; i < dim; i += ROW_FLOATS)
        sum = add_squares(sum, fetch_four<WHOLE>(what, row, i + own));
    float factor = 1.0f / sqrtf(block_sum(s, sum) / (float)dim + what.norm.eps);
#pragma unroll
    for (uint32_t j = 0; j < KEPT; j++)
        if (j * ROW_FLOATS < dim)
            store_normed<WHOLE>(what.norm, row, j * ROW_FLOATS + own, kept[j], factor, values);
    for (uint32_t i = KEPT * ROW_FLOATS + own; i - own < dim; i += ROW_FLOATS) {
        float4 x = load_four<WHOLE>(what.norm.x + (size_t)row * dim, i, dim);
        store_normed<WHOLE>(what.norm, row, i, x, factor, values);
    }
    if (!ROUNDS)
        return;
    __syncthreads();
    round_row<ROUNDING>(s, values, what);
}

template <typename ROUNDING, bool ROUNDS>
static void norm_rows_put(struct device_stream *stream, const gpu_norm_rows *what) {
    const uint32_t dim = what->norm.dim, kept = 4;
    bool whole = are_fours(what->norm.x, dim) && are_fours(what->norm.out, dim) &&
                 are_fours(what->norm.gain, dim);
    size_t n_bytes = sizeof(row_shared) + (ROUNDS ? (dim + 3) / 4 * 16 : 0);
    gpu_launch_ahead(stream, dim3(what->norm.n_rows), dim3(ROW_THREADS), n_bytes,
                     whole ? norm_rows_kernel<ROUNDING, ROUNDS, true, kept>
                           : norm_rows_kernel<ROUNDING, ROUNDS, false, kept>,
                     *what);
}

void norm_rows(struct device_stream *stream, const gpu_norm_rows *what) {
    if (!what->rounds)
        norm_rows_put<rounding<WEIGHT_F16, false>, false>(stream, what);
    else
        with_rounding(what->matrix, [=](auto rounding) {
            norm_rows_put<decltype(rounding), true>(stream, what);
        });
}

} // namespace GPU_NAMESPACE
