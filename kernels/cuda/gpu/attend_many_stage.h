/* kernels/cuda/gpu/attend_many_stage.h: what the blocks of attend_many.cu hold in shared memory, and how keys and values come
 * there. Included by attend_many.cu alone. */
#pragma once

#include "kernels/cuda/gpu/attend.h"

namespace GPU_NAMESPACE {

#define KEY_DIMS   16  /* dimensions of a stage of keys */
#define VALUE_KEYS 32  /* keys of a stage of values: two blocks */
#define VALUE_DIMS 128 /* and their dimensions; more are taken one part after the other */
#define STAGE      (KEY_DIMS * ATTEND_CHUNK)
#define ROW        (GPU_QUERIES + 4) /* so that eight rows begin in different banks */

struct many_shared {
    alignas(16) float stage[2][STAGE];
    alignas(16) float rows[ATTEND_CHUNK][ROW]; /* queries by dimension, then weights by key */
    alignas(16) float max[4][GPU_QUERIES];     /* by warps that have the same keys */
    alignas(16) float total[GPU_QUERIES];
    alignas(16) uint32_t begin[GPU_QUERIES];
    alignas(16) uint32_t end[GPU_QUERIES];
    attend_query query[GPU_QUERIES];
    attend_span span[GPU_QUERIES / WARP];
    uint32_t block[BLOCKS_PER_CHUNK];
};

/* 8 neighbouring numbers of the cache on their way. */
template <kv_format FORMAT> struct eight;
template <> struct eight<KV_F16> {
    uint4 raw;
    __device__ __forceinline__ void load(const uint16_t *from) {
        raw = *(const uint4 *)from;
    }
    __device__ __forceinline__ void load_some(const uint16_t *from, uint32_t n) {
        uint32_t x[4] = {0, 0, 0, 0};
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            if (i < n)
                x[i / 2] |= (uint32_t)from[i] << i % 2 * 16;
        raw = make_uint4(x[0], x[1], x[2], x[3]);
    }
    __device__ __forceinline__ float4 four(int e) const {
        uint32_t a = e ? raw.z : raw.x, b = e ? raw.w : raw.y;
        return make_float4(half_float((uint16_t)a), half_float((uint16_t)(a >> 16)),
                           half_float((uint16_t)b), half_float((uint16_t)(b >> 16)));
    }
};
template <> struct eight<KV_F32> {
    float4 raw[2];
    __device__ __forceinline__ void load(const float *from) {
        raw[0] = ((const float4 *)from)[0];
        raw[1] = ((const float4 *)from)[1];
    }
    __device__ __forceinline__ void load_some(const float *from, uint32_t n) {
        float x[8];
#pragma unroll
        for (uint32_t i = 0; i < 8; i++)
            x[i] = i < n ? from[i] : 0.0f;
        raw[0] = make_float4(x[0], x[1], x[2], x[3]);
        raw[1] = make_float4(x[4], x[5], x[6], x[7]);
    }
    __device__ __forceinline__ float4 four(int e) const {
        return raw[e];
    }
};

/* What the stages are filled with, two pieces of 8 numbers a thread. */
template <kv_format FORMAT> struct many_source {
    typedef typename kv_number<FORMAT>::type number;
    const gpu_attend &what;
    const many_shared &s;
    uint32_t block_begin;
    uint32_t block_end;
    eight<FORMAT> next[2];

    __device__ __forceinline__ const number *block(uint32_t b, uint32_t head) const {
        return (const number *)((const char *)what.kv.base +
                                (size_t)s.block[b] * what.kv.block_bytes) +
               (size_t)head * what.heads.head_dim * KV_BLOCK_TOKENS;
    }
    __device__ __forceinline__ bool has(uint32_t b) const {
        return b >= block_begin && b < block_end;
    }
    /* Lane l has 8 keys from 8 l on; a warp has two dimensions of the stage. */
    __device__ __forceinline__ void fetch_keys(uint32_t stage) {
        uint32_t b = threadIdx.x % WARP / 2, d = stage * KEY_DIMS + threadIdx.x / WARP;
        if (!has(b))
            return;
        const number *from = block(b, blockIdx.y) + threadIdx.x % 2 * 8;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            if (d + i * 8 < what.heads.head_dim)
                next[i].load(from + (size_t)(d + i * 8) * KV_BLOCK_TOKENS);
    }
    /* The keys of a column, 8 neighbours, lie half a row apart, so that those of other columns fill the banks. */
    __device__ __forceinline__ void store_keys(float *to) const {
        to += threadIdx.x / WARP * ATTEND_CHUNK + threadIdx.x % WARP * 4;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                *(float4 *)(to + i * 8 * ATTEND_CHUNK + e * (ATTEND_CHUNK / 2)) = next[i].four(e);
    }
    /* 16 threads have a key of each of two blocks from b on: 8 dimensions each. */
    __device__ __forceinline__ void fetch_values(uint32_t b, uint32_t first) {
        uint32_t dim = what.heads.head_dim, d = first + threadIdx.x % 16 * 8;
        if (d >= dim)
            return;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            if (!has(b + i))
                continue;
            const number *from = block(b + i, what.heads.n_kv_heads + blockIdx.y) +
                                 (size_t)(threadIdx.x / 16) * dim + d;
            if (dim % 8 == 0)
                next[i].load(from);
            else
                next[i].load_some(from, dim - d);
        }
    }
    __device__ __forceinline__ void store_values(float *to) const {
        to += threadIdx.x / 16 * VALUE_DIMS + threadIdx.x % 16 * 4;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                *(float4 *)(to + i * KV_BLOCK_TOKENS * VALUE_DIMS + e * (VALUE_DIMS / 2)) =
                    next[i].four(e);
    }
};

} // namespace GPU_NAMESPACE
