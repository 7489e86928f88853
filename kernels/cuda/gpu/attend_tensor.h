/* kernels/cuda/gpu/attend_tensor.h: the steps of attention on tensor cores, for keys and values of 16 bits. One order for every
 * query, however it came: spans of GPU_SPAN positions counted from 0, in a span blocks of 64 keys, each with the
 * largest score so far; then the spans one after the other. Scores are chains of mma.m16n8k16 over
 * the dimensions, weighted values such chains over the keys of a span.
 *
 * What a query does not see weighs 0, and its values are finite: what they add is nothing. 2^x is a polynomial: the
 * same on every GPU. Included by attend_tensor.cu and attend_join.cu. */
#pragma once

#include "kernels/cuda/gpu/attend.h"

namespace GPU_NAMESPACE {

#define KEYS        64 /* of a block of keys */
#define KEY_BLOCKS  (KEYS / KV_BLOCK_TOKENS)
#define SPAN_BLOCKS (GPU_SPAN / KEYS)
#define LOG2_E      1.44269504f

/* WARPS warps of 16 queries and heads of DIM dimensions. The sums of 128 of them fit the registers of a warp: of larger heads
 * a block makes all scores and a part of the values. */
template <int WARPS, int DIM> struct attend_shape {
    static const uint32_t warps = WARPS, dim = DIM, n_threads = WARPS * WARP;
    static const uint32_t n_parts = DIM > 128 ? DIM / 128 : 1;
    static const uint32_t planes = DIM / n_parts / 8; /* of 8 dimensions of the values */
    static const bool whole_keys =
        WARP % planes == 0; /* the lanes of a warp have some keys' planes */
    static const uint32_t k_each = DIM / 16, v_each = planes / 2; /* copies of a lane, of a block */
    static_assert(DIM % (16 * n_parts) == 0 && KEY_BLOCKS % WARPS == 0, "lanes copy alike");
};

/* Rows of 16 bytes that ldmatrix takes together lie in different banks: of the keys every other four rows have their
 * halves swapped; those of the values are an odd number of pieces long. */
template <typename SHAPE> struct attend_memory {
    alignas(128) uint4 k[KEY_BLOCKS][SHAPE::dim][2];
    alignas(16) uint4 v[KEYS][SHAPE::planes + 1];
    alignas(16) uint4 q[SHAPE::warps][SHAPE::dim / 16][WARP]; /* a lane's own operands */
};

/* 2^x for x up to about 0, within 3e-6; NaN is not finite. */
__device__ __forceinline__ float power_of_2(float x) {
    x = max_nan(x, -127.0f); /* whose power is 0 */
    float whole = x + 12582912.0f, f = x - (whole - 12582912.0f);
    float p = fmaf(0.00958285388f, f, 0.0559064299f);
    p = fmaf(p, f, 0.240240991f);
    p = fmaf(p, f, 0.693124175f);
    p = fmaf(p, f, 1.0f);
    return float_from_bits(float_bits(p) + (float_bits(whole) << 23));
}

struct tile_row {
    uint32_t token;
    uint32_t head;
};

__device__ __forceinline__ tile_row find_row(const gpu_attend &what, const gpu_tile &tile,
                                             uint32_t kv_head, uint32_t i) {
    uint32_t group = what.heads.n_heads / what.heads.n_kv_heads, number = tile.first + i;
    return {tile.token + number / group, kv_head * group + number % group};
}

/* Which keys a lane's two queries, rows lane / 4 and lane / 4 + 8 of its warp's 16, see: [begin, end), none where there is no
 * query. */
struct lane_queries {
    uint32_t begin[2];
    uint32_t end[2];

