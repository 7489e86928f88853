/* Attention over blocks of keys and values, in the order of kernels/ref: chunks of 256 positions counted from 0,
 * each with its own largest score; then the chunks of a query joined one after the other.
 *
 * A block takes one chunk for up to QUERIES queries that read the same keys: tokens of a sequence,
 * query heads of one key head. Nothing that no query sees is read: blocks before a window, or behind
 * the last position, may name nothing. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/limits.h"

namespace GPU_NAMESPACE {

#define ATTEND_THREADS 256 /* a key each; half a warp a query */

template <int QUERIES> struct attend_shared {
    float q[QUERIES][HEAD_DIM_MAX];
    float p[QUERIES][ATTEND_CHUNK];
    float max[QUERIES][ATTEND_THREADS / WARP];
    uint32_t block[ATTEND_CHUNK / KV_BLOCK_TOKENS]; /* numbers of the chunk's blocks */
    uint32_t token[QUERIES];
    uint32_t head[QUERIES];
    uint32_t begin[QUERIES]; /* keys of the chunk that the query sees: [begin, end), from 0 */
    uint32_t end[QUERIES];
};

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

/* Query i of the tile: which token and head, and which keys of the chunk it sees. */
template <int QUERIES>
__device__ __forceinline__ void place_query(attend_shared<QUERIES> &s, const gpu_attend &what,
                                            const gpu_tile &tile, uint32_t i, uint32_t chunk) {
    uint32_t group = what.heads.n_heads / what.heads.n_kv_heads;
    uint32_t number = tile.first + i;
    uint32_t token = what.batch.seq_begin[tile.seq] + number / group;
    uint32_t position = what.batch.positions[token], base = chunk * ATTEND_CHUNK;
    uint32_t first = first_seen(what, position);
    s.token[i] = token;
    s.head[i] = blockIdx.y * group + number % group;
    s.begin[i] = first > base ? first - base : 0;
    s.end[i] = position < base || position == GPU_NO_TOKEN ? 0
               : position - base + 1 > ATTEND_CHUNK        ? ATTEND_CHUNK
                                                           : position - base + 1;
    if (s.begin[i] >= s.end[i])
        s.begin[i] = s.end[i] = 0;
}

template <kv_format FORMAT> __device__ __forceinline__ float load_kv(const char *block, size_t at) {
    return FORMAT == KV_F32 ? ((const float *)block)[at]
                            : half_float(((const uint16_t *)block)[at]);
}

/* The scores of key j for all queries, into s.p. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void score_key(attend_shared<QUERIES> &s, const gpu_attend &what,
                                          uint32_t n_queries, uint32_t chunk, uint32_t j) {
    uint32_t dim = what.heads.head_dim;
    const char *block =
        (const char *)what.kv.base + (size_t)s.block[j / KV_BLOCK_TOKENS] * what.kv.block_bytes;
    size_t first = (size_t)blockIdx.y * dim * KV_BLOCK_TOKENS + j % KV_BLOCK_TOKENS;
    float dots[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; i++)
        dots[i] = 0.0f;
    [[maybe_unused]] const int unrolled = QUERIES > 8 ? 8 : 32; /* as registers allow */
#pragma unroll unrolled
    for (uint32_t d = 0; d < dim; d++) {
        size_t at = first + (size_t)d * KV_BLOCK_TOKENS;
        float k = load_kv<FORMAT>(block, at);
#pragma unroll
        for (int i = 0; i < QUERIES; i++)
            dots[i] = fmaf(s.q[i][d], k, dots[i]);
    }
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        if ((uint32_t)i >= n_queries || j < s.begin[i] || j >= s.end[i])
            continue;
        float score = dots[i] * what.scale;
        uint32_t position = what.batch.positions[s.token[i]];
        if (what.alibi)
            score = fmaf(what.alibi[s.head[i]],
                         (float)((int32_t)(chunk * ATTEND_CHUNK + j) - (int32_t)position), score);
        s.p[i][j] = score;
    }
}

