/* Mixtures of experts: who computes a row, and the sum of what they computed. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/limits.h"

namespace GPU_NAMESPACE {

struct route_shared {
    float p[EXPERTS_MAX];
};

/* The largest of a row; a NaN is never larger, as in kernels/ref. The warp calls. */
__device__ __forceinline__ float row_max(const float *x, uint32_t n) {
    float max = -INFINITY;
    for (uint32_t i = threadIdx.x; i < n; i += WARP)
        max = x[i] > max ? x[i] : max;
#pragma unroll
    for (int width = 16; width > 0; width /= 2) {
        float other = __shfl_xor_sync(FULL_WARP, max, width);
        max = other > max ? other : max;
    }
    return max;
}

/* The expert with the largest p, the first of equal ones, but for this lane's `taken` ones (bit j: expert
 * lane + j * WARP). Either all p are NaN, then it is the first, or none. The warp calls. */
__device__ __forceinline__ uint32_t best_expert(const float *p, uint32_t n, uint32_t taken) {
    uint32_t best = EXPERTS_MAX, best_bits = 0;
    for (uint32_t j = 0; threadIdx.x + j * WARP < n; j++) {
        uint32_t e = threadIdx.x + j * WARP, bits = p[e] > 0.0f ? float_bits(p[e]) : 0;
        if (!(taken >> j & 1) && (best == EXPERTS_MAX || bits > best_bits))
            best = e, best_bits = bits;
    }
#pragma unroll
    for (int width = 16; width > 0; width /= 2) {
        uint32_t bits = __shfl_xor_sync(FULL_WARP, best_bits, width);
        uint32_t other = __shfl_xor_sync(FULL_WARP, best, width);
        if (bits > best_bits || (bits == best_bits && other < best))
            best = other, best_bits = bits;
    }
    return best;
}

/* A block of one warp a row: the softmax, its sum in 16 chains, then the best, one after the other. */
__global__ void __launch_bounds__(WARP)
    route_kernel(uint32_t *ids, float *weights, const float *logits, uint32_t n_experts,
                 uint32_t n_active, bool normalise) {
    SHARED(route_shared, s);
    uint32_t lane = threadIdx.x, row = blockIdx.x, taken = 0;
    const float *x = logits + (size_t)row * n_experts;
    ids += (size_t)row * n_active;
    weights += (size_t)row * n_active;
    griddep_launch();
    griddep_wait();
    float max = row_max(x, n_experts), sum = 0.0f, chosen_sum = 0.0f;
    for (uint32_t i = lane; i < n_experts; i += WARP)
        s.p[i] = numbers_exp(x[i] - max);
    __syncwarp();
    for (uint32_t i = lane % 16; i < n_experts; i += 16)
        sum += s.p[i];
    float total = half_warp_tree(sum);
    __syncwarp();
    for (uint32_t i = lane; i < n_experts; i += WARP)
        s.p[i] = s.p[i] / total;
    __syncwarp();
    for (uint32_t i = 0; i < n_active; i++) {
        uint32_t best = best_expert(s.p, n_experts, taken);
        if (best % WARP == lane)
            taken |= 1u << best / WARP;
        chosen_sum += s.p[best];
        if (lane == 0) {
            ids[i] = best;
            weights[i] = s.p[best];
        }
    }
    __syncwarp();
    for (uint32_t i = lane; normalise && i < n_active; i += WARP)
        weights[i] = weights[i] / chosen_sum;
}

void moe_route(struct device_stream *stream, const gpu_moe_route *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows), dim3(WARP), sizeof(route_shared), route_kernel,
                     what->ids, what->weights, what->logits, what->n_experts, what->n_active,
                     what->normalise);
}

#define PLAN_THREADS 1024

/* Expert e and part p of the pairs: thread p * n_experts + e. */
struct plan_shared {
    uint32_t
        counts[PLAN_THREADS]; /* of an expert's pairs in a part; then those in the parts before */
    uint32_t n_pairs[EXPERTS_MAX];
    uint32_t first_pair[EXPERTS_MAX]; /* of an expert among all pairs, and its first group */
    uint32_t first_group[EXPERTS_MAX];
};

/* One block: the pairs of each expert in rising order, then groups of at most `rows` of them. */
__global__ void __launch_bounds__(PLAN_THREADS) plan_kernel(gpu_moe_plan what) {
    SHARED(plan_shared, s);
    const uint32_t n_parts = PLAN_THREADS / what.n_experts, thread = threadIdx.x;
    const uint32_t expert = thread % what.n_experts, part = thread / what.n_experts;
    const uint32_t each = (what.n_pairs + n_parts - 1) / n_parts;
    uint32_t begin = part * each, end = begin + each, n = 0;
    begin = begin < what.n_pairs ? begin : what.n_pairs;
    end = end < what.n_pairs ? end : what.n_pairs;
    const bool works = part < n_parts;
    griddep_launch();
    griddep_wait();
    for (uint32_t i = begin; works && i < end; i++)
        n += what.ids[i] == expert;
    if (works)
        s.counts[thread] = n;
    __syncthreads();
    if (thread < what.n_experts) {
        uint32_t sum = 0;
        for (uint32_t p = 0; p < n_parts; p++) {
            uint32_t own = s.counts[p * what.n_experts + thread];
            s.counts[p * what.n_experts + thread] = sum;
            sum += own;
        }
        s.n_pairs[thread] = sum;
    }
    __syncthreads();
    if (thread == 0) {
        uint32_t first_pair = 0, first_group = 0;
        for (uint32_t e = 0; e < what.n_experts; e++) {
            s.first_pair[e] = first_pair, s.first_group[e] = first_group;
            first_pair += s.n_pairs[e];
            first_group += (s.n_pairs[e] + what.rows - 1) / what.rows;
        }
        for (uint32_t g = first_group; g < what.n_groups; g++)
            what.groups[g] = gpu_group{0, 0, 0};
    }
    __syncthreads();
    uint32_t to = works ? s.first_pair[expert] + s.counts[thread] : 0;
    for (uint32_t i = begin; works && i < end; i++)
        if (what.ids[i] == expert)
            what.pairs[to++] = i;
    if (thread < what.n_experts)
        for (uint32_t i = 0, g = s.first_group[thread]; i < s.n_pairs[thread];
             i += what.rows, g++) {
            uint32_t left = s.n_pairs[thread] - i;
            what.groups[g] =
                gpu_group{thread, s.first_pair[thread] + i, left < what.rows ? left : what.rows};
        }
}

void moe_plan(struct device_stream *stream, const gpu_moe_plan *what) {
    gpu_launch_ahead(stream, dim3(1), dim3(PLAN_THREADS), sizeof(plan_shared), plan_kernel, *what);
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