    __device__ __forceinline__ lane_queries(const gpu_attend &what, const gpu_tile &tile,
                                            uint32_t kv_head) {
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            bool is_there = row(j) < tile.n;
            uint32_t position =
                what.batch.positions[find_row(what, tile, kv_head, is_there ? row(j) : 0).token];
            is_there = is_there && position != GPU_NO_TOKEN;
            begin[j] = is_there ? first_seen(what, position) : 0;
            end[j] = is_there ? position + 1 : 0;
        }
    }
    /* Of the tile. */
    __device__ __forceinline__ static uint32_t row(uint32_t j) {
        return threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4 + 8 * j;
    }
    /* Whether any query of the warp sees a key of the block from `key` on. The warp calls. */
    __device__ __forceinline__ bool see(uint32_t key) const {
        bool any = false;
#pragma unroll
        for (int j = 0; j < 2; j++)
            any = any || (key < end[j] && key + KEYS > begin[j]);
        return __any_sync(FULL_WARP, any);
    }
    __device__ __forceinline__ bool see_all(uint32_t key) const {
        bool all = true;
#pragma unroll
        for (int j = 0; j < 2; j++)
            all = all && (end[j] == 0 || (key >= begin[j] && key + KEYS <= end[j]));
        return __all_sync(FULL_WARP, all);
    }
};

/* Keys and values of a tile on their way to shared memory. A warp copies blocks of the cache. */
template <typename SHAPE> struct attend_source {
    static const uint32_t n_own = KEY_BLOCKS / SHAPE::warps;
    const uint32_t *table; /* numbers of the sequence's blocks */
    const char *keys;      /* of the head, of block 0 */
    const char *values;
    size_t block_bytes;
    uint32_t begin; /* what any query sees: [begin, end) */
    uint32_t end;
    uint32_t number[n_own]; /* of the warp's blocks */
    bool has[n_own];        /* whether any query sees them */

    __device__ __forceinline__ attend_source(const gpu_attend &what, const gpu_tile &tile,
                                             uint32_t kv_head, uint32_t part) {
        const uint32_t head_bytes = SHAPE::dim * KV_BLOCK_TOKENS * 2;
        uint32_t group = what.heads.n_heads / what.heads.n_kv_heads;
        uint32_t first = what.batch.positions[tile.token + tile.first / group];
        uint32_t last = what.batch.positions[tile.token + (tile.first + tile.n - 1) / group];
        table = what.batch.block_tables + (size_t)tile.seq * what.batch.block_table_stride;
        keys = (const char *)what.kv.base + (size_t)kv_head * head_bytes;
        values = keys + (size_t)what.heads.n_kv_heads * head_bytes + part * SHAPE::planes * 16;
        block_bytes = what.kv.block_bytes;
        begin = last == GPU_NO_TOKEN ? 0 : first_seen(what, first);
        end = last + 1;
    }
    /* Looks block kb of keys up; the copies that follow are its. */
    __device__ __forceinline__ void find(uint32_t kb) {
#pragma unroll
        for (uint32_t i = 0; i < n_own; i++) {
            uint32_t b = kb * KEY_BLOCKS + threadIdx.x / WARP * n_own + i;
            has[i] = b * KV_BLOCK_TOKENS < end && (b + 1) * KV_BLOCK_TOKENS > begin;
            number[i] = has[i] ? table[b] : 0;
        }
    }
    __device__ __forceinline__ void fetch_keys(attend_memory<SHAPE> &s) const {
        const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
        for (uint32_t i = 0; i < n_own; i++) {
            const char *from = keys + number[i] * block_bytes + lane * 16;
            uint4 *to = &s.k[warp * n_own + i][0][0] + (lane ^ (lane >> 3 & 1));
#pragma unroll
            for (uint32_t j = 0; j < SHAPE::k_each; j++)
                cp_async_16(to + j * WARP, from + j * WARP * 16, has[i] ? 16 : 0);
        }
        cp_async_commit();
    }
    /* Values that no query sees are zeros: their slots may hold anything. */
    __device__ __forceinline__ void fetch_values(attend_memory<SHAPE> &s, uint32_t kb) const {
        const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        const uint32_t planes = SHAPE::planes, first = SHAPE::whole_keys ? lane : 0;
#pragma unroll
        for (uint32_t i = 0; i < n_own; i++) {
            uint32_t key = (warp * n_own + i) * KV_BLOCK_TOKENS + first / planes;
            uint32_t offset = kb * KEYS + key - begin, plane = first % planes;
            const char *from =
                values + number[i] * block_bytes + (first / planes * SHAPE::dim / 8 + plane) * 16;
            uint4 *to = &s.v[key][plane];
#pragma unroll
            for (uint32_t j = 0; j < SHAPE::v_each; j++) {
                uint32_t at = SHAPE::whole_keys ? j * WARP : lane + j * WARP;
                key = at / planes, plane = at % planes;
                cp_async_16(to + key * (planes + 1) + plane,
                            from + (key * SHAPE::dim / 8 + plane) * 16,
                            offset + key < end - begin ? 16 : 0);
            }
        }
        cp_async_commit();
    }
};