/* Scores become weights; their largest and their sum go to the chunk's place. */
template <int QUERIES>
__device__ __forceinline__ void weigh_keys(attend_shared<QUERIES> &s, const gpu_attend &what,
                                           uint32_t n_queries, uint32_t chunk) {
    uint32_t j = threadIdx.x, lane = j % WARP;
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        bool seen = (uint32_t)i < n_queries && j >= s.begin[i] && j < s.end[i];
        float max = seen ? s.p[i][j] : -INFINITY;
        for (int width = 16; width > 0; width /= 2) {
            float other = __shfl_xor_sync(FULL_WARP, max, width);
            max = max > other ? max : other;
        }
        if (lane == 0)
            s.max[i][j / WARP] = max;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        float max = -INFINITY;
        for (int w = 0; w < ATTEND_THREADS / (int)WARP; w++)
            max = max > s.max[i][w] ? max : s.max[i][w];
        if ((uint32_t)i >= n_queries)
            continue;
        bool seen = j >= s.begin[i] && j < s.end[i];
        s.p[i][j] = seen ? numbers_exp(s.p[i][j] - max) : 0.0f;
        if (j == 0)
            what.maxima[place_of(what, chunk, s.token[i], s.head[i])] = max;
    }
    __syncthreads();
    uint32_t i = threadIdx.x / 16; /* half a warp a query; lanes by position, in rising order */
    float sum = 0.0f;
    for (uint32_t k = threadIdx.x % 16; i < n_queries && k < ATTEND_CHUNK; k += 16)
        sum += s.p[i][k];
    sum = half_warp_tree(sum);
    if (i < n_queries && threadIdx.x % 16 == 0)
        what.totals[place_of(what, chunk, s.token[i], s.head[i])] = sum;
}

/* The weighted values of dimension d for queries i0, i0 + step ... */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void add_values(attend_shared<QUERIES> &s, const gpu_attend &what,
                                           uint32_t n_queries, uint32_t chunk, uint32_t d,
                                           uint32_t begin, uint32_t end) {
    uint32_t dim = what.heads.head_dim, n_kv = what.heads.n_kv_heads;
    float sums[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; i++)
        sums[i] = 0.0f;
    uint32_t from = 0, to = ATTEND_CHUNK; /* what all queries see */
    for (uint32_t i = 0; i < n_queries; i++) {
        from = s.begin[i] > from ? s.begin[i] : from;
        to = s.end[i] < to ? s.end[i] : to;
    }
    for (uint32_t b = begin / KV_BLOCK_TOKENS; b * KV_BLOCK_TOKENS < end; b++) {
        const char *block = (const char *)what.kv.base + (size_t)s.block[b] * what.kv.block_bytes;
        size_t first = (size_t)(n_kv + blockIdx.y) * KV_BLOCK_TOKENS * dim + d;
        uint32_t base = b * KV_BLOCK_TOKENS;
        if (base < from || base + KV_BLOCK_TOKENS > to) { /* at an edge */
            uint32_t last = base + KV_BLOCK_TOKENS < end ? base + KV_BLOCK_TOKENS : end;
            for (uint32_t j = base < begin ? begin : base; j < last; j++) {
                float v = load_kv<FORMAT>(block, first + (size_t)(j - base) * dim);
#pragma unroll
                for (int i = 0; i < QUERIES; i++)
                    if (j >= s.begin[i] && j < s.end[i])
                        sums[i] = fmaf(s.p[i][j], v, sums[i]);
            }
            continue;
        }
        float v[KV_BLOCK_TOKENS]; /* all of them under way before one is used */
#pragma unroll
        for (uint32_t j = 0; j < KV_BLOCK_TOKENS; j++)
            v[j] = load_kv<FORMAT>(block, first + (size_t)j * dim);
#pragma unroll
        for (uint32_t j = 0; j < KV_BLOCK_TOKENS; j++)
#pragma unroll
            for (int i = 0; i < QUERIES; i++)
                sums[i] = fmaf(s.p[i][base + j], v[j], sums[i]);
    }
#pragma unroll
    for (int i = 0; i < QUERIES; i++)
        if ((uint32_t)i < n_queries)
            what.sums[place_of(what, chunk, s.token[i], s.head[i]) * dim + d] = sums[i];
}

