/* Attention of the fast numerics: keys and values of 16 bits, on tensor cores. */
#include "kernels/cuda/gpu/attend_tensor.h"

namespace GPU_NAMESPACE {

#define WHOLE_WARPS  (GPU_QUERIES / 16)
#define SPLIT_BLOCKS 1024 /* that a launch is split into: more than a GPU has places for */

/* Two dimensions from d on of the sums of a span, or of all, for the lane's query j: to (.., dim). */
template <typename SHAPE>
__device__ __forceinline__ void store_values(float *to, const span_sums<SHAPE> &sums, uint32_t j,
                                             uint32_t part, float inverse) {
    to += part * SHAPE::planes * 8 + threadIdx.x % 4 * 2;
#pragma unroll
    for (uint32_t n = 0; n < SHAPE::planes; n++)
        *(float2 *)(to + n * 8) = make_float2(joined(sums.values[n][2 * j], inverse),
                                              joined(sums.values[n][2 * j + 1], inverse));
}

/* The sums of a span go to the queries' places. */
template <typename SHAPE>
__device__ __forceinline__ void store_span(const gpu_attend &what, const lane_queries &queries,
                                           const span_sums<SHAPE> &sums, uint32_t kv_head,
                                           uint32_t part, uint32_t span) {
#pragma unroll
    for (uint32_t j = 0; j < 2; j++) {
        if (queries.end[j] == 0)
            continue;
        uint32_t n_spans = (queries.end[j] + GPU_SPAN - 1) / GPU_SPAN;
        size_t at = split_place(what, blockIdx.x, n_spans, kv_head, queries.row(j)) + span;
        store_values(what.sums + at * SHAPE::dim, sums, j, part, 1.0f);
        if (part > 0 || threadIdx.x % 4 > 0)
            continue;
        what.maxima[at] = sums.max[j];
        what.totals[at] = sums.total[j];
    }
}

/* A span joins those before it in the registers. */
template <typename SHAPE>
__device__ __forceinline__ void add_span(span_sums<SHAPE> &all, const span_sums<SHAPE> &sums,
                                         float factor) {
    span_join join[2];
#pragma unroll
    for (int j = 0; j < 2; j++)
        join[j] = join_span(all.max[j], all.total[j], sums.max[j], sums.total[j], factor);
#pragma unroll
    for (uint32_t n = 0; n < SHAPE::planes; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            all.values[n][e] =
                fmaf(all.values[n][e], join[e / 2].keep, sums.values[n][e] * join[e / 2].add);
}

template <typename SHAPE>
__device__ __forceinline__ void store_all(const gpu_attend &what, const gpu_tile &tile,
                                          const lane_queries &queries, const span_sums<SHAPE> &all,
                                          uint32_t kv_head, uint32_t part) {
#pragma unroll
    for (uint32_t j = 0; j < 2; j++) {
        if (queries.end[j] == 0)
            continue;
        tile_row row = find_row(what, tile, kv_head, queries.row(j));
        size_t at = (size_t)row.token * what.heads.n_heads + row.head;
        store_values(what.out + at * SHAPE::dim, all, j, part, 1.0f / all.total[j]);
    }
}

/* Grid: tiles, key heads and the parts of their values, and where SPLIT some blocks that take the spans of a tile by
 * turns and leave them to attend_join.cu. Keys of a block are copied while values of the block before are added, and its
 * values while its scores are made. */
template <typename SHAPE, bool SPLIT>
__global__ void __launch_bounds__(SHAPE::n_threads, SPLIT ? 1 : 2)
    attend_tensor_kernel(gpu_attend what) {
    SHARED(attend_memory<SHAPE>, s);
    const gpu_tile tile = what.tiles[blockIdx.x];
    const uint32_t kv_head = blockIdx.y / SHAPE::n_parts, part = blockIdx.y % SHAPE::n_parts;
    const uint32_t turns = SPLIT ? gridDim.z : 1;
    griddep_launch();
    const lane_queries queries(what, tile, kv_head);
    attend_source<SHAPE> source(what, tile, kv_head, part);
    uint32_t kb = source.begin / KEYS, kb_end = (source.end + KEYS - 1) / KEYS;
    if (SPLIT && blockIdx.z > 0)
        kb = (kb / SPAN_BLOCKS + blockIdx.z) * SPAN_BLOCKS;
    griddep_wait();
    if (kb >= kb_end)
        return; /* the whole block */
    source.find(kb);
    source.fetch_keys(s);
    load_queries(s, what, tile, kv_head, queries);
    const float factor = what.scale * LOG2_E;
    float slope[2] = {0.0f, 0.0f};
#pragma unroll
    for (uint32_t j = 0; j < 2; j++)
        if (what.alibi && queries.end[j] > 0)
            slope[j] = what.alibi[find_row(what, tile, kv_head, queries.row(j)).head] / what.scale;
    span_sums<SHAPE> all, sums;
    all.clear();
    while (kb < kb_end) {
        const uint32_t span = kb / SPAN_BLOCKS;
        sums.clear();
        do {
            const uint32_t key = kb * KEYS;
            uint32_t next = kb + 1, weights[KEYS / 16][4];
            float keep[2];
            if (next % SPAN_BLOCKS == 0)
                next += (turns - 1) * SPAN_BLOCKS;
            cp_async_wait<0>();
            __syncthreads(); /* the keys are there, and no thread reads the values before them */
            source.fetch_values(s, kb);
            source.find(next);
            const bool see = queries.see(key);
            if (see) {
                float score[KEYS / 8][4] = {};
                score_keys(score, s);
                if (what.alibi)
                    add_distance(score, slope, queries, key);
                if (!queries.see_all(key))
                    hide_keys(score, queries, key);
                weigh_keys(sums, keep, weights, score, factor);
            }
            cp_async_wait<0>();
            __syncthreads(); /* the values are there, and no thread reads the keys */
            source.fetch_keys(s);
            if (see)
                add_values(sums, keep, weights, s);
            kb = next;
        } while (kb / SPAN_BLOCKS == span && kb < kb_end);
        span_end(sums);
        if (SPLIT)
            store_span(what, queries, sums, kv_head, part, span);
        else
            add_span(all, sums, factor);
    }
    cp_async_wait<0>();
    if (!SPLIT)
        store_all(what, tile, queries, all, kv_head, part);
}

/* Blocks that take the spans of a tile by turns: as many for every context. */
static uint32_t turns_of(const gpu_attend *what, uint32_t blocks) {
    uint32_t turns = pieces_of(SPLIT_BLOCKS, what->n_few * blocks);
    return turns < what->n_chunks ? turns : what->n_chunks;
}

template <int DIM> static void attend_dim(struct device_stream *stream, const gpu_attend *what) {
    typedef attend_shape<1, DIM> split;
    typedef attend_shape<WHOLE_WARPS, DIM> whole;
    uint32_t n_kv = what->heads.n_kv_heads, blocks = n_kv * split::n_parts;
    if (what->n_few > 0)
        gpu_launch_ahead(stream, dim3(what->n_few, blocks, turns_of(what, blocks)),
                         dim3(split::n_threads), sizeof(attend_memory<split>),
                         attend_tensor_kernel<split, true>, *what);
    if (what->n_few < what->n_tiles) {
        gpu_attend rest = *what;
        rest.tiles += what->n_few;
        gpu_launch_ahead(stream, dim3(what->n_tiles - what->n_few, blocks), dim3(whole::n_threads),
                         sizeof(attend_memory<whole>), attend_tensor_kernel<whole, false>, rest);
    }
}

void attend_tensor(struct device_stream *stream, const gpu_attend *what) {
    switch (what->heads.head_dim) {
#define X(dim)                                                                                     \
    case dim:                                                                                      \
        return attend_dim<dim>(stream, what);
        GPU_TENSOR_HEADS(X)
#undef X
    }
}

} // namespace GPU_NAMESPACE
