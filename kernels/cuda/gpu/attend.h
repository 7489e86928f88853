/* kernels/cuda/gpu/attend.h: what the kernels of attention share. All of them keep the order of kernels/ref: chunks of 256
 * positions counted from 0, each with its own largest score; then the chunks of a query joined one
 * after the other.
 *
 * A block takes one chunk for queries of a tile: tokens of a sequence, query heads of one key head. Nothing
 * that no query sees is read: blocks before a window, or behind the last position, may name
 * nothing, and slots that were never written may hold NaN. The weight of a key that a query does not see is
 * UNSEEN: a chain leaves it out where it may meet one, and the sum of the weights does not change. */
#pragma once

#include "kernels/cuda/gpu/kernels.h"
#include "kernels/limits.h"

namespace GPU_NAMESPACE {

#define ATTEND_THREADS   256 /* a key each */
#define ATTEND_WARPS     (ATTEND_THREADS / WARP)
#define BLOCKS_PER_CHUNK (ATTEND_CHUNK / KV_BLOCK_TOKENS)
#define UNSEEN           (-0.0f)

template <kv_format FORMAT> struct kv_number { typedef uint16_t type; };
template <> struct kv_number<KV_F32> { typedef float type; };

__device__ __forceinline__ float kv_value(uint16_t x) {
    return half_float(x);
}
__device__ __forceinline__ float kv_value(float x) {
    return x;
}

__device__ __forceinline__ bool is_seen(float weight) {
    return __float_as_uint(weight) != 0x80000000u;
}

/* Where a query's results of a chunk lie. */
__device__ __forceinline__ size_t place_of(const gpu_attend &what, uint32_t chunk, uint32_t token,
                                           uint32_t head) {
    uint32_t n_tokens = what.token_end - what.token_begin;
    return ((size_t)chunk * n_tokens + token - what.token_begin) * what.heads.n_heads + head;
}

/* The first position that a query sees. */
__device__ __forceinline__ uint32_t first_seen(const gpu_attend &what, uint32_t position) {
    return what.window != 0 && position >= what.window ? position - what.window + 1 : 0;
}

/* A query of a tile: its token and head, and which keys of the chunk it sees: [begin, end), from 0. */
struct attend_query {
    uint32_t token;
    uint32_t head;
    uint32_t position;
    uint32_t begin;
    uint32_t end;
};

__device__ __forceinline__ attend_query find_query(const gpu_attend &what, const gpu_tile &tile,
                                                   uint32_t i, uint32_t chunk) {
    uint32_t group = what.heads.n_heads / what.heads.n_kv_heads, number = tile.first + i;
    attend_query query;
    query.token = tile.token + number / group;
    query.head = blockIdx.y * group + number % group;
    query.position = what.batch.positions[query.token];
    uint32_t base = chunk * ATTEND_CHUNK, first = first_seen(what, query.position);
    uint32_t behind = query.position - base + 1;
    query.begin = first > base ? first - base : 0;
    query.end = query.position < base || query.position == GPU_NO_TOKEN ? 0
                : behind > ATTEND_CHUNK                                 ? ATTEND_CHUNK
                                                                        : behind;
    if (query.begin >= query.end)
        query.begin = query.end = 0;
    return query;
}

/* Keys of a chunk: [begin, end), that any query of a tile sees; [from, to), that all do. */
struct attend_span {
    uint32_t begin;
    uint32_t end;
    uint32_t from;
    uint32_t to;
};

/* What the query sees comes to the span; that of no query is {ATTEND_CHUNK, 0, 0, ATTEND_CHUNK}. */
__device__ __forceinline__ void span_add(attend_span &span, uint32_t begin, uint32_t end) {
    span.from = begin > span.from ? begin : span.from;
    span.to = end < span.to ? end : span.to;
    if (begin == end)
        return;
    span.begin = begin < span.begin ? begin : span.begin;
    span.end = end > span.end ? end : span.end;
}

__device__ __forceinline__ float scored(const gpu_attend &what, const attend_query &query,
                                        uint32_t chunk, uint32_t j, float dot) {
    float score = dot * what.scale;
    if (what.alibi)
        score = fmaf(what.alibi[query.head],
                     (float)((int32_t)(chunk * ATTEND_CHUNK + j) - (int32_t)query.position), score);
    return score;
}

/* Tiles of at most what->few queries, and the others: each leaves those of the other out. */
void attend_few(struct device_stream *stream, const gpu_attend *what);
void attend_many(struct device_stream *stream, const gpu_attend *what);

} // namespace GPU_NAMESPACE
