/* Norms and rotation of q and k, and k and v into their blocks: a warp a head of a token. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/cuda/gpu/sum_rows.h"
#include "kernels/limits.h"

namespace GPU_NAMESPACE {

#define ROPE_WARPS 4

/* Heads of up to PIECES times a warp's lanes. */
template <uint32_t PIECES> struct rope_shared { float head[ROPE_WARPS][PIECES * WARP]; };

__device__ __forceinline__ void store_kv(const gpu_kv &kv, void *block, size_t index, float value) {
    if (kv.format == KV_F32)
        ((float *)block)[index] = value;
    else
        ((uint16_t *)block)[index] = float_to_half(value);
}

/* As ref_norm_row(), of a head in shared memory. */
template <uint32_t PIECES>
__device__ __forceinline__ void norm_head(float *x, const float gains[PIECES], float eps,
                                          uint32_t dim, uint32_t lane) {
    float sum = 0.0f;
    for (uint32_t i = lane % 16; i < dim; i += 16)
        sum = fmaf(x[i], x[i], sum);
    float factor = 1.0f / sqrtf(half_warp_tree(sum) / (float)dim + eps);
    __syncwarp();
#pragma unroll
    for (uint32_t j = 0; j < PIECES; j++)
        if (lane + j * WARP < dim)
            x[lane + j * WARP] = x[lane + j * WARP] * factor * gains[j];
    __syncwarp();
}

/* This lane's numbers of n, one of each WARP. */
template <uint32_t PIECES>
__device__ __forceinline__ void load_pieces(float to[PIECES], const float *from, uint32_t n,
                                            uint32_t lane) {
#pragma unroll
    for (uint32_t j = 0; j < PIECES; j++)
        to[j] = lane + j * WARP < n ? from[lane + j * WARP] : 0.0f;
}

/* The same of what a product has left. */
template <uint32_t PIECES>
__device__ __forceinline__ void sum_pieces(float to[PIECES], const gpu_sum &sum, uint32_t row,
                                           uint32_t first, uint32_t n, uint32_t lane) {
#pragma unroll
    for (uint32_t j = 0; j < PIECES; j++) {
        to[j] = 0.0f;
        if (lane + j * WARP < n)
            sum_slices<1>(&to[j], sum, row, first + lane + j * WARP);
    }
}

/* (a, b) -> (a cos - b sin, b cos + a sin), each as one product and one FMA. */
template <uint32_t PAIRS>
__device__ __forceinline__ void rotate_head(float *x, const rope &rope, const float cosines[PAIRS],
                                            const float sines[PAIRS], uint32_t lane) {
    uint32_t half = rope.dims / 2;
#pragma unroll
    for (uint32_t j = 0; j < PAIRS; j++) {
        uint32_t i = lane + j * WARP;
        if (i >= half)
            continue;
        uint32_t first = rope.layout == ROPE_HALF_SPLIT ? i : 2 * i;
        uint32_t second = rope.layout == ROPE_HALF_SPLIT ? i + half : 2 * i + 1;
        float a = x[first], b = x[second];
        x[first] = fmaf(a, cosines[j], -(b * sines[j]));
        x[second] = fmaf(b, cosines[j], a * sines[j]);
    }
    __syncwarp();
}

/* What no kernel writes and a warp needs of the step and the tables: loaded before the head is there. */
template <uint32_t PIECES> struct rope_needs {
    static const uint32_t pairs = (PIECES + 1) / 2;
    uint32_t block; /* of keys and values */
    float q_scale;
    float gains[PIECES], cosines[pairs], sines[pairs];
};

