/* What attention on tensor cores has left of queries whose spans were split over blocks: a query's spans are joined in rising
 * order; and rounded for the product behind them, where that is next. */
#include "kernels/cuda/gpu/attend_tensor.h"
#include "kernels/cuda/gpu/tensor_piece.h"

namespace GPU_NAMESPACE {

#define JOIN_WARPS 4

/* Grid: queries of split tiles, key heads; a warp each. Joins a query's spans in rising order. */
template <int DIM>
__global__ void __launch_bounds__(JOIN_WARPS *WARP) join_spans_kernel(gpu_attend what) {
    const int PAIRS = (DIM / 2 + WARP - 1) / WARP;
    const uint32_t lane = threadIdx.x % WARP;
    const uint32_t number = blockIdx.x * JOIN_WARPS + threadIdx.x / WARP;
    const uint32_t at = number / what.few, i = number % what.few;
    const gpu_tile tile = at < what.n_few ? what.tiles[at] : gpu_tile{};
    const tile_row row = find_row(what, tile, blockIdx.y, i);
    const uint32_t position = i < tile.n ? what.batch.positions[row.token] : GPU_NO_TOKEN;
    griddep_launch();
    griddep_wait();
    if (position == GPU_NO_TOKEN)
        return; /* the whole warp */
    const uint32_t end = position / GPU_SPAN + 1;
    const size_t place = split_place(what, at, end, blockIdx.y, i);
    const float factor = what.scale * LOG2_E;
    float max = -INFINITY, total = 0.0f;
    float2 all[PAIRS] = {};
#pragma unroll 4
    for (uint32_t span = first_seen(what, position) / GPU_SPAN; span < end; span++) {
        const float2 *sums = (const float2 *)(what.sums + (place + span) * DIM);
        span_join join =
            join_span(max, total, what.maxima[place + span], what.totals[place + span], factor);
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            uint32_t pair = p * WARP + lane;
            if (pair >= DIM / 2)
                continue;
            float2 two = sums[pair];
            all[p].x = fmaf(all[p].x, join.keep, two.x * join.add);
            all[p].y = fmaf(all[p].y, join.keep, two.y * join.add);
        }
    }
    float2 *out = (float2 *)(what.out + ((size_t)row.token * what.heads.n_heads + row.head) * DIM);
    const float inverse = 1.0f / total;
#pragma unroll
    for (int p = 0; p < PAIRS; p++)
        if (p * WARP + lane < DIM / 2)
            out[p * WARP + lane] =
                make_float2(joined(all[p].x, inverse), joined(all[p].y, inverse));
}

template <int DIM> static void join_dim(struct device_stream *stream, const gpu_attend *what) {
    gpu_launch_ahead(stream,
                     dim3(pieces_of(what->n_few * what->few, JOIN_WARPS), what->heads.n_kv_heads),
                     dim3(JOIN_WARPS * WARP), 0, join_spans_kernel<DIM>, *what);
}

void join_spans(struct device_stream *stream, const gpu_attend *what) {
    switch (what->heads.head_dim) {
#define X(dim)                                                                                     \
    case dim:                                                                                      \
        return join_dim<dim>(stream, what);
        GPU_TENSOR_HEADS(X)
#undef X
    }
}

/* A piece of a token's row: its inputs are of one head, whose size is a multiple of 32. */
template <bool INTS>
__device__ __forceinline__ void join_piece(row_piece &to, const gpu_attend &what, uint32_t token,
                                           uint32_t position, uint32_t piece) {
    const uint32_t dim = what.heads.head_dim;
    const uint32_t group = what.heads.n_heads / what.heads.n_kv_heads;
    uint32_t head = piece_input<INTS>(piece, 0) / dim, number = head % group;
    uint32_t tiles = (group + GPU_SPLIT_QUERIES - 1) / GPU_SPLIT_QUERIES; /* of a token */
    uint32_t n_spans = position / GPU_SPAN + 1;
    size_t place = split_place(what, token * tiles + number / GPU_SPLIT_QUERIES, n_spans,
                               head / group, number % GPU_SPLIT_QUERIES);
    const float factor = what.scale * LOG2_E;
    float max = -INFINITY, total = 0.0f, all[PIECE_INPUTS] = {};
#pragma unroll 4
    for (uint32_t span = first_seen(what, position) / GPU_SPAN; span < n_spans; span++) {
        const float *sums = what.sums + (place + span) * dim;
        span_join join =
            join_span(max, total, what.maxima[place + span], what.totals[place + span], factor);
#pragma unroll
        for (uint32_t e = 0; e < PIECE_INPUTS; e += 4) {
            float four[4];
            take_four(four, sums + piece_input<INTS>(piece, e) % dim);
#pragma unroll
            for (int i = 0; i < 4; i++)
                all[e + i] = fmaf(all[e + i], join.keep, four[neighbour<INTS>(i)] * join.add);
        }
    }
    const float inverse = 1.0f / total;
    float *out = what.out + (size_t)token * what.heads.n_heads * dim;
#pragma unroll
    for (uint32_t e = 0; e < PIECE_INPUTS; e++) {
        to.x[e] = joined(all[e], inverse);
        out[piece_input<INTS>(piece, e)] = to.x[e];
    }
}

/* A block a token and slice of its row, a thread a piece. */
template <typename ROUNDING>
__global__ void __launch_bounds__(SLICE_THREADS) join_rows_kernel(gpu_join_rows what) {
    SHARED(slice_shared, s);
    uint32_t piece = blockIdx.y * SLICE_THREADS + threadIdx.x;
    uint32_t position = what.join.batch.positions[blockIdx.x];
    row_piece x = {};
    griddep_launch();
    griddep_wait();
    if (position != GPU_NO_TOKEN && piece_input<ROUNDING::ints>(piece, 0) < what.matrix.k)
        join_piece<ROUNDING::ints>(x, what.join, blockIdx.x, position, piece);
    store_slice<ROUNDING>(s, what.to, what.matrix, x);
}

void join_rows(struct device_stream *stream, const gpu_join_rows *what) {
    with_rounding(what->matrix, [=](auto rounding) {
        gpu_launch_ahead(stream, dim3(what->join.batch.n_tokens, count_slices(what->matrix)),
                         dim3(SLICE_THREADS), sizeof(slice_shared),
                         join_rows_kernel<decltype(rounding)>, *what);
    });
}

} // namespace GPU_NAMESPACE
