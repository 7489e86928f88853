/* Attention of a few queries over one chunk: limited by how fast keys and values come from memory.
 *
 * They come through a ring of stages in shared memory that cp.async fills: parts of the keys, some
 * dimensions of all of them, and then parts of the values, some blocks of all dimensions, which
 * are under way while the scores are made. A thread has a key, and then a dimension, for all queries. */
#include "kernels/cuda/gpu/attend.h"

namespace GPU_NAMESPACE {

#define STAGE_PIECES 1024                              /* of 16 bytes */
#define KEY_PIECES   (STAGE_PIECES / BLOCKS_PER_CHUNK) /* of a block, in a part of the keys */

/* A part of the keys: [block][d][slot], with a row of slots between blocks, so that the keys of a warp
 * lie in different banks. */
template <kv_format FORMAT> struct few_keys {
    typedef typename kv_number<FORMAT>::type number;
    static const uint32_t row_pieces = KV_BLOCK_TOKENS * sizeof(number) / 16;
    static const uint32_t dims = KEY_PIECES / row_pieces; /* of a part */
    static const uint32_t block_numbers = (dims + 1) * KV_BLOCK_TOKENS;
    static const uint32_t stage_numbers = BLOCKS_PER_CHUNK * block_numbers;
};

template <int QUERIES, kv_format FORMAT> struct few_attend_shared {
    typedef typename kv_number<FORMAT>::type number;
    static const uint32_t n_stages = QUERIES <= 4 ? 6 : QUERIES <= 8 ? 5 : 4; /* two blocks fit */
    alignas(16) number stages[n_stages][few_keys<FORMAT>::stage_numbers];
    alignas(16) float q[HEAD_DIM_MAX][QUERIES];
    alignas(16) float p[ATTEND_CHUNK][QUERIES];
    alignas(16) float max[QUERIES][ATTEND_WARPS];
    float total[QUERIES];
    uint32_t block[BLOCKS_PER_CHUNK]; /* numbers of the chunk's blocks */
    attend_query query[QUERIES];
};

/* What the stages are filled with: 64 threads have a block, every fourth of them. */
template <int QUERIES, kv_format FORMAT> struct few_parts {
    typedef few_attend_shared<QUERIES, FORMAT> shared;
    typedef few_keys<FORMAT> keys;
    static const uint32_t teams = ATTEND_THREADS / KEY_PIECES;
    const gpu_attend &what;
    shared &s;
    uint32_t block_begin; /* of the chunk: those that any query sees */
    uint32_t block_end;
    uint32_t value_pieces;                           /* of a block */
    uint32_t value_blocks;                           /* of a part of the values */
    const char *next_keys[BLOCKS_PER_CHUNK / teams]; /* this thread's pieces of the next part */
    bool has[BLOCKS_PER_CHUNK / teams];
    uint32_t piece;      /* of a block: this thread's first */
    uint32_t next_piece; /* of a block's keys; then all are fetched */
    uint32_t next_block; /* of the values */
    uint32_t next_stage;

    __device__ __forceinline__ few_parts(const gpu_attend &what_, shared &s_,
                                         const attend_span &span)
        : what(what_), s(s_), block_begin(span.begin / KV_BLOCK_TOKENS),
          block_end((span.end + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS),
          value_pieces(what_.heads.head_dim * keys::row_pieces),
          value_blocks(STAGE_PIECES / value_pieces), piece(threadIdx.x % KEY_PIECES), next_piece(0),
          next_block(block_begin), next_stage(0) {
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS_PER_CHUNK / teams; i++) {
            uint32_t b = threadIdx.x / KEY_PIECES + i * teams;
            has[i] = b >= block_begin && b < block_end;
            next_keys[i] = block(has[i] ? b : block_begin, blockIdx.y) + piece * 16;
        }
    }

    __device__ __forceinline__ const char *block(uint32_t b, uint32_t head) const {
        return (const char *)what.kv.base + (size_t)s.block[b] * what.kv.block_bytes +
               (size_t)head * value_pieces * 16;
    }

    /* The next part; there is always one more to wait for, so that a wait counts them. */
    __device__ __forceinline__ void fetch() {
        char *to = (char *)s.stages[next_stage];
        if (next_piece < value_pieces)
            fetch_keys(to);
        else if (next_block < block_end)
            fetch_values(to);
        next_stage = next_stage + 1 < shared::n_stages ? next_stage + 1 : 0;
        cp_async_commit();
    }

    __device__ __forceinline__ void fetch_keys(char *to) {
        const uint32_t block_bytes = keys::block_numbers * sizeof(typename shared::number);
        to += threadIdx.x / KEY_PIECES * block_bytes + piece * 16;
        bool there = next_piece + piece < value_pieces;
#pragma unroll
        for (uint32_t i = 0; i < BLOCKS_PER_CHUNK / teams; i++) {
            if (there && has[i])
                cp_async_16(to + i * teams * block_bytes, next_keys[i]);
            next_keys[i] += KEY_PIECES * 16;
        }
        next_piece += KEY_PIECES;
    }

    __device__ __forceinline__ void fetch_values(char *to) {
        uint32_t n = block_end - next_block;
        n = n < value_blocks ? n : value_blocks;
        for (uint32_t b = threadIdx.x / KEY_PIECES; b < n; b += teams) {
            const char *from =
                block(next_block + b, what.heads.n_kv_heads + blockIdx.y) + piece * 16;
            char *at = to + (b * value_pieces + piece) * 16;
            for (uint32_t i = piece; i < value_pieces; i += 4 * KEY_PIECES) {
#pragma unroll
                for (uint32_t k = 0; k < 4; k++)
                    if (i + k * KEY_PIECES < value_pieces)
                        cp_async_16(at + k * KEY_PIECES * 16, from + k * KEY_PIECES * 16);
                from += 4 * KEY_PIECES * 16;
                at += 4 * KEY_PIECES * 16;
            }
        }
        next_block += n;
    }
};

/* Numbers of all queries for some rows (dimensions or keys) in a row, by loads of 16 bytes. */
template <int QUERIES> struct few_rows {
    static const int n = QUERIES < 4 ? 4 / QUERIES : 1;
    float4 x[n * QUERIES / 4];
    __device__ __forceinline__ explicit few_rows(const float *from) {
#pragma unroll
        for (int i = 0; i < n * QUERIES / 4; i++)
            x[i] = ((const float4 *)from)[i];
    }
    __device__ __forceinline__ float at(int row, int i) const {
        int k = row * QUERIES + i;
        const float4 &four = x[k / 4];
        return k % 4 == 0 ? four.x : k % 4 == 1 ? four.y : k % 4 == 2 ? four.z : four.w;
    }
};

/* The dots of a key go on over n dimensions; `k` is its number of the first, `q` the queries'. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void dot_part(float dots[QUERIES],
                                         const typename kv_number<FORMAT>::type *k,
                                         const float (*q)[QUERIES], uint32_t n) {
    const int rows = few_rows<QUERIES>::n, dims = few_keys<FORMAT>::dims;
    if (n < dims) {
        for (uint32_t d = 0; d < n; d++)
#pragma unroll
            for (int i = 0; i < QUERIES; i++)
                dots[i] = fmaf(q[d][i], kv_value(k[d * KV_BLOCK_TOKENS]), dots[i]);
        return;
    }
#pragma unroll 8 / rows
    for (int d = 0; d < dims; d += rows) {
        const few_rows<QUERIES> some(q[d]);
#pragma unroll
        for (int r = 0; r < rows; r++) {
            float value = kv_value(k[(d + r) * KV_BLOCK_TOKENS]);
#pragma unroll
            for (int i = 0; i < QUERIES; i++)
                dots[i] = fmaf(some.at(r, i), value, dots[i]);
        }
    }
}

/* Dots of key j become scores, and these weights; the largest score of each query goes to the chunk's
 * place. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void weigh_key(few_attend_shared<QUERIES, FORMAT> &s,
                                          const gpu_attend &what, uint32_t n_queries,
                                          uint32_t chunk, float scores[QUERIES]) {
    uint32_t j = threadIdx.x;
    bool seen[QUERIES];
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        const attend_query &query = s.query[i];
        seen[i] = j >= query.begin && j < query.end;
        float max = -INFINITY;
        if (seen[i])
            max = scores[i] = scored(what, query, chunk, j, scores[i]);
#pragma unroll
        for (int width = 16; width > 0; width /= 2) {
            float other = __shfl_xor_sync(FULL_WARP, max, width);
            max = max > other ? max : other;
        }
        if (j % WARP == 0)
            s.max[i][j / WARP] = max;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        float max = -INFINITY;
#pragma unroll
        for (uint32_t w = 0; w < ATTEND_WARPS; w++)
            max = max > s.max[i][w] ? max : s.max[i][w];
        s.p[j][i] = seen[i] ? numbers_exp(scores[i] - max) : UNSEEN;
        if (j == 0 && (uint32_t)i < n_queries)
            what.maxima[place_of(what, chunk, s.query[i].token, s.query[i].head)] = max;
    }
    __syncthreads();
}

/* The sums of the weights: half a warp a query, the last threads first, which have no dimension; lanes by
 * position, in rising order. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void add_weights(few_attend_shared<QUERIES, FORMAT> &s,
                                            const gpu_attend &what, uint32_t n_queries,
                                            uint32_t chunk) {
    uint32_t i = (ATTEND_THREADS - 1 - threadIdx.x) / 16;
    if (i / 2 * 2 >= QUERIES)
        return; /* the whole warp */
    float sum = 0.0f;
#pragma unroll
    for (uint32_t k = threadIdx.x % 16; k < ATTEND_CHUNK; k += 16)
        sum += s.p[k][i < QUERIES ? i : 0];
    sum = half_warp_tree(sum);
    if (i >= n_queries || threadIdx.x % 16 != 0)
        return;
    s.total[i] = sum;
    what.totals[place_of(what, chunk, s.query[i].token, s.query[i].head)] = sum;
}

