/* Mixtures of experts: who computes a row, and the sum of what they computed. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/limits.h"

namespace GPU_NAMESPACE {

struct route_shared {
    float p[EXPERTS_MAX];
    uint8_t taken[EXPERTS_MAX];
};

/* A block of one warp a row; the softmax on 16 lanes, then the best, one after the other. */
__global__ void __launch_bounds__(WARP)
    route_kernel(uint32_t *ids, float *weights, const float *logits, uint32_t n_experts,
                 uint32_t n_active, bool normalise) {
    SHARED(route_shared, s);
    uint32_t lane = threadIdx.x, row = blockIdx.x;
    const float *x = logits + (size_t)row * n_experts;
    griddep_launch();
    griddep_wait();
    float max = -INFINITY;
    for (uint32_t i = 0; i < n_experts; i++) /* as ref's: a NaN is never larger */
        max = x[i] > max ? x[i] : max;
    float sum = 0.0f;
    for (uint32_t i = lane; lane < 16 && i < n_experts; i += 16) {
        s.p[i] = numbers_exp(x[i] - max);
        s.taken[i] = 0;
        sum += s.p[i];
    }
    float total = half_warp_tree(sum);
    for (uint32_t i = lane; lane < 16 && i < n_experts; i += 16)
        s.p[i] = s.p[i] / total;
    __syncwarp();
    if (lane != 0)
        return;
    float chosen_sum = 0.0f;
    for (uint32_t i = 0; i < n_active; i++) {
        uint32_t best = EXPERTS_MAX;
        for (uint32_t e = 0; e < n_experts; e++)
            if (!s.taken[e] && (best == EXPERTS_MAX || s.p[e] > s.p[best]))
                best = e;
        s.taken[best] = 1;
        ids[(size_t)row * n_active + i] = best;
        weights[(size_t)row * n_active + i] = s.p[best];
        chosen_sum += s.p[best];
    }
    for (uint32_t i = 0; normalise && i < n_active; i++)
        weights[(size_t)row * n_active + i] = weights[(size_t)row * n_active + i] / chosen_sum;
}

void moe_route(struct device_stream *stream, const gpu_moe_route *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows), dim3(WARP), sizeof(route_shared), route_kernel,
                     what->ids, what->weights, what->logits, what->n_experts, what->n_active,
                     what->normalise);
}

#define ADD_THREADS 256

struct add_shared {
    uint32_t ids[EXPERTS_MAX];
    uint32_t order[EXPERTS_MAX]; /* the row's places, by rising expert */
    float weights[EXPERTS_MAX];  /* in this order */
};

__global__ void __launch_bounds__(ADD_THREADS)
    add_kernel(float *out, const float *outer, const uint32_t *ids, const float *weights,
               uint32_t n_active, uint32_t dim) {
    SHARED(add_shared, s);
    uint32_t row = blockIdx.x, d = blockIdx.y * ADD_THREADS + threadIdx.x;
    griddep_launch();
    griddep_wait();
    for (uint32_t i = threadIdx.x; i < n_active; i += ADD_THREADS)
        s.ids[i] = ids[(size_t)row * n_active + i];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n_active; i += ADD_THREADS) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < n_active; j++)
            place += s.ids[j] < s.ids[i] || (s.ids[j] == s.ids[i] && j < i);
        s.order[place] = i;
        s.weights[place] = weights[(size_t)row * n_active + i];
    }
    __syncthreads();
    if (d >= dim)
        return;
    const float *from = outer + (size_t)row * n_active * dim + d;
    float sum = 0.0f;
#pragma unroll 8
    for (uint32_t i = 0; i < n_active; i++)
        sum = fmaf(s.weights[i], from[(size_t)s.order[i] * dim], sum);
    out[(size_t)row * dim + d] = sum;
}

void moe_add(struct device_stream *stream, const gpu_moe_add *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows, pieces_of(what->dim, ADD_THREADS)),
                     dim3(ADD_THREADS), sizeof(add_shared), add_kernel, what->out, what->outer,
                     what->ids, what->weights, what->n_active, what->dim);
}

} // namespace GPU_NAMESPACE
