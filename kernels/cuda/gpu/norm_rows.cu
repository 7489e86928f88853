/* The norm of fast numerics: a block a row. It adds up what a product has left of the row, where there is something, adds to it the
 * parts that the ranks of a group have of it, and rounds the row for the next product.
 *
 * The sum of the squares: thread i of 512 has inputs 4 (i + 512 j) to 4 (i + 512 j) + 3, in one chain of FMAs in rising order;
 * the chains of a warp are added as a tree (16 lanes apart, then 8, 4, 2, 1), the warps in rising order. */
#include "kernels/cuda/gpu/ranks.h"
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

/* Inputs i to i + 3 of a row of `rows`: with what a product has left of them. */
template <bool WHOLE>
__device__ __forceinline__ float4 part_four(const gpu_norm_rows &what, const float *rows,
                                            uint32_t row, uint32_t i) {
    const uint32_t dim = what.norm.dim;
    const float *x = rows + (size_t)row * dim;
    if (!what.sum.parts)
        return load_four<WHOLE>(x, i, dim);
    float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (i < dim)
        sum_slices<4>(y, what.sum, row, i);
    float4 four = make_float4(y[0], i + 1 < dim ? y[1] : 0.0f, i + 2 < dim ? y[2] : 0.0f,
                              i + 3 < dim ? y[3] : 0.0f);
    if (what.sum.epilogue == EPILOGUE_ADD)
        four = add_fours(load_four<WHOLE>(x, i, dim), four);
    return four;
}

/* The same; what a product has left comes to the residual, which is stored. */
template <bool WHOLE>
__device__ __forceinline__ float4 fetch_four(const gpu_norm_rows &what, uint32_t row, uint32_t i) {
    float4 four = part_four<WHOLE>(what, what.norm.x, row, i);
    if (what.sum.parts)
        store_four<WHOLE>(what.sum.out + (size_t)row * what.norm.dim, i, what.norm.dim, four);
    return four;
}

