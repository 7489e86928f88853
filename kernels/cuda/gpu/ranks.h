/* kernels/cuda/gpu/ranks.h: how the ranks of a group, each on a device of its own, meet in a launch where devices reach each other's
 * memory. Every rank launches the same
 * operations in the same order, with as many blocks; a block works with what the blocks of its number at the other ranks have
 * brought, and waits for them alone.
 *
 * A rank writes to the others' memory what it tells them (struct gpu_told), and reads their numbers from their stages. Nothing of
 * a launch changes from turn to turn, so that it can be recorded: the turn is counted in the room. */
#pragma once

#include "kernels/cuda/gpu/crossing.h"

namespace GPU_NAMESPACE {

enum ranks_operation { RANKS_SUM = 1, RANKS_ADD, RANKS_GATHER, RANKS_NORM };

__device__ __forceinline__ gpu_room &own_room(const gpu_group_of_ranks &group) {
    return *group.rooms[group.rank];
}
/* As long as n_floats floats; rounded numbers take half of it. */
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
template <typename CROSSING>
__device__ __forceinline__ typename CROSSING::four sum_stages(const gpu_group_of_ranks &group,
                                                              uint32_t turn, uint32_t i) {
    float4 sum = CROSSING::numbers(four_at<CROSSING>(stage_of(group, 0, turn), i));
#pragma unroll 4
    for (uint32_t rank = 1; rank < group.n_ranks; rank++)
        sum = add_fours(sum, CROSSING::numbers(four_at<CROSSING>(stage_of(group, rank, turn), i)));
    return CROSSING::of(sum);
}

#ifdef __CUDACC__
#define RANKS_BLOCKS GPU_RANK_BLOCKS
#else
#define RANKS_BLOCKS 4 /* the threads of all of them are fibers at once */
#endif

} // namespace GPU_NAMESPACE
