/* Attention of many queries over one chunk: limited by how many FMAs a GPU does.
 *
 * Keys, some dimensions of all of them at a time, and then values, some of them at a time, lie as floats
 * in one of two stages of shared memory; the next ones are in registers meanwhile. A thread has 8
 * queries and 8 keys, and then 8 queries and 4 dimensions. */
#include "kernels/cuda/gpu/attend_many_stage.h"

namespace GPU_NAMESPACE {

/* Where a thread's part of the products lies: two groups of four queries, and a column of keys or values. A warp
 * has 32 queries and 8 columns; neighbouring lanes share one, which is how the fewest reads of shared
 * memory serve it. */
struct many_place {
    uint32_t query;  /* the first four; four more are 16 behind */
    uint32_t column; /* of 32 */
    __device__ __forceinline__ many_place() {
        uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        query = warp % 2 * 32 + (lane % 2 + lane / 16 * 2) * 4;
        column = warp / 2 * 8 + lane / 2 % 8;
    }
};

/* The numbers of a thread's 8 queries in one row. */
__device__ __forceinline__ void load_row(float x[8], const float *row, uint32_t query) {
    *(float4 *)x = *(const float4 *)(row + query);
    *(float4 *)(x + 4) = *(const float4 *)(row + query + 16);
}

/* Number of query i of a thread in the tile. */
__device__ __forceinline__ uint32_t query_of(const many_place &place, uint32_t i) {
    return place.query + i % 4 + i / 4 * 16;
}

/* Dots go on over n dimensions of a stage; the queries' are the rows from `q` on. */
__device__ __forceinline__ void dot_stage(float dots[8][8], const float *stage,
                                          const float (*q)[ROW], const many_place &place,
                                          uint32_t n) {
    auto dot = [&](uint32_t d) {
        float x[8], k[8];
        const float *keys = stage + d * ATTEND_CHUNK + place.column * 4;
        load_row(x, q[d], place.query);
        *(float4 *)k = *(const float4 *)keys;
        *(float4 *)(k + 4) = *(const float4 *)(keys + ATTEND_CHUNK / 2);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                dots[i][j] = fmaf(x[i], k[j], dots[i][j]);
    };
    if (n < KEY_DIMS) {
        for (uint32_t d = 0; d < n; d++)
            dot(d);
        return;
    }
#pragma unroll 8
    for (uint32_t d = 0; d < KEY_DIMS; d++)
        dot(d);
}

/* All dots of the tile. */
template <kv_format FORMAT>
__device__ __forceinline__ void dot_keys(many_shared &s, many_source<FORMAT> &source,
                                         const many_place &place, bool works, float dots[8][8]) {
    uint32_t dim = source.what.heads.head_dim, n = (dim + KEY_DIMS - 1) / KEY_DIMS;
    source.fetch_keys(0);
    source.store_keys(s.stage[0]);
    for (uint32_t stage = 0; stage < n; stage++) {
        __syncthreads(); /* the stage is there, and no thread reads the one before */
        if (stage + 1 < n)
            source.fetch_keys(stage + 1);
        uint32_t d = stage * KEY_DIMS;
        if (works)
            dot_stage(dots, s.stage[stage % 2], s.rows + d, place, dim - d);
        if (stage + 1 < n)
            source.store_keys(s.stage[(stage + 1) % 2]);
    }
}

/* Dots become scores; the largest of each query among the warp's keys goes to s.max. */
__device__ __forceinline__ void find_max(many_shared &s, const gpu_attend &what,
                                         const many_place &place, uint32_t chunk,
                                         float scores[8][8]) {
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t number = query_of(place, i), begin = s.begin[number];
        uint32_t n = s.end[number] - begin;
        float max = -INFINITY;
#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            uint32_t key = place.column * 8 + j;
            if (key - begin >= n)
                continue;
            float score = scored(what, s.query[number], chunk, key, scores[i][j]);
            scores[i][j] = score;
            max = max > score ? max : score;
        }
#pragma unroll
        for (int width = 2; width < 16; width *= 2) {
            float other = __shfl_xor_sync(FULL_WARP, max, width);
            max = max > other ? max : other;
        }
        if (place.column % 8 == 0)
            s.max[place.column / 8][number] = max;
    }
}

/* Scores become weights, in s.rows. */
__device__ __forceinline__ void weigh_keys(many_shared &s, const many_place &place, bool works,
                                           float scores[8][8]) {
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t number = query_of(place, i), begin = s.begin[number];
        uint32_t n = s.end[number] - begin;
        float max = s.max[0][number];
#pragma unroll
        for (int w = 1; w < 4; w++)
            max = max > s.max[w][number] ? max : s.max[w][number];
#pragma unroll
        for (uint32_t j = 0; j < 8; j++)
            scores[i][j] = works && place.column * 8 + j - begin < n
                               ? numbers_exp(scores[i][j] - max)
                               : UNSEEN;
    }
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
        float *row = s.rows[place.column * 8 + j] + place.query;
        *(float4 *)row = make_float4(scores[0][j], scores[1][j], scores[2][j], scores[3][j]);
        *(float4 *)(row + 16) = make_float4(scores[4][j], scores[5][j], scores[6][j], scores[7][j]);
    }
}