template <uint32_t PIECES>
__device__ __forceinline__ void load_needs(rope_needs<PIECES> &to, const gpu_batch &batch,
                                           const rope &rope, const gpu_heads &heads, uint32_t h,
                                           uint32_t seq, uint32_t position) {
    const uint32_t pairs = rope_needs<PIECES>::pairs, half = rope.dims / 2;
    uint32_t lane = threadIdx.x % WARP;
    bool is_q = h < heads.n_heads, is_v = h >= heads.n_heads + heads.n_kv_heads;
    if (rope.q_norm && !is_v)
        load_pieces<PIECES>(to.gains, is_q ? rope.q_norm : rope.k_norm, heads.head_dim, lane);
    if (!is_q)
        to.block =
            batch.block_tables[(size_t)seq * batch.block_table_stride + position / KV_BLOCK_TOKENS];
    if (is_q && rope.q_scale)
        to.q_scale = rope.q_scale[position];
    if (!is_v && rope.layout != ROPE_NONE) {
        uint32_t variant = batch.variants ? batch.variants[seq] : 0;
        size_t table = (size_t)variant * heads.max_context + position;
        load_pieces<pairs>(to.cosines, rope.cos + table * half, half, lane);
        load_pieces<pairs>(to.sines, rope.sin + table * half, half, lane);
    }
}

template <uint32_t PIECES>
__global__ void __launch_bounds__(ROPE_WARPS *WARP)
    rope_kernel(float *qkv, gpu_sum sum, gpu_batch batch, rope rope, gpu_kv kv, gpu_heads heads) {
    typedef rope_shared<PIECES> shared;
    SHARED(shared, s);
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, t = blockIdx.x;
    uint32_t h = blockIdx.y * ROPE_WARPS + warp, dim = heads.head_dim;
    uint32_t n_all = heads.n_heads + 2 * heads.n_kv_heads;
    bool is_q = h < heads.n_heads, is_v = h >= heads.n_heads + heads.n_kv_heads;
    float *from = qkv + ((size_t)t * n_all + h) * dim, *x = s.head[warp], mine[PIECES];
    uint32_t position = batch.positions[t], seq = batch.seq_of[t];
    bool here = h < n_all && position != GPU_NO_TOKEN; /* of the whole warp */
    rope_needs<PIECES> needs = {};
    griddep_launch();
    if (here)
        load_needs<PIECES>(needs, batch, rope, heads, h, seq, position);
    griddep_wait();
    if (!here)
        return;
    if (sum.parts)
        sum_pieces<PIECES>(mine, sum, t, h * dim, dim, lane);
    else
        load_pieces<PIECES>(mine, from, dim, lane);
#pragma unroll
    for (uint32_t j = 0; j < PIECES; j++)
        x[lane + j * WARP] = mine[j];
    __syncwarp();
    if (!is_v) {
        if (rope.q_norm)
            norm_head<PIECES>(x, needs.gains, rope.norm_eps, dim, lane);
        if (rope.layout != ROPE_NONE)
            rotate_head<needs.pairs>(x, rope, needs.cosines, needs.sines, lane);
    }
    if (!is_v || sum.parts)
        for (uint32_t i = lane; i < dim; i += WARP)
            from[i] = is_q && rope.q_scale ? x[i] * needs.q_scale : x[i];
    if (is_q)
        return;
    uint32_t slot = position % KV_BLOCK_TOKENS, head = h - heads.n_heads; /* of k, then of v */
    void *block = (char *)kv.base + (size_t)needs.block * kv.block_bytes;
    for (uint32_t i = lane; i < dim; i += WARP)
        store_kv(kv, block,
                 is_v ? ((size_t)head * KV_BLOCK_TOKENS + slot) * dim + i
                      : ((size_t)head * dim + i) * KV_BLOCK_TOKENS + slot,
                 x[i]);
}

template <uint32_t PIECES>
static void rope_launch(struct device_stream *stream, const gpu_rope_kv *what) {
    uint32_t n_all = what->heads.n_heads + 2 * what->heads.n_kv_heads;
    gpu_launch_ahead(stream, dim3(what->batch.n_tokens, pieces_of(n_all, ROPE_WARPS)),
                     dim3(ROPE_WARPS * WARP), sizeof(rope_shared<PIECES>), rope_kernel<PIECES>,
                     what->qkv, what->sum, what->batch, what->rope, what->kv, what->heads);
}

void rope_kv(struct device_stream *stream, const gpu_rope_kv *what) {
    if (what->heads.head_dim <= 4 * WARP)
        rope_launch<4>(stream, what);
    else
        rope_launch<HEAD_DIM_MAX / WARP>(stream, what);
}

} // namespace GPU_NAMESPACE