/* Grid: tiles, key heads, chunks. */
template <int QUERIES, kv_format FORMAT>
__global__ void __launch_bounds__(ATTEND_THREADS, 2) attend_kernel(gpu_attend what) {
    SHARED(attend_shared<QUERIES>, s);
    const gpu_tile &tile = what.tiles[blockIdx.x];
    uint32_t chunk = blockIdx.z, dim = what.heads.head_dim;
    uint32_t n_all = what.heads.n_heads + 2 * what.heads.n_kv_heads;
    if (threadIdx.x < QUERIES) {
        if (threadIdx.x < tile.n)
            place_query<QUERIES>(s, what, tile, threadIdx.x, chunk);
        else
            s.begin[threadIdx.x] = s.end[threadIdx.x] = 0;
    }
    __syncthreads();
    uint32_t begin = ATTEND_CHUNK, end = 0; /* keys that any query sees */
    for (uint32_t i = 0; i < tile.n; i++) {
        if (s.begin[i] == s.end[i])
            continue;
        begin = s.begin[i] < begin ? s.begin[i] : begin;
        end = s.end[i] > end ? s.end[i] : end;
    }
    if (begin >= end)
        return; /* the whole block */
    for (uint32_t i = 0; i < QUERIES; i++)
        for (uint32_t d = threadIdx.x; d < dim; d += ATTEND_THREADS)
            s.q[i][d] =
                i < tile.n ? what.qkv[((size_t)s.token[i] * n_all + s.head[i]) * dim + d] : 0.0f;
    if (threadIdx.x >= begin / KV_BLOCK_TOKENS && threadIdx.x * KV_BLOCK_TOKENS < end)
        s.block[threadIdx.x] =
            what.batch.block_tables[(size_t)tile.seq * what.batch.block_table_stride +
                                    chunk * (ATTEND_CHUNK / KV_BLOCK_TOKENS) + threadIdx.x];
    __syncthreads();
    if (threadIdx.x >= begin && threadIdx.x < end)
        score_key<QUERIES, FORMAT>(s, what, tile.n, chunk, threadIdx.x);
    __syncthreads();
    weigh_keys<QUERIES>(s, what, tile.n, chunk);
    for (uint32_t d = threadIdx.x; d < dim; d += ATTEND_THREADS)
        add_values<QUERIES, FORMAT>(s, what, tile.n, chunk, d, begin, end);
}

#define JOIN_THREADS 128

/* Grid: tokens, heads. Joins the chunks of a query in rising order. */
__global__ void __launch_bounds__(JOIN_THREADS) join_kernel(gpu_attend what) {
    uint32_t t = what.token_begin + blockIdx.x, h = blockIdx.y, dim = what.heads.head_dim;
    uint32_t position = what.batch.positions[t];
    if (position == GPU_NO_TOKEN)
        return; /* the whole block */
    uint32_t begin = first_seen(what, position) / ATTEND_CHUNK, end = position / ATTEND_CHUNK + 1;
    for (uint32_t d = threadIdx.x; d < dim; d += JOIN_THREADS) {
        size_t at = place_of(what, begin, t, h);
        float max = what.maxima[at], total = what.totals[at], out = what.sums[at * dim + d];
        for (uint32_t c = begin + 1; c < end; c++) {
            at = place_of(what, c, t, h);
            float chunk_max = what.maxima[at];
            float both = max > chunk_max ? max : chunk_max;
            float keep = numbers_exp(max - both), add = numbers_exp(chunk_max - both);
            total = fmaf(total, keep, what.totals[at] * add);
            out = fmaf(out, keep, what.sums[at * dim + d] * add);
            max = both;
        }
        what.out[((size_t)t * what.heads.n_heads + h) * dim + d] = out / total;
    }
}

template <int QUERIES>
static void attend_launch(struct device_stream *stream, const gpu_attend *what) {
    gpu_launch(stream, dim3(what->n_tiles, what->heads.n_kv_heads, what->n_chunks),
               dim3(ATTEND_THREADS), sizeof(attend_shared<QUERIES>),
               what->kv.format == KV_F32 ? attend_kernel<QUERIES, KV_F32>
                                         : attend_kernel<QUERIES, KV_F16>,
               *what);
}

void attend(struct device_stream *stream, const gpu_attend *what) {
    if (what->n_tiles == 0)
        return;
    if (what->queries <= 1)
        attend_launch<1>(stream, what);
    else if (what->queries <= 4)
        attend_launch<4>(stream, what);
    else if (what->queries <= 8)
        attend_launch<8>(stream, what);
    else
        attend_launch<GPU_QUERIES>(stream, what);
    gpu_launch(stream, dim3(what->token_end - what->token_begin, what->heads.n_heads),
               dim3(JOIN_THREADS), 0, join_kernel, *what);
}

} // namespace GPU_NAMESPACE
