/* Sums and columns of a group's ranks, each on a device of its own, that reach each other's memory. Every rank launches the same
 * operations in the same order, with as many blocks; a block works with what the blocks of its number at the other ranks have
 * brought, and waits for them alone. Sums are taken in the order of ranks, so that all have the same bits.
 *
 * A rank writes to the others' memory what it tells them (struct gpu_told), and reads their numbers from their stages. Nothing of
 * a launch changes from turn to turn, so that it can be recorded: the turn is counted in the room. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define RANKS_THREADS 256

enum ranks_operation { RANKS_SUM = 1, RANKS_GATHER };

/* A block's part of numbers that are shared out in fours: [begin, end). */
struct ranks_span {
    uint32_t begin, end;

    __device__ __forceinline__ ranks_span(uint32_t from, uint32_t to, uint32_t i, uint32_t n) {
        uint32_t each = ((to - from + 3) / 4 + n - 1) / n * 4;
        begin = from + each * i < to ? from + each * i : to;
        end = to - begin < each ? to : begin + each;
    }
};

__device__ __forceinline__ gpu_room &own_room(const gpu_group_of_ranks &group) {
    return *group.rooms[group.rank];
}
__device__ __forceinline__ float *stage_of(const gpu_group_of_ranks &group, uint32_t rank,
                                           uint32_t turn) {
    return (float *)(group.rooms[rank] + 1) + (size_t)(turn % 2) * group.n_floats;
}

/* The number of this turn. */
__device__ __forceinline__ uint32_t ranks_begin(const gpu_group_of_ranks &group) {
    return load_acquire(&own_room(group).turn) + 1;
}

/* What the block has written is there for the blocks of its number at the other ranks, and theirs for it. The block calls. */
__device__ __forceinline__ void ranks_meet(const gpu_group_of_ranks &group, uint32_t meeting,
                                           const gpu_told &told) {
    __syncthreads();
    if (threadIdx.x < group.n_ranks) {
        gpu_told *to =
            &group.rooms[threadIdx.x]->told[told.turn % 2][meeting][group.rank][blockIdx.x];
        const gpu_told *from =
            &own_room(group).told[told.turn % 2][meeting][threadIdx.x][blockIdx.x];
        to->operation = told.operation;
        to->n = told.n;
        to->begin = told.begin;
        to->columns = told.columns;
        store_release(&to->turn, told.turn);
        uint64_t since = clock_ns();
        while (load_acquire(&from->turn) != told.turn) {
            if (clock_ns() - since > group.wait_ns)
                give_up("a rank did not come to what its group computes together");
            pause_a_moment();
        }
        if (from->operation != told.operation || from->n != told.n)
            give_up("ranks of a group compute different things together");
    }
    __syncthreads();
}

/* The block has read all that it wanted; the last one ends the turn. */
__device__ __forceinline__ void ranks_end(const gpu_group_of_ranks &group, uint32_t turn) {
    gpu_room &room = own_room(group);
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&room.n_blocks, 1u) == gridDim.x - 1) {
        store_release(&room.n_blocks, 0);
        store_release(&room.turn, turn);
    }
}

/* Numbers i to i + 3 of all stages, added up; what lies behind the last number means nothing. */
__device__ __forceinline__ float4 sum_stages(const gpu_group_of_ranks &group, uint32_t turn,
                                             uint32_t i) {
    float4 sum = *(const float4 *)(stage_of(group, 0, turn) + i);
#pragma unroll 4
    for (uint32_t rank = 1; rank < group.n_ranks; rank++)
        sum = add_fours(sum, *(const float4 *)(stage_of(group, rank, turn) + i));
    return sum;
}