/* The row in shared memory becomes pieces. The block calls. */
template <typename ROUNDING>
__device__ __forceinline__ void round_row(row_shared &s, const float *values,
                                          const gpu_norm_rows &what, uint32_t row) {
    const gpu_matrix &w = what.matrix;
    const uint32_t n_pieces = count_chunks(w) * CHUNK_UNITS, n_slices = count_slices(w);
    const uint32_t per_slice = TENSOR_SLICE / PIECE_INPUTS, warps = per_slice / WARP;
    uint4 *to = (uint4 *)what.to.q + (size_t)row * n_pieces;
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
            what.to.scales[(size_t)row * n_slices + slice] = powers.back;
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

/* A row, whose inputs fetch(i) answers once each. KEPT fours of it in registers of each thread; of longer rows the others are read
 * again. The block calls. */
template <typename ROUNDING, bool ROUNDS, bool WHOLE, uint32_t KEPT, typename FETCH>
__device__ __forceinline__ void norm_row(row_shared &s, float *values, const gpu_norm_rows &what,
                                         uint32_t row, FETCH fetch) {
    const uint32_t dim = what.norm.dim, own = 4 * threadIdx.x;
    float4 kept[KEPT];
    float sum = 0.0f;
#pragma unroll
    for (uint32_t j = 0; j < KEPT; j++)
        if (j * ROW_FLOATS < dim) {
            kept[j] = fetch(j * ROW_FLOATS + own);
            sum = add_squares(sum, kept[j]);
        }
    for (uint32_t i = KEPT * ROW_FLOATS; i < dim; i += ROW_FLOATS)
        sum = add_squares(sum, fetch(i + own));
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
    round_row<ROUNDING>(s, values, what, row);
}

template <typename ROUNDING, bool ROUNDS, bool WHOLE, uint32_t KEPT>
__global__ void __launch_bounds__(ROW_THREADS, 2) norm_rows_kernel(gpu_norm_rows what) {
    SHARED_BYTES(shared);
    float *values = ROUNDS ? (float *)(shared + sizeof(row_shared)) : NULL;
    const uint32_t row = blockIdx.x;
    griddep_launch();
    griddep_wait();
    norm_row<ROUNDING, ROUNDS, WHOLE, KEPT>(
        *(row_shared *)shared, values, what, row,
        [&](uint32_t i) { return fetch_four<WHOLE>(what, row, i); });
}

/* Each rank reads all parts of the block's rows, and adds them to its own rows. */
template <typename ROUNDING, bool ROUNDS, uint32_t KEPT>
__global__ void __launch_bounds__(ROW_THREADS, 1) norm_ranks_kernel(gpu_norm_ranks what) {
    SHARED_BYTES(shared);
    float *values = ROUNDS ? (float *)(shared + sizeof(row_shared)) : NULL;
    const gpu_group_of_ranks &group = what.group;
    const uint32_t dim = what.rows.norm.dim, n_rows = what.rows.norm.n_rows;
    const uint32_t turn = ranks_begin(group);
    float *stage = stage_of(group, group.rank, turn);
    for (uint32_t row = blockIdx.x; row < n_rows; row += gridDim.x)
        for (uint32_t i = 4 * threadIdx.x; i < dim; i += ROW_FLOATS)
            four_at<crossing_rounded>(stage, row * dim + i) =
                crossing_rounded::of(part_four<true>(what.rows, what.part, row, i));
    ranks_meet(group, 0, gpu_told{turn, RANKS_NORM, n_rows * dim, 0, 0, {}});
    for (uint32_t row = blockIdx.x; row < n_rows; row += gridDim.x) {
        norm_row<ROUNDING, ROUNDS, true, KEPT>(
            *(row_shared *)shared, values, what.rows, row, [&](uint32_t i) {
                if (i >= dim)
                    return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                return store_sum<crossing_rounded, true>(
                    what.x + (size_t)row * dim, i, dim,
                    sum_stages<crossing_rounded>(group, turn, row * dim + i));
            });
        __syncthreads();
    }
    ranks_end(group, turn);
}

#define KEPT_FOURS 4

static size_t row_bytes(const gpu_norm_rows *what) {
    return sizeof(row_shared) + (what->rounds ? (what->norm.dim + 3) / 4 * 16 : 0);
}

template <typename ROUNDING, bool ROUNDS>
static void norm_rows_put(struct device_stream *stream, const gpu_norm_rows *what) {
    const uint32_t dim = what->norm.dim;
    bool whole = are_fours(what->norm.x, dim) && are_fours(what->norm.out, dim) &&
                 are_fours(what->norm.gain, dim);
    gpu_launch_ahead(stream, dim3(what->norm.n_rows), dim3(ROW_THREADS), row_bytes(what),
                     whole ? norm_rows_kernel<ROUNDING, ROUNDS, true, KEPT_FOURS>
                           : norm_rows_kernel<ROUNDING, ROUNDS, false, KEPT_FOURS>,
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

template <typename ROUNDING, bool ROUNDS>
static void norm_ranks_put(struct device_stream *stream, const gpu_norm_ranks *what) {
    uint32_t n_rows = what->rows.norm.n_rows;
    gpu_launch_together(stream, dim3(n_rows < RANKS_BLOCKS ? n_rows : RANKS_BLOCKS),
                        dim3(ROW_THREADS), row_bytes(&what->rows),
                        norm_ranks_kernel<ROUNDING, ROUNDS, KEPT_FOURS>, *what);
}

void norm_ranks(struct device_stream *stream, const gpu_norm_ranks *what) {
    if (!what->rows.rounds)
        norm_ranks_put<rounding<WEIGHT_F16, false>, false>(stream, what);
    else
        with_rounding(what->rows.matrix, [=](auto rounding) {
            norm_ranks_put<decltype(rounding), true>(stream, what);
        });
}

} // namespace GPU_NAMESPACE
