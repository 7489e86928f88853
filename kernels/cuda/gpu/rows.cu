/* Operations on rows of floats: kernels/ref says what they compute. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/cuda/gpu/quantize.h"

namespace GPU_NAMESPACE {

#define NORM_THREADS 512
#define NORM_ROUND   256 /* floats that each chain takes 16 of */

/* A thread has PIECES times four floats of a row in registers; rows that are longer are read twice. */
template <uint32_t PIECES> struct norm_shared {
    static const uint32_t floats = PIECES * 4 * NORM_THREADS;
    float row[floats];
    float factor;
};

/* This thread's floats of the n that lie from `from` on; zeros behind them. */
template <uint32_t PIECES, bool WHOLE>
__device__ __forceinline__ void norm_fetch(float4 to[PIECES], const float *from, uint32_t n) {
#pragma unroll
    for (uint32_t j = 0; j < PIECES; j++)
        to[j] = load_four<WHOLE>(from, 4 * (j * NORM_THREADS + threadIdx.x), n);
}

/* Adds the squares of a row, zeros filling up its last round, to 16 chains: lane l has chain l % 16. */
__device__ __forceinline__ float norm_chain(const float *row, uint32_t n, float sum) {
    const float *at = row + threadIdx.x % 16;
    float now[16], next[16]; /* a round is loaded while the one before it is added */
#pragma unroll
    for (int j = 0; j < 16; j++)
        now[j] = at[j * 16];
    for (uint32_t i = NORM_ROUND; i < n; i += NORM_ROUND) {
#pragma unroll
        for (int j = 0; j < 16; j++)
            next[j] = at[i + j * 16];
#pragma unroll
        for (int j = 0; j < 16; j++) {
            sum = fmaf(now[j], now[j], sum);
            now[j] = next[j];
        }
    }
#pragma unroll
    for (int j = 0; j < 16; j++)
        sum = fmaf(now[j], now[j], sum);
    return sum;
}

/* The integers of four neighbours from i on of this block's row. The warp calls. */
__device__ __forceinline__ void norm_quantize(const gpu_norm &what, uint32_t i, float4 y) {
    float x[4] = {y.x, y.y, y.z, y.w};
    size_t group = (size_t)blockIdx.x * (what.fine ? 2 : 1) * what.ints.n_groups + i / GROUP;
    quantize_term(x, what.ints, group, i < what.dim);
    if (what.fine)
        quantize_term(x, what.ints, group + what.ints.n_groups, i < what.dim);
}

/* One block a row: all threads fetch it and its gains at once, one warp adds up its squares. */
template <uint32_t PIECES, bool WHOLE, bool QUANTIZES>
__global__ void __launch_bounds__(NORM_THREADS, PIECES == 2 ? 2 : 1) norm_kernel(gpu_norm what) {
    typedef norm_shared<PIECES> shared;
    SHARED(shared, s);
    const uint32_t dim = what.dim;
    const float *row = what.x + (size_t)blockIdx.x * dim;
    float *to = what.out + (size_t)blockIdx.x * dim;
    float4 mine[PIECES], gains[PIECES];
    float sum = 0.0f;
    griddep_launch();
    norm_fetch<PIECES, WHOLE>(gains, what.gain, dim);
    griddep_wait();
    for (uint32_t begin = 0; begin < dim; begin += s.floats) {
        uint32_t n = dim - begin < s.floats ? dim - begin : s.floats;
        uint32_t filled = (n + NORM_ROUND - 1) / NORM_ROUND * NORM_ROUND;
        norm_fetch<PIECES, WHOLE>(mine, row + begin, n);
        if (begin > 0)
            __syncthreads(); /* the last part's squares are added */
#pragma unroll
        for (uint32_t j = 0; j < PIECES; j++) {
            uint32_t i = 4 * (j * NORM_THREADS + threadIdx.x);
            if (i < filled)
                *(float4 *)&s.row[i] = mine[j];
        }
        __syncthreads();
        if (threadIdx.x < WARP)
            sum = norm_chain(s.row, filled, sum);
    }
    if (threadIdx.x < WARP) {
        sum = half_warp_tree(sum);
        if (threadIdx.x == 0)
            s.factor = 1.0f / sqrtf(sum / (float)dim + what.eps);
    }
    __syncthreads();
    float factor = s.factor;
    for (uint32_t begin = 0; begin < dim; begin += s.floats) {
        uint32_t n = dim - begin < s.floats ? dim - begin : s.floats;
        if (dim > s.floats) {
            norm_fetch<PIECES, WHOLE>(mine, row + begin, n);
            norm_fetch<PIECES, WHOLE>(gains, what.gain + begin, n);
        }
#pragma unroll
        for (uint32_t j = 0; j < PIECES; j++) {
            float4 y = mine[j], g = gains[j];
            y = make_float4(y.x * factor * g.x, y.y * factor * g.y, y.z * factor * g.z,
                            y.w * factor * g.w);
            uint32_t i = 4 * (j * NORM_THREADS + threadIdx.x);
            store_four<WHOLE>(to + begin, i, n, y);
            if (QUANTIZES)
                norm_quantize(what, begin + i, y);
        }
    }
}

template <uint32_t PIECES, bool WHOLE, bool QUANTIZES>
static void norm_launch(struct device_stream *stream, const gpu_norm *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows), dim3(NORM_THREADS), sizeof(norm_shared<PIECES>),
                     norm_kernel<PIECES, WHOLE, QUANTIZES>, *what);
}