/* Each rank reads all that the others have. */
template <bool WHOLE>
__global__ void __launch_bounds__(RANKS_THREADS) sum_whole_kernel(gpu_sum_ranks what) {
    const gpu_group_of_ranks &group = what.group;
    const uint32_t turn = ranks_begin(group);
    const ranks_span span(0, what.n, blockIdx.x, gridDim.x);
    float *own = stage_of(group, group.rank, turn);
    for (uint32_t i = span.begin + 4 * threadIdx.x; i < span.end; i += 4 * RANKS_THREADS)
        *(float4 *)(own + i) = load_four<WHOLE>(what.x, i, what.n);
    ranks_meet(group, 0, gpu_told{turn, RANKS_SUM, what.n, 0, 0, {}});
    for (uint32_t i = span.begin + 4 * threadIdx.x; i < span.end; i += 4 * RANKS_THREADS)
        store_four<WHOLE>(what.x, i, what.n, sum_stages(group, turn, i));
    ranks_end(group, turn);
}

/* Each rank adds up one slice of the numbers, where its own lay: nobody else reads that; then they copy each other's. */
template <bool WHOLE>
__global__ void __launch_bounds__(RANKS_THREADS) sum_slices_kernel(gpu_sum_ranks what) {
    const gpu_group_of_ranks &group = what.group;
    const uint32_t turn = ranks_begin(group), first = 4 * threadIdx.x;
    float *own = stage_of(group, group.rank, turn);
    for (uint32_t rank = 0; rank < group.n_ranks; rank++) {
        const ranks_span slice(0, what.n, rank, group.n_ranks);
        const ranks_span span(slice.begin, slice.end, blockIdx.x, gridDim.x);
        for (uint32_t i = span.begin + first; i < span.end; i += 4 * RANKS_THREADS)
            *(float4 *)(own + i) = load_four<WHOLE>(what.x, i, what.n);
    }
    ranks_meet(group, 0, gpu_told{turn, RANKS_SUM, what.n, 0, 0, {}});
    const ranks_span mine(0, what.n, group.rank, group.n_ranks);
    const ranks_span part(mine.begin, mine.end, blockIdx.x, gridDim.x);
    for (uint32_t i = part.begin + first; i < part.end; i += 4 * RANKS_THREADS)
        *(float4 *)(own + i) = sum_stages(group, turn, i);
    ranks_meet(group, 1, gpu_told{turn, RANKS_SUM, what.n, 0, 0, {}});
    for (uint32_t rank = 0; rank < group.n_ranks; rank++) {
        const ranks_span slice(0, what.n, rank, group.n_ranks);
        const ranks_span span(slice.begin, slice.end, blockIdx.x, gridDim.x);
        const float *from = stage_of(group, rank, turn);
        for (uint32_t i = span.begin + first; i < span.end; i += 4 * RANKS_THREADS)
            store_four<WHOLE>(what.x, i, what.n, *(const float4 *)(from + i));
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

#ifdef __CUDACC__
#define RANKS_BLOCKS GPU_RANK_BLOCKS
#else
#define RANKS_BLOCKS 4 /* the threads of all of them are fibers at once */
#endif

/* Blocks for so many numbers, all of which are alive together: the same at all ranks, whatever their devices are. */
static uint32_t blocks_for(uint32_t n) {
    uint32_t wanted = pieces_of(n, 4 * RANKS_THREADS);
    return wanted < 1 ? 1 : wanted < RANKS_BLOCKS ? wanted : RANKS_BLOCKS;
}

void sum_ranks(struct device_stream *stream, const gpu_sum_ranks *what) {
    auto kernel = what->n <= GPU_SUM_WHOLE
                      ? (what->whole ? sum_whole_kernel<true> : sum_whole_kernel<false>)
                      : (what->whole ? sum_slices_kernel<true> : sum_slices_kernel<false>);
    gpu_launch_together(stream, dim3(blocks_for(what->n)), dim3(RANKS_THREADS), 0, kernel, *what);
}

void gather_ranks(struct device_stream *stream, const gpu_gather_ranks *what) {
    uint32_t all = what->n_rows * (uint32_t)what->out_stride;
    gpu_launch_together(stream, dim3(blocks_for(all)), dim3(RANKS_THREADS), 0, gather_ranks_kernel,
                        *what);
}

} // namespace GPU_NAMESPACE