/* The weighted values of a dimension go on over one block; `v` is its value of the first key. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void add_block(float sums[QUERIES],
                                          const typename kv_number<FORMAT>::type *v, uint32_t dim,
                                          const float (*p)[QUERIES], bool all_seen) {
    const int rows = few_rows<QUERIES>::n;
    if (!all_seen) {
        for (uint32_t j = 0; j < KV_BLOCK_TOKENS; j++)
#pragma unroll
            for (int i = 0; i < QUERIES; i++)
                if (is_seen(p[j][i]))
                    sums[i] = fmaf(p[j][i], kv_value(v[j * dim]), sums[i]);
        return;
    }
#pragma unroll
    for (int j = 0; j < (int)KV_BLOCK_TOKENS; j += rows) {
        const few_rows<QUERIES> some(p[j]);
#pragma unroll
        for (int r = 0; r < rows; r++) {
            float value = kv_value(v[(uint32_t)(j + r) * dim]);
#pragma unroll
            for (int i = 0; i < QUERIES; i++)
                sums[i] = fmaf(some.at(r, i), value, sums[i]);
        }
    }
}

/* Dimension d of the results: those of the chunk, or all there is. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void store_sums(const few_attend_shared<QUERIES, FORMAT> &s,
                                           const gpu_attend &what, uint32_t n_queries,
                                           uint32_t chunk, uint32_t d, const float sums[QUERIES]) {
    uint32_t dim = what.heads.head_dim;
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        const attend_query &query = s.query[i];
        if ((uint32_t)i >= n_queries)
            continue;
        if (what.n_chunks > 1)
            what.sums[place_of(what, chunk, query.token, query.head) * dim + d] = sums[i];
        else if (query.begin < query.end)
            what.out[((size_t)query.token * what.heads.n_heads + query.head) * dim + d] =
                sums[i] / s.total[i];
    }
}

/* Which keys the queries see and the numbers of the chunk's blocks, of the step's arrays; and then the queries,
 * which a kernel before this one wrote. */
