/* Attention: its launches, and the joining of chunks. */
#include "kernels/cuda/gpu/attend.h"

namespace GPU_NAMESPACE {

#define JOIN_THREADS 128
#define JOIN_AHEAD   8 /* chunks whose sums are under way at once */

/* Some neighbouring dimensions of a query's sums: WIDTH is 4 where rows begin at 16 bytes, or 1. */
template <int WIDTH> struct alignas(4 * WIDTH) join_row { float x[WIDTH]; };

/* What lane c knows of the c-th of 32 chunks: the factors by which what was joined before it and its own
 * are multiplied, and its total. */
struct join_step {
    float keep;
    float add;
    float total;
};

/* Of n chunks from `chunk` on. `max`: the largest score of those before, and then of these too. The warp calls. */
__device__ __forceinline__ join_step find_step(const gpu_attend &what, uint32_t chunk, uint32_t n,
                                               uint32_t token, uint32_t head, float &max) {
    uint32_t lane = threadIdx.x % WARP;
    float own = -INFINITY, total = 0.0f;
    if (lane < n) {
        size_t at = place_of(what, chunk + lane, token, head);
        own = what.maxima[at];
        total = what.totals[at];
    }
    float both = own; /* the largest up to this chunk */
#pragma unroll
    for (uint32_t width = 1; width < WARP; width *= 2) {
        float other = __shfl_up_sync(FULL_WARP, both, width);
        if (lane >= width)
            both = other > both ? other : both;
    }
    both = max > both ? max : both;
    float before = __shfl_up_sync(FULL_WARP, both, 1);
    before = lane == 0 ? max : before;
    max = __shfl_sync(FULL_WARP, both, 31);
    return {numbers_exp(before - both), numbers_exp(own - both), total};
}

/* Grid: queries, pieces of their dimensions; a warp each. Joins the chunks of a query in rising order. */
template <int WIDTH> __global__ void __launch_bounds__(JOIN_THREADS) join_kernel(gpu_attend what) {
    typedef join_row<WIDTH> row;
    uint32_t number = blockIdx.x * (JOIN_THREADS / WARP) + threadIdx.x / WARP;
    uint32_t n_heads = what.heads.n_heads, dim = what.heads.head_dim;
    uint32_t t = what.token_begin + number / n_heads, h = number % n_heads;
    uint32_t d = (blockIdx.y * WARP + threadIdx.x % WARP) * WIDTH;
    uint32_t position = t < what.token_end ? what.batch.positions[t] : GPU_NO_TOKEN;
    griddep_launch();
    griddep_wait();
    if (position == GPU_NO_TOKEN)
        return; /* the whole warp */
    uint32_t begin = first_seen(what, position) / ATTEND_CHUNK, end = position / ATTEND_CHUNK + 1;
    size_t stride = (size_t)(what.token_end - what.token_begin) * n_heads * dim;
    const float *from = what.sums + place_of(what, begin, t, h) * dim + d;
    float max = -INFINITY, total = 0.0f;
    row out = {};
    for (uint32_t chunk = begin; chunk < end; chunk += WARP) {
        uint32_t n = end - chunk < WARP ? end - chunk : WARP;
        join_step step = find_step(what, chunk, n, t, h, max);
        for (uint32_t first = 0; first < n; first += JOIN_AHEAD) {
            row ahead[JOIN_AHEAD];
#pragma unroll
            for (uint32_t i = 0; i < JOIN_AHEAD; i++)
                if (first + i < n && d < dim)
                    ahead[i] = *(const row *)(from + (chunk - begin + first + i) * stride);
#pragma unroll
            for (uint32_t i = 0; i < JOIN_AHEAD; i++) {
                if (first + i >= n)
                    continue; /* the whole warp */
                float keep = __shfl_sync(FULL_WARP, step.keep, first + i);
                float add = __shfl_sync(FULL_WARP, step.add, first + i);
                float of_chunk = __shfl_sync(FULL_WARP, step.total, first + i);
                bool is_first = chunk + first + i == begin;
                total = is_first ? of_chunk : fmaf(total, keep, of_chunk * add);
#pragma unroll
                for (int e = 0; e < WIDTH; e++)
                    out.x[e] = is_first ? ahead[i].x[e] : fmaf(out.x[e], keep, ahead[i].x[e] * add);
            }
        }
    }
    if (d >= dim)
        return;
#pragma unroll
    for (int e = 0; e < WIDTH; e++)
        out.x[e] = out.x[e] / total;
    *(row *)(what.out + ((size_t)t * n_heads + h) * dim + d) = out;
}

static void join(struct device_stream *stream, const gpu_attend *what) {
    uint32_t n = (what->token_end - what->token_begin) * what->heads.n_heads;
    uint32_t dim = what->heads.head_dim, width = dim % 4 == 0 ? 4 : 1;
    gpu_launch_ahead(stream, dim3(pieces_of(n, JOIN_THREADS / WARP), pieces_of(dim, width * WARP)),
                     dim3(JOIN_THREADS), 0, width == 4 ? join_kernel<4> : join_kernel<1>, *what);
}

void attend(struct device_stream *stream, const gpu_attend *what) {
    if (what->n_tiles == 0)
        return;
    if (what->n_few > 0)
        attend_few(stream, what);
    if (what->n_few < what->n_tiles)
        attend_many(stream, what);
    if (what->n_chunks > 1)
        join(stream, what);
}

} // namespace GPU_NAMESPACE
