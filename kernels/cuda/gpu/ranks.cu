/* Sums and columns of a group's ranks (gpu/ranks.h). Sums are taken in the order of ranks, so that all have the same bits. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/cuda/gpu/ranks.h"

namespace GPU_NAMESPACE {

#define RANKS_THREADS 256

/* A block's part of numbers that are shared out in fours: [begin, end). */
struct ranks_span {
    uint32_t begin, end;

    __device__ __forceinline__ ranks_span(uint32_t from, uint32_t to, uint32_t i, uint32_t n) {
        uint32_t each = ((to - from + 3) / 4 + n - 1) / n * 4;
        begin = from + each * i < to ? from + each * i : to;
        end = to - begin < each ? to : begin + each;
    }
};

template <typename CROSSING>
__device__ __forceinline__ gpu_told told_of(const gpu_sum_ranks &what, uint32_t turn) {
    return gpu_told{turn, CROSSING::rounds ? RANKS_ADD : RANKS_SUM, what.n, 0, 0, {}};
}

/* Each rank reads all that the others have. */
template <typename CROSSING, bool WHOLE>
__global__ void __launch_bounds__(RANKS_THREADS) sum_whole_kernel(gpu_sum_ranks what) {
    const gpu_group_of_ranks &group = what.group;
    const uint32_t turn = ranks_begin(group);
    const ranks_span span(0, what.n, blockIdx.x, gridDim.x);
    float *own = stage_of(group, group.rank, turn);
    for (uint32_t i = span.begin + 4 * threadIdx.x; i < span.end; i += 4 * RANKS_THREADS)
        four_at<CROSSING>(own, i) = CROSSING::of(load_four<WHOLE>(what.part, i, what.n));
    ranks_meet(group, 0, told_of<CROSSING>(what, turn));
    for (uint32_t i = span.begin + 4 * threadIdx.x; i < span.end; i += 4 * RANKS_THREADS)
        store_sum<CROSSING, WHOLE>(what.x, i, what.n, sum_stages<CROSSING>(group, turn, i));
    ranks_end(group, turn);
}

/* Each rank adds up one slice of the numbers, where its own lay: no other rank reads that; then they copy each other's. */
template <typename CROSSING, bool WHOLE>
__global__ void __launch_bounds__(RANKS_THREADS) sum_slices_kernel(gpu_sum_ranks what) {
    const gpu_group_of_ranks &group = what.group;
    const uint32_t turn = ranks_begin(group), first = 4 * threadIdx.x;
    float *own = stage_of(group, group.rank, turn);
    for (uint32_t rank = 0; rank < group.n_ranks; rank++) {
        const ranks_span slice(0, what.n, rank, group.n_ranks);
        const ranks_span span(slice.begin, slice.end, blockIdx.x, gridDim.x);
        for (uint32_t i = span.begin + first; i < span.end; i += 4 * RANKS_THREADS)
            four_at<CROSSING>(own, i) = CROSSING::of(load_four<WHOLE>(what.part, i, what.n));
    }
    ranks_meet(group, 0, told_of<CROSSING>(what, turn));
    const ranks_span mine(0, what.n, group.rank, group.n_ranks);
    const ranks_span part(mine.begin, mine.end, blockIdx.x, gridDim.x);
    for (uint32_t i = part.begin + first; i < part.end; i += 4 * RANKS_THREADS)
        four_at<CROSSING>(own, i) = sum_stages<CROSSING>(group, turn, i);
    ranks_meet(group, 1, told_of<CROSSING>(what, turn));
    for (uint32_t rank = 0; rank < group.n_ranks; rank++) {
        const ranks_span slice(0, what.n, rank, group.n_ranks);
        const ranks_span span(slice.begin, slice.end, blockIdx.x, gridDim.x);
        const float *from = stage_of(group, rank, turn);
        for (uint32_t i = span.begin + first; i < span.end; i += 4 * RANKS_THREADS)
            store_sum<CROSSING, WHOLE>(what.x, i, what.n, four_at<CROSSING>(from, i));
    }
    ranks_end(group, turn);
}

__global__ void __launch_bounds__(RANKS_THREADS) gather_ranks_kernel(gpu_gather_ranks what) {
    const gpu_group_of_ranks &group = what.group;
    const uint32_t turn = ranks_begin(group), n = what.n_rows * what.n_columns;
    const ranks_span span(0, n, blockIdx.x, gridDim.x);
    float *own = stage_of(group, group.rank, turn);
    for (uint32_t i = span.begin + threadIdx.x; i < span.end; i += RANKS_THREADS)
        own[i] = what.part[i];
    ranks_meet(group, 0, gpu_told{turn, RANKS_GATHER, what.n_rows, what.begin, what.n_columns, {}});
    for (uint32_t rank = 0; what.out && rank < group.n_ranks; rank++) {
        const gpu_told &told = own_room(group).told[turn % 2][0][rank][blockIdx.x];
        const float *from = stage_of(group, rank, turn);
        const uint32_t columns = told.columns, begin = told.begin;
        if (begin > what.out_stride || columns > what.out_stride - begin)
            give_up("a rank of a group has columns that are none");
        const ranks_span other(0, what.n_rows * columns, blockIdx.x, gridDim.x);
        for (uint32_t i = other.begin + threadIdx.x; i < other.end; i += RANKS_THREADS)
            what.out[i / columns * what.out_stride + begin + i % columns] = from[i];
    }
    ranks_end(group, turn);
}

/* Blocks for so many numbers, all of which are alive together: the same at all ranks, on any devices. */
static uint32_t blocks_for(uint32_t n) {
    uint32_t wanted = pieces_of(n, 4 * RANKS_THREADS);
    return wanted < 1 ? 1 : wanted < RANKS_BLOCKS ? wanted : RANKS_BLOCKS;
}

template <typename CROSSING, bool WHOLE>
static void sum_put(struct device_stream *stream, const gpu_sum_ranks *what) {
    gpu_launch_together(stream, dim3(blocks_for(what->n)), dim3(RANKS_THREADS), 0,
                        what->slices ? sum_slices_kernel<CROSSING, WHOLE>
                                     : sum_whole_kernel<CROSSING, WHOLE>,
                        *what);
}

void sum_ranks(struct device_stream *stream, const gpu_sum_ranks *what) {
    auto put =
        what->rounds
            ? (what->whole ? sum_put<crossing_rounded, true> : sum_put<crossing_rounded, false>)
            : (what->whole ? sum_put<crossing_floats, true> : sum_put<crossing_floats, false>);
    put(stream, what);
}

void gather_ranks(struct device_stream *stream, const gpu_gather_ranks *what) {
    uint32_t all = what->n_rows * (uint32_t)what->out_stride;
    gpu_launch_together(stream, dim3(blocks_for(all)), dim3(RANKS_THREADS), 0, gather_ranks_kernel,
                        *what);
}

} // namespace GPU_NAMESPACE