/* The sums of the weights: half a warp four queries, lanes by position, in rising order. */
__device__ __forceinline__ void add_weights(many_shared &s, const gpu_attend &what,
                                            uint32_t n_queries, uint32_t chunk) {
    uint32_t first = threadIdx.x / 16 * 4;
    float sums[4] = {};
#pragma unroll
    for (uint32_t k = threadIdx.x % 16; k < ATTEND_CHUNK; k += 16) {
        float p[4];
        *(float4 *)p = *(const float4 *)(s.rows[k] + first);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[i] += p[i];
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        float total = half_warp_tree(sums[i]);
        if (threadIdx.x % 16 != i || first + i >= n_queries)
            continue;
        const attend_query &query = s.query[first + i];
        size_t at = place_of(what, chunk, query.token, query.head);
        float max = s.max[0][first + i];
        for (int w = 1; w < 4; w++)
            max = max > s.max[w][first + i] ? max : s.max[w][first + i];
        what.maxima[at] = max;
        what.totals[at] = s.total[first + i] = total;
    }
}

/* Sums go on over n keys of a stage, whose weights are the rows from `p` on. */
__device__ __forceinline__ void add_stage(float sums[8][4], const float *stage,
                                          const float (*p)[ROW], const many_place &place,
                                          uint32_t n, bool all_seen) {
    const float *values = stage + place.column * 4;
    if (!all_seen) {
        for (uint32_t j = 0; j < n; j++) {
            float x[8], v[4];
            load_row(x, p[j], place.query);
            *(float4 *)v = *(const float4 *)(values + j * VALUE_DIMS);
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (is_seen(x[i]))
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        sums[i][e] = fmaf(x[i], v[e], sums[i][e]);
        }
        return;
    }
#pragma unroll 8
    for (uint32_t j = 0; j < VALUE_KEYS; j++) {
        float x[8], v[4];
        load_row(x, p[j], place.query);
        *(float4 *)v = *(const float4 *)(values + j * VALUE_DIMS);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums[i][e] = fmaf(x[i], v[e], sums[i][e]);
    }
}

/* Four dimensions from d on of a query's results: those of the chunk, or all there is. */
__device__ __forceinline__ void store_four(const many_shared &s, const gpu_attend &what,
                                           uint32_t chunk, uint32_t number, uint32_t d,
                                           float x[4]) {
    uint32_t dim = what.heads.head_dim;
    const attend_query &query = s.query[number];
    float *to = what.sums + place_of(what, chunk, query.token, query.head) * dim + d;
    if (what.n_chunks == 1) {
        if (query.begin == query.end)
            return;
        to = what.out + ((size_t)query.token * what.heads.n_heads + query.head) * dim + d;
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = x[e] / s.total[number];
    }
    if (dim % 4 == 0) {
        *(float4 *)to = *(const float4 *)x;
        return;
    }
#pragma unroll
    for (uint32_t e = 0; e < 4; e++)
        if (d + e < dim)
            to[e] = x[e];
}

/* Adds the weighted values up and stores them, VALUE_DIMS dimensions at a time. */
template <kv_format FORMAT>
__device__ __forceinline__ void add_values(many_shared &s, many_source<FORMAT> &source,
                                           const many_place &place, uint32_t n_queries,
                                           uint32_t chunk, const attend_span &span) {
    const gpu_attend &what = source.what;
    uint32_t dim = what.heads.head_dim, d = place.column % 16 * 8 + place.column / 16 * 4;
    uint32_t b = source.block_begin, first = 0; /* of the stage */
    float sums[8][4] = {};
    for (uint32_t number = 0; first < dim; number++) {
        __syncthreads(); /* the stage is there, and no thread reads the one before */
        bool last = b + 2 >= source.block_end;
        uint32_t next_b = last ? source.block_begin : b + 2;
        uint32_t next_first = last ? first + VALUE_DIMS : first;
        if (next_first < dim)
            source.fetch_values(next_b, next_first);
        uint32_t key = b * KV_BLOCK_TOKENS, n = last ? source.block_end - b : 2;
        if (first + d < dim && place.query < n_queries)
            add_stage(sums, s.stage[number % 2], s.rows + key, place, n * KV_BLOCK_TOKENS,
                      key >= span.from && key + VALUE_KEYS <= span.to);
        if (next_first < dim)
            source.store_values(s.stage[(number + 1) % 2]);
        if (last) {
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                if (first + d < dim && query_of(place, i) < n_queries)
                    store_four(s, what, chunk, query_of(place, i), first + d, sums[i]);
                sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
            }
        }
        b = next_b;
        first = next_first;
    }
}

