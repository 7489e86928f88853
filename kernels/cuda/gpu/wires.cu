/* What is left for kernels where a library brings the ranks' numbers: sums in the order of ranks, and columns that lie where they
 * belong. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define WIRES_THREADS 256

/* A thread four numbers. */
template <bool WHOLE>
__global__ void __launch_bounds__(WIRES_THREADS) sum_parts_kernel(gpu_sum_parts what) {
    const uint32_t i = 4 * (blockIdx.x * WIRES_THREADS + threadIdx.x);
    if (i >= what.n)
        return;
    float4 sum = load_four<WHOLE>(what.rank == 0 ? what.own : what.parts, i, what.n);
#pragma unroll 4
    for (uint32_t rank = 1; rank < what.n_ranks; rank++) {
        const float *part = rank == what.rank ? what.own : what.parts + rank * what.stride;
        sum = add_fours(sum, load_four<WHOLE>(part, i, what.n));
    }
    store_four<WHOLE>(what.out, i, what.n, sum);
}

void sum_parts(struct device_stream *stream, const gpu_sum_parts *what) {
    gpu_launch(stream, dim3(pieces_of(what->n, 4 * WIRES_THREADS)), dim3(WIRES_THREADS), 0,
               what->whole ? sum_parts_kernel<true> : sum_parts_kernel<false>, *what);
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