/* The queries as operands; rows without one are zeros. */
template <typename SHAPE>
__device__ __forceinline__ void load_queries(attend_memory<SHAPE> &s, const gpu_attend &what,
                                             const gpu_tile &tile, uint32_t kv_head,
                                             const lane_queries &queries) {
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t n_all = what.heads.n_heads + 2 * what.heads.n_kv_heads;
    const float *from[2];
#pragma unroll
    for (uint32_t j = 0; j < 2; j++) {
        tile_row row = find_row(what, tile, kv_head, queries.end[j] > 0 ? queries.row(j) : 0);
        from[j] = what.qkv + ((size_t)row.token * n_all + row.head) * SHAPE::dim + lane % 4 * 2;
    }
    for (uint32_t step = 0; step < SHAPE::dim / 16; step++) {
        uint32_t q[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            float2 two = *(const float2 *)(from[i % 2] + step * 16 + i / 2 * 8);
            q[i] = queries.end[i % 2] > 0 ? half2_of(two.x, two.y) : 0;
        }
        s.q[warp][step][lane] = make_uint4(q[0], q[1], q[2], q[3]);
    }
}

/* Scores of the warp's queries and all keys: that of the lane's query e / 2 and key 8 n + 2 (lane % 4) + e % 2. */
template <typename SHAPE>
__device__ __forceinline__ void score_keys(float score[KEYS / 8][4],
                                           const attend_memory<SHAPE> &s) {
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const uint4 *rows = &s.k[0][lane % 16][lane / 16 ^ (lane >> 2 & 1)];
#pragma unroll
    for (uint32_t step = 0; step < SHAPE::dim / 16; step++) {
        uint4 own = s.q[warp][step][lane];
        const uint32_t q[4] = {own.x, own.y, own.z, own.w};
#pragma unroll
        for (uint32_t b = 0; b < KEY_BLOCKS; b++) {
            uint32_t k[4];
            ldmatrix_x4_trans(k, rows + (b * SHAPE::dim + step * 16) * 2);
            mma_m16n8k16_f16_f32(score[2 * b], q, k);
            mma_m16n8k16_f16_f32(score[2 * b + 1], q, k + 2);
        }
    }
}

/* ALiBi, with slopes by the scale of the scores. */
__device__ __forceinline__ void add_distance(float score[KEYS / 8][4], const float slope[2],
                                             const lane_queries &queries, uint32_t key) {
    float distance[2];
#pragma unroll
    for (int j = 0; j < 2; j++)
        distance[j] = (float)(int32_t)(key + threadIdx.x % 4 * 2 + 1 - queries.end[j]);
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            score[n][e] = fmaf(slope[e / 2], distance[e / 2] + (float)(n * 8 + e % 2), score[n][e]);
}

/* Keys that a query does not see. */
__device__ __forceinline__ void hide_keys(float score[KEYS / 8][4], const lane_queries &queries,
                                          uint32_t key) {
    uint32_t offset[2];
#pragma unroll
    for (int j = 0; j < 2; j++)
        offset[j] = key + threadIdx.x % 4 * 2 - queries.begin[j];
#pragma unroll
    for (uint32_t n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
            if (offset[e / 2] + n * 8 + e % 2 >= queries.end[e / 2] - queries.begin[e / 2])
                score[n][e] = -INFINITY;
}

/* What a span has come to for a lane's two queries, or all spans together: the largest score, the sum of the weights (of a
 * span, until span_end(), of this lane's keys alone) and of the weighted values. */
template <typename SHAPE> struct span_sums {
    float max[2];
    float total[2];
    float values[SHAPE::planes][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int j = 0; j < 2; j++)
            max[j] = -INFINITY, total[j] = 0.0f;
#pragma unroll
        for (uint32_t n = 0; n < SHAPE::planes; n++)
            values[n][0] = values[n][1] = values[n][2] = values[n][3] = 0.0f;
    }
};