template <int QUERIES, kv_format FORMAT>
__device__ __forceinline__ void find_operands(few_attend_shared<QUERIES, FORMAT> &s,
                                              const gpu_attend &what, const gpu_tile &tile,
                                              uint32_t chunk) {
    uint32_t dim = what.heads.head_dim, group = what.heads.n_heads / what.heads.n_kv_heads;
    uint32_t n_all = what.heads.n_heads + 2 * what.heads.n_kv_heads;
    uint32_t t = threadIdx.x, b = chunk * BLOCKS_PER_CHUNK + t, i = ATTEND_THREADS - 1 - t;
    if (t < BLOCKS_PER_CHUNK && b < what.batch.block_table_stride)
        s.block[t] = what.batch.block_tables[(size_t)tile.seq * what.batch.block_table_stride + b];
    if (i < tile.n && i < QUERIES)
        s.query[i] = find_query(what, tile, i, chunk);
    else if (i < QUERIES)
        s.query[i] = {};
    griddep_wait();
    for (i = t / WARP; i < QUERIES; i += ATTEND_WARPS) {
        uint32_t number = tile.first + i, head = blockIdx.y * group + number % group;
        const float *q = what.qkv + ((size_t)(tile.token + number / group) * n_all + head) * dim;
        for (uint32_t d = t % WARP; d < dim; d += WARP)
            s.q[d][i] = i < tile.n ? q[d] : 0.0f;
    }
    __syncthreads();
}