void norm(struct device_stream *stream, const gpu_norm *what) {
    uint32_t dim = what->dim;
    bool few = dim <= norm_shared<2>::floats;
    if (!are_fours(what->x, dim) || !are_fours(what->out, dim) || !are_fours(what->gain, dim))
        norm_launch<2, false, false>(stream, what);
    else if (what->quantizes)
        (few ? norm_launch<2, true, true> : norm_launch<4, true, true>)(stream, what);
    else
        (few ? norm_launch<2, true, false> : norm_launch<4, true, false>)(stream, what);
}

#define ROW_THREADS 256

__global__ void __launch_bounds__(ROW_THREADS)
    silu_mul_kernel(float *out, const float *gate, const float *up, size_t n) {
    size_t i = (size_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    griddep_launch();
    griddep_wait();
    if (i < n)
        out[i] = numbers_silu(gate[i]) * up[i];
}

void silu_mul(struct device_stream *stream, const gpu_silu_mul *what) {
    gpu_launch_ahead(stream, dim3(pieces_of(what->n, ROW_THREADS)), dim3(ROW_THREADS), 0,
                     silu_mul_kernel, what->out, what->gate, what->up, what->n);
}

__global__ void __launch_bounds__(ROW_THREADS)
    add_gated_kernel(float *out, const float *x, const float *gate, uint32_t dim) {
    uint32_t row = blockIdx.x;
    griddep_launch();
    griddep_wait();
    float factor = gate ? numbers_sigmoid(gate[row]) : 1.0f;
    for (uint32_t i = blockIdx.y * ROW_THREADS + threadIdx.x; i < dim;
         i += gridDim.y * ROW_THREADS) {
        size_t at = (size_t)row * dim + i;
        out[at] = fmaf(factor, x[at], out[at]);
    }
}

void add_gated(struct device_stream *stream, const gpu_add_gated *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows, pieces_of(what->dim, 4 * ROW_THREADS)),
                     dim3(ROW_THREADS), 0, add_gated_kernel, what->out, what->x, what->gate,
                     what->dim);
}

template <bool WHOLE>
__global__ void __launch_bounds__(ROW_THREADS)
    gather_kernel(float *out, const float *x, const uint32_t *rows, uint32_t dim) {
    griddep_launch();
    const float *from = x + (size_t)rows[blockIdx.x] * dim;
    griddep_wait();
    uint32_t i = 4 * (blockIdx.y * ROW_THREADS + threadIdx.x);
    store_four<WHOLE>(out + (size_t)blockIdx.x * dim, i, dim, load_four<WHOLE>(from, i, dim));
}

void gather_rows(struct device_stream *stream, const gpu_gather_rows *what) {
    bool whole = are_fours(what->x, what->dim) && are_fours(what->out, what->dim);
    gpu_launch_ahead(stream, dim3(what->n_rows, pieces_of(what->dim, 4 * ROW_THREADS)),
                     dim3(ROW_THREADS), 0, whole ? gather_kernel<true> : gather_kernel<false>,
                     what->out, what->x, what->rows, what->dim);
}

__device__ static float weight_at(const gpu_matrix &w, uint32_t n, uint32_t i) {
    uint32_t g = i / GROUP, j = i % GROUP; /* j = 16 half + 4 t + byte */
    bool four = w.format == WEIGHT_I4G;
    uint32_t plane = four ? g : 2 * g + j / 16;
    const uint8_t *at = (const uint8_t *)w.data + ((size_t)plane * w.n_padded + n) * 16 + j % 16;
    int q = four ? *at >> (j / 16 * 4) & 15 : (int)(int8_t)*at;
    uint32_t number = w.groups_per_scale ? g / w.groups_per_scale : 2 * g + j / 16;
    size_t scale = (size_t)number * w.n_padded + n;
    float step = load_scale(w.scales, scale, w.wide);
    return fmaf(step, (float)q, w.mins ? load_min(w, scale, step) : 0.0f);
}

__device__ static float float_at(const gpu_matrix &w, uint32_t n, uint32_t i) {
    if (w.format == WEIGHT_F32)
        return ((const float *)w.data)[((size_t)(i / 4) * w.n_padded + n) * 4 + i % 4];
    uint16_t bits = ((const uint16_t *)w.data)[((size_t)(i / 8) * w.n_padded + n) * 8 + i % 8];
    return w.format == WEIGHT_F16 ? half_float(bits) : bf16_to_float(bits);
}

__global__ void __launch_bounds__(ROW_THREADS)
    embed_kernel(float *out, gpu_matrix table, const uint32_t *ids, uint32_t id_begin) {
    griddep_launch();
    griddep_wait();
    if (ids[blockIdx.x] == GPU_NO_TOKEN)
        return;
    uint32_t id = ids[blockIdx.x] - id_begin; /* a lower one wraps around, past the end */
    uint32_t begin = blockIdx.y * ROW_THREADS + threadIdx.x, step = gridDim.y * ROW_THREADS;
    float *row = out + (size_t)blockIdx.x * table.k;
    bool ints = table.format == WEIGHT_I4G || table.format == WEIGHT_I8G;
    if (id >= table.n) {
        for (uint32_t i = begin; i < table.k; i += step)
            row[i] = 0.0f;
        return;
    }
    for (uint32_t i = begin; i < (ints ? table.k_stored : table.k); i += step) {
        uint32_t input = ints && table.order ? table.order[i] : i;
        if (input != WEIGHT_NO_INPUT)
            row[input] = ints ? weight_at(table, id, i) : float_at(table, id, i);
    }
}

void embed(struct device_stream *stream, const gpu_embed *what) {
    gpu_launch_ahead(stream, dim3(what->n_tokens, pieces_of(what->table.k, 2 * ROW_THREADS)),
                     dim3(ROW_THREADS), 0, embed_kernel, what->out, what->table, what->ids,
                     what->id_begin);
}

} // namespace GPU_NAMESPACE