/* What is subtracted of scores of which `max` is the largest; where none is seen, nothing. */
__device__ __forceinline__ float offset_of(float max) {
    return max == -INFINITY ? 0.0f : max;
}

/* Scores become weights, in pairs as operands; `keep`: what the sums of the keys before are multiplied by. */
template <typename SHAPE>
__device__ __forceinline__ void weigh_keys(span_sums<SHAPE> &sums, float keep[2],
                                           uint32_t weights[KEYS / 16][4],
                                           const float score[KEYS / 8][4], float factor) {
    float less[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float max = sums.max[j];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
            max = fmaxf(max, fmaxf(score[n][2 * j], score[n][2 * j + 1]));
#pragma unroll
        for (int width = 1; width < 4; width *= 2)
            max = fmaxf(max, __shfl_xor_sync(FULL_WARP, max, width));
        keep[j] = power_of_2((sums.max[j] - offset_of(max)) * factor);
        less[j] = -offset_of(max) * factor;
        sums.max[j] = max;
        sums.total[j] *= keep[j];
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
        float w[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            w[e] = power_of_2(fmaf(score[n][e], factor, less[e / 2]));
            sums.total[e / 2] += w[e];
        }
        weights[n / 2][n % 2 * 2] = half2_of(w[0], w[1]);
        weights[n / 2][n % 2 * 2 + 1] = half2_of(w[2], w[3]);
    }
}

template <typename SHAPE>
__device__ __forceinline__ void add_values(span_sums<SHAPE> &sums, const float keep[2],
                                           const uint32_t weights[KEYS / 16][4],
                                           const attend_memory<SHAPE> &s) {
    const uint32_t lane = threadIdx.x % WARP;
    const uint4 *rows = &s.v[lane % 16][lane / 16];
#pragma unroll
    for (uint32_t n = 0; n < SHAPE::planes; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sums.values[n][e] *= keep[e / 2];
#pragma unroll
    for (uint32_t step = 0; step < KEYS / 16; step++)
#pragma unroll
        for (uint32_t n = 0; n < SHAPE::planes; n += 2) {
            uint32_t v[4];
            ldmatrix_x4_trans(v, rows + step * 16 * (SHAPE::planes + 1) + n);
            mma_m16n8k16_f16_f32(sums.values[n], weights[step], v);
            mma_m16n8k16_f16_f32(sums.values[n + 1], weights[step], v + 2);
        }
}

/* The sums of the weights over a query's four lanes. */
template <typename SHAPE> __device__ __forceinline__ void span_end(span_sums<SHAPE> &sums) {
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int width = 1; width < 4; width *= 2)
            sums.total[j] += __shfl_xor_sync(FULL_WARP, sums.total[j], width);
}

/* Where the sums of a query of a split tile lie, span after span of those n_spans that its token has. */
__device__ __forceinline__ size_t split_place(const gpu_attend &what, uint32_t tile,
                                              uint32_t n_spans, uint32_t kv_head, uint32_t i) {
    return (size_t)what.places[tile] * what.heads.n_kv_heads * what.few +
           (size_t)(kv_head * what.few + i) * n_spans;
}

/* A span comes to those before it: what these, and its own sums, are multiplied by. */
struct span_join {
    float keep;
    float add;
};

__device__ __forceinline__ span_join join_span(float &max, float &total, float max_of_span,
                                               float total_of_span, float factor) {
    float both = fmaxf(max, max_of_span), less = offset_of(both);
    span_join join = {power_of_2((max - less) * factor), power_of_2((max_of_span - less) * factor)};
    max = both;
    total = fmaf(total, join.keep, total_of_span * join.add);
    return join;
}

/* A query's result: a zero has no sign, for that may depend on what others of a tile see. */
__device__ __forceinline__ float joined(float sum, float inverse) {
    return sum * inverse + 0.0f;
}

} // namespace GPU_NAMESPACE
