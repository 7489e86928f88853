/* Operations on rows of floats: kernels/ref says what they compute. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define NORM_THREADS 256
#define NORM_BATCH   8
#define NORM_SHARED  8192 /* floats of a row that are kept: longer ones are read twice */

struct norm_shared {
    float row[NORM_SHARED];
    float factor;
};

/* One block a row: all threads fetch it, half a warp adds up its squares in 16 chains. */
__global__ void __launch_bounds__(NORM_THREADS)
    norm_kernel(float *out, const float *x, const float *gain, float eps, uint32_t dim) {
    SHARED(norm_shared, s);
    const float *row = x + (size_t)blockIdx.x * dim;
    float *to = out + (size_t)blockIdx.x * dim;
    float sum = 0.0f;
    for (uint32_t begin = 0; begin < dim; begin += NORM_SHARED) {
        uint32_t n = dim - begin < NORM_SHARED ? dim - begin : NORM_SHARED;
        for (uint32_t i = threadIdx.x; i < n; i += NORM_BATCH * NORM_THREADS) {
            float values[NORM_BATCH]; /* all of them under way before one is stored */
#pragma unroll
            for (uint32_t j = 0; j < NORM_BATCH; j++)
                values[j] = i + j * NORM_THREADS < n ? row[begin + i + j * NORM_THREADS] : 0.0f;
#pragma unroll
            for (uint32_t j = 0; j < NORM_BATCH; j++)
                if (i + j * NORM_THREADS < n)
                    s.row[i + j * NORM_THREADS] = values[j];
        }
        __syncthreads();
        if (threadIdx.x < 16)
#pragma unroll 16
            for (uint32_t i = threadIdx.x; i < n; i += 16)
                sum = fmaf(s.row[i], s.row[i], sum);
        __syncthreads();
    }
    if (threadIdx.x < WARP) {
        sum = half_warp_tree(sum);
        if (threadIdx.x == 0)
            s.factor = 1.0f / sqrtf(sum / (float)dim + eps);
    }
    __syncthreads();
    float factor = s.factor;
    for (uint32_t i = threadIdx.x; i < dim; i += NORM_BATCH * NORM_THREADS) {
        float values[NORM_BATCH];
#pragma unroll
        for (uint32_t j = 0; j < NORM_BATCH; j++) {
            uint32_t at = i + j * NORM_THREADS;
            values[j] = 0.0f;
            if (at < dim)
                values[j] = (dim <= NORM_SHARED ? s.row[at] : row[at]) * factor * __ldg(gain + at);
        }
#pragma unroll
        for (uint32_t j = 0; j < NORM_BATCH; j++)
            if (i + j * NORM_THREADS < dim)
                to[i + j * NORM_THREADS] = values[j];
    }
}

void norm(struct device_stream *stream, const gpu_norm *what) {
    gpu_launch(stream, dim3(what->n_rows), dim3(NORM_THREADS), sizeof(norm_shared), norm_kernel,
               what->out, what->x, what->gain, what->eps, what->dim);
}

#define ROW_THREADS 256

__global__ void __launch_bounds__(ROW_THREADS)
    silu_mul_kernel(float *out, const float *gate, const float *up, size_t n) {
    size_t i = (size_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (i < n)
        out[i] = numbers_silu(gate[i]) * up[i];
}

void silu_mul(struct device_stream *stream, const gpu_silu_mul *what) {
    gpu_launch(stream, dim3(pieces_of(what->n, ROW_THREADS)), dim3(ROW_THREADS), 0, silu_mul_kernel,
               what->out, what->gate, what->up, what->n);
}

__global__ void __launch_bounds__(ROW_THREADS)
    add_gated_kernel(float *out, const float *x, const float *gate, uint32_t dim) {
    uint32_t row = blockIdx.x;
    float factor = gate ? numbers_sigmoid(gate[row]) : 1.0f;
    for (uint32_t i = blockIdx.y * ROW_THREADS + threadIdx.x; i < dim;
         i += gridDim.y * ROW_THREADS) {
        size_t at = (size_t)row * dim + i;
        out[at] = fmaf(factor, x[at], out[at]);
    }
}

void add_gated(struct device_stream *stream, const gpu_add_gated *what) {
    gpu_launch(stream, dim3(what->n_rows, pieces_of(what->dim, 4 * ROW_THREADS)), dim3(ROW_THREADS),
               0, add_gated_kernel, what->out, what->x, what->gate, what->dim);
}

__global__ void __launch_bounds__(ROW_THREADS)
    gather_kernel(float *out, const float *x, const uint32_t *rows, uint32_t dim) {
    const float *from = x + (size_t)rows[blockIdx.x] * dim;
    for (uint32_t i = threadIdx.x; i < dim; i += ROW_THREADS)
        out[(size_t)blockIdx.x * dim + i] = from[i];
}

void gather_rows(struct device_stream *stream, const gpu_gather_rows *what) {
    gpu_launch(stream, dim3(what->n_rows), dim3(ROW_THREADS), 0, gather_kernel, what->out, what->x,
               what->rows, what->dim);
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
    if (ids[blockIdx.x] == GPU_NO_TOKEN)
        return;
    uint32_t id = ids[blockIdx.x] - id_begin; /* a lower one wraps around, past the end */
    float *row = out + (size_t)blockIdx.x * table.k;
    bool ints = table.format == WEIGHT_I4G || table.format == WEIGHT_I8G;
    if (id >= table.n) {
        for (uint32_t i = threadIdx.x; i < table.k; i += ROW_THREADS)
            row[i] = 0.0f;
        return;
    }
    for (uint32_t i = threadIdx.x; i < (ints ? table.k_stored : table.k); i += ROW_THREADS) {
        uint32_t input = ints && table.order ? table.order[i] : i;
        if (input != WEIGHT_NO_INPUT)
            row[input] = ints ? weight_at(table, id, i) : float_at(table, id, i);
    }
}

void embed(struct device_stream *stream, const gpu_embed *what) {
    gpu_launch(stream, dim3(what->n_tokens), dim3(ROW_THREADS), 0, embed_kernel, what->out,
               what->table, what->ids, what->id_begin);
}

} // namespace GPU_NAMESPACE