/* Grid: tiles, key heads, chunks. */
template <int QUERIES, kv_format FORMAT>
__global__ void __launch_bounds__(ATTEND_THREADS, 2) attend_few_kernel(gpu_attend what) {
    typedef few_attend_shared<QUERIES, FORMAT> shared;
    typedef few_keys<FORMAT> keys;
    SHARED(shared, s);
    const gpu_tile tile = what.tiles[blockIdx.x];
    const uint32_t stages = shared::n_stages;
    uint32_t chunk = blockIdx.z, dim = what.heads.head_dim, t = threadIdx.x;
    griddep_launch();
    find_operands<QUERIES, FORMAT>(s, what, tile, chunk);
    if (tile.n > QUERIES)
        return; /* the whole block */
    attend_span span = {ATTEND_CHUNK, 0, 0, ATTEND_CHUNK};
#pragma unroll
    for (int i = 0; i < QUERIES; i++)
        if ((uint32_t)i < tile.n)
            span_add(span, s.query[i].begin, s.query[i].end);
    if (span.begin >= span.end)
        return; /* the whole block */
    few_parts<QUERIES, FORMAT> parts(what, s, span);
    for (uint32_t i = 0; i + 1 < stages; i++)
        parts.fetch();
    uint32_t stage = 0;
    float dots[QUERIES] = {};
    for (uint32_t d = 0; d < dim; d += keys::dims) {
        cp_async_wait<shared::n_stages - 2>();
        __syncthreads(); /* the part is there, and no thread reads the one before */
        parts.fetch();
        uint32_t b = t / KV_BLOCK_TOKENS, at = b * keys::block_numbers + t % KV_BLOCK_TOKENS;
        if (b >= parts.block_begin && b < parts.block_end)
            dot_part<QUERIES, FORMAT>(dots, s.stages[stage] + at, s.q + d, dim - d);
        stage = stage + 1 < stages ? stage + 1 : 0;
    }
    weigh_key<QUERIES, FORMAT>(s, what, tile.n, chunk, dots);
    add_weights<QUERIES, FORMAT>(s, what, tile.n, chunk);
    float sums[QUERIES] = {};
    for (uint32_t first = parts.block_begin; first < parts.block_end; first += parts.value_blocks) {
        cp_async_wait<shared::n_stages - 2>();
        __syncthreads();
        parts.fetch();
        const typename shared::number *v = s.stages[stage] + t;
        uint32_t n = parts.block_end - first;
        n = n < parts.value_blocks ? n : parts.value_blocks;
        for (uint32_t b = 0; t < dim && b < n; b++, v += KV_BLOCK_TOKENS * dim) {
            uint32_t key = (first + b) * KV_BLOCK_TOKENS;
            add_block<QUERIES, FORMAT>(sums, v, dim, s.p + key,
                                       key >= span.from && key + KV_BLOCK_TOKENS <= span.to);
        }
        stage = stage + 1 < stages ? stage + 1 : 0;
    }
    cp_async_wait<0>();
    if (t < dim)
        store_sums<QUERIES, FORMAT>(s, what, tile.n, chunk, t, sums);
}

template <int QUERIES>
static void few_launch(struct device_stream *stream, const gpu_attend *what) {
    bool wide = what->kv.format == KV_F32;
    gpu_launch_ahead(
        stream, dim3(what->n_tiles, what->heads.n_kv_heads, what->n_chunks), dim3(ATTEND_THREADS),
        wide ? sizeof(few_attend_shared<QUERIES, KV_F32>)
             : sizeof(few_attend_shared<QUERIES, KV_F16>),
        wide ? attend_few_kernel<QUERIES, KV_F32> : attend_few_kernel<QUERIES, KV_F16>, *what);
}

void attend_few(struct device_stream *stream, const gpu_attend *what) {
    if (what->few == 1)
        few_launch<1>(stream, what);
    else if (what->few == 4)
        few_launch<4>(stream, what);
    else if (what->few == 8)
        few_launch<8>(stream, what);
    else
        few_launch<16>(stream, what);
}

} // namespace GPU_NAMESPACE
