/* What is left for kernels where a library brings the ranks' numbers: sums in the order of ranks, parts of
 * which may be rounded, and columns that lie where they belong. */
#include "kernels/cuda/gpu/crossing.h"
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define WIRES_THREADS 256

static dim3 blocks_of(uint32_t n) {
    return dim3(pieces_of(n, 4 * WIRES_THREADS)); /* a thread four numbers */
}

template <bool WHOLE>
__global__ void __launch_bounds__(WIRES_THREADS) sum_floats_kernel(gpu_sum_parts what) {
    const uint32_t i = 4 * (blockIdx.x * WIRES_THREADS + threadIdx.x);
    const float *parts = (const float *)what.parts, *own = (const float *)what.own;
    if (i >= what.n)
        return;
    float4 sum = load_four<WHOLE>(what.rank == 0 ? own : parts, i, what.n);
#pragma unroll 4
    for (uint32_t rank = 1; rank < what.n_ranks; rank++) {
        const float *part = rank == what.rank ? own : parts + rank * what.stride;
        sum = add_fours(sum, load_four<WHOLE>(part, i, what.n));
    }
    store_four<WHOLE>((float *)what.out, i, what.n, sum);
}

__global__ void __launch_bounds__(WIRES_THREADS) sum_rounded_kernel(gpu_sum_parts what) {
    typedef crossing_rounded rounded;
    const uint32_t i = 4 * (blockIdx.x * WIRES_THREADS + threadIdx.x);
    const uint16_t *parts = (const uint16_t *)what.parts, *own = (const uint16_t *)what.own;
    if (i >= what.n)
        return;
    float4 sum = rounded::numbers(four_at<rounded>(what.rank == 0 ? own : parts, i));
#pragma unroll 4
    for (uint32_t rank = 1; rank < what.n_ranks; rank++) {
        const uint16_t *part = rank == what.rank ? own : parts + rank * what.stride;
        sum = add_fours(sum, rounded::numbers(four_at<rounded>(part, i)));
    }
    four_at<rounded>(what.out, i) = rounded::of(sum);
}

void sum_parts(struct device_stream *stream, const gpu_sum_parts *what) {
    gpu_launch(stream, blocks_of(what->n), dim3(WIRES_THREADS), 0,
               what->rounds  ? sum_rounded_kernel
               : what->whole ? sum_floats_kernel<true>
                             : sum_floats_kernel<false>,
               *what);
}

template <bool WHOLE>
__global__ void __launch_bounds__(WIRES_THREADS) round_part_kernel(gpu_round_part what) {
    const uint32_t i = 4 * (blockIdx.x * WIRES_THREADS + threadIdx.x);
    if (i < what.n_to)
        four_at<crossing_rounded>(what.to, i) =
            crossing_rounded::of(load_four<WHOLE>(what.part, i, what.n));
}

void round_part(struct device_stream *stream, const gpu_round_part *what) {
    gpu_launch(stream, blocks_of(what->n_to), dim3(WIRES_THREADS), 0,
               what->whole ? round_part_kernel<true> : round_part_kernel<false>, *what);
}

template <bool WHOLE>
__global__ void __launch_bounds__(WIRES_THREADS) add_parts_kernel(gpu_add_parts what) {
    typedef crossing_rounded rounded;
    const uint32_t i = 4 * (blockIdx.x * WIRES_THREADS + threadIdx.x);
    if (i >= what.n)
        return;
    float4 sum = rounded::numbers(four_at<rounded>(what.parts, i));
#pragma unroll 4
    for (uint32_t part = 1; part < what.n_parts; part++)
        sum =
            add_fours(sum, rounded::numbers(four_at<rounded>(what.parts + part * what.stride, i)));
    store_sum<rounded, WHOLE>(what.x, i, what.n, rounded::of(sum));
}

void add_parts(struct device_stream *stream, const gpu_add_parts *what) {
    gpu_launch(stream, blocks_of(what->n), dim3(WIRES_THREADS), 0,
               what->whole ? add_parts_kernel<true> : add_parts_kernel<false>, *what);
}

__global__ void __launch_bounds__(WIRES_THREADS) pack_columns_kernel(gpu_pack_columns what) {
    const uint32_t i = blockIdx.x * WIRES_THREADS + threadIdx.x;
    uint32_t *head = (uint32_t *)what.to;
    if (i == 0)
        head[0] = what.n_rows, head[1] = what.begin, head[2] = what.n_columns;
    if (i < what.n_rows * what.n_columns)
        what.to[GPU_COLUMNS + i] = what.part[i];
}

void pack_columns(struct device_stream *stream, const gpu_pack_columns *what) {
    uint32_t n = what->n_rows * what->n_columns;
    gpu_launch(stream, dim3(pieces_of(n > 0 ? n : 1, WIRES_THREADS)), dim3(WIRES_THREADS), 0,
               pack_columns_kernel, *what);
}

/* blockIdx.y: the rank. */
__global__ void __launch_bounds__(WIRES_THREADS) place_columns_kernel(gpu_place_columns what) {
    const float *from = what.from + blockIdx.y * what.each;
    const uint32_t *head = (const uint32_t *)from;
    const uint32_t i = blockIdx.x * WIRES_THREADS + threadIdx.x;
    const uint32_t begin = head[1], columns = head[2];
    if (head[0] != what.n_rows || begin > what.out_stride || columns > what.out_stride - begin ||
        (size_t)what.n_rows * columns > what.each - GPU_COLUMNS)
        give_up("a rank of a group has columns that are none");
    if (i < what.n_rows * columns)
        what.out[i / columns * what.out_stride + begin + i % columns] = from[GPU_COLUMNS + i];
}

void place_columns(struct device_stream *stream, const gpu_place_columns *what) {
    uint32_t most = (uint32_t)(what->each - GPU_COLUMNS);
    gpu_launch(stream, dim3(pieces_of(most, WIRES_THREADS), what->n_ranks), dim3(WIRES_THREADS), 0,
               place_columns_kernel, *what);
}

} // namespace GPU_NAMESPACE