/* The queries, which keys they see, and the numbers of the chunk's blocks. */
__device__ __forceinline__ attend_span find_queries(many_shared &s, const gpu_attend &what,
                                                    const gpu_tile &tile, uint32_t chunk) {
    uint32_t t = threadIdx.x, b = chunk * BLOCKS_PER_CHUNK + t;
    if (t < BLOCKS_PER_CHUNK && b < what.batch.block_table_stride)
        s.block[t] = what.batch.block_tables[(size_t)tile.seq * what.batch.block_table_stride + b];
    if (t < GPU_QUERIES) { /* whole warps */
        attend_query query = {};
        attend_span span = {ATTEND_CHUNK, 0, 0, ATTEND_CHUNK};
        if (t < tile.n) {
            query = find_query(what, tile, t, chunk);
            span_add(span, query.begin, query.end);
        }
        s.query[t] = query;
        s.begin[t] = query.begin;
        s.end[t] = query.end;
#pragma unroll
        for (int width = 16; width > 0; width /= 2) {
            uint32_t begin = __shfl_xor_sync(FULL_WARP, span.begin, width);
            uint32_t end = __shfl_xor_sync(FULL_WARP, span.end, width);
            uint32_t from = __shfl_xor_sync(FULL_WARP, span.from, width);
            uint32_t to = __shfl_xor_sync(FULL_WARP, span.to, width);
            span = {min(span.begin, begin), max(span.end, end), max(span.from, from),
                    min(span.to, to)};
        }
        if (t % WARP == 0)
            s.span[t / WARP] = span;
    }
    __syncthreads();
    attend_span a = s.span[0], c = s.span[1];
    return {min(a.begin, c.begin), max(a.end, c.end), max(a.from, c.from), min(a.to, c.to)};
}

/* The queries by dimension: a warp has 8 of them. */
__device__ __forceinline__ void load_queries(many_shared &s, const gpu_attend &what,
                                             uint32_t n_queries) {
    uint32_t first = threadIdx.x / WARP * 8, dim = what.heads.head_dim;
    uint32_t n_all = what.heads.n_heads + 2 * what.heads.n_kv_heads;
    const float *from[8];
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        const attend_query &query = s.query[first + i < n_queries ? first + i : 0];
        from[i] = what.qkv + ((size_t)query.token * n_all + query.head) * dim;
    }
    for (uint32_t d = threadIdx.x % WARP; d < dim; d += WARP) {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = from[i][d];
        *(float4 *)&s.rows[d][first] = *(const float4 *)x;
        *(float4 *)&s.rows[d][first + 4] = *(const float4 *)(x + 4);
    }
}

/* Grid: tiles, key heads, chunks. */
template <kv_format FORMAT>
__global__ void __launch_bounds__(ATTEND_THREADS, 2) attend_many_kernel(gpu_attend what) {
    SHARED(many_shared, s);
    const gpu_tile tile = what.tiles[blockIdx.x];
    const many_place place;
    uint32_t chunk = blockIdx.z;
    if (tile.n <= what.few)
        return; /* the whole block */
    attend_span span = find_queries(s, what, tile, chunk);
    if (span.begin >= span.end)
        return;                           /* the whole block */
    uint32_t key = place.column / 8 * 64; /* of the warp */
    bool works = key < span.end && key + 64 > span.begin && place.query / 32 * 32 < tile.n;
    many_source<FORMAT> source = {what,
                                  s,
                                  span.begin / KV_BLOCK_TOKENS,
                                  (span.end + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS,
                                  {}};
    float dots[8][8] = {};
    load_queries(s, what, tile.n);
    dot_keys<FORMAT>(s, source, place, works, dots);
    source.fetch_values(source.block_begin, 0);
    find_max(s, what, place, chunk, dots);
    __syncthreads(); /* the queries and the keys are done with */
    source.store_values(s.stage[0]);
    weigh_keys(s, place, works, dots);
    __syncthreads();
    add_weights(s, what, tile.n, chunk);
    add_values<FORMAT>(s, source, place, tile.n, chunk, span);
}

void attend_many(struct device_stream *stream, const gpu_attend *what) {
    gpu_launch(stream, dim3(what->n_tiles, what->heads.n_kv_heads, what->n_chunks),
               dim3(ATTEND_THREADS), sizeof(many_shared),
               what->kv.format == KV_F32 ? attend_many_kernel<KV_F32> : attend_many_kernel<KV_F16>,
               *what);
}

} // namespace GPU_NAMESPACE
