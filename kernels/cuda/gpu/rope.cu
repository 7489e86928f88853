/* Norms and rotation of q and k, and k and v into their blocks: a warp a head of a token. */
#include "kernels/cuda/gpu/kernels.h"
#include "kernels/limits.h"

namespace GPU_NAMESPACE {

#define ROPE_WARPS 4

struct rope_shared {
    float head[ROPE_WARPS][HEAD_DIM_MAX];
};

__device__ __forceinline__ void store_kv(const gpu_kv &kv, void *block, size_t index, float value) {
    if (kv.format == KV_F32)
        ((float *)block)[index] = value;
    else
        ((uint16_t *)block)[index] = float_to_half(value);
}

/* As ref_norm_row(), of a head in shared memory. */
__device__ static void norm_head(float *x, const float *gain, float eps, uint32_t dim,
                                 uint32_t lane) {
    float sum = 0.0f;
    for (uint32_t i = lane % 16; i < dim; i += 16)
        sum = fmaf(x[i], x[i], sum);
    float factor = 1.0f / sqrtf(half_warp_tree(sum) / (float)dim + eps);
    __syncwarp();
    for (uint32_t i = lane; i < dim; i += WARP)
        x[i] = x[i] * factor * gain[i];
    __syncwarp();
}

/* (a, b) -> (a cos - b sin, b cos + a sin), each as one product and one FMA. */
__device__ static void rotate_head(float *x, const rope &rope, size_t table, uint32_t lane) {
    uint32_t half = rope.dims / 2;
    for (uint32_t i = lane; i < half; i += WARP) {
        float cosine = rope.cos[table * half + i], sine = rope.sin[table * half + i];
        uint32_t first = rope.layout == ROPE_HALF_SPLIT ? i : 2 * i;
        uint32_t second = rope.layout == ROPE_HALF_SPLIT ? i + half : 2 * i + 1;
        float a = x[first], b = x[second];
        x[first] = fmaf(a, cosine, -(b * sine));
        x[second] = fmaf(b, cosine, a * sine);
    }
    __syncwarp();
}

__global__ void __launch_bounds__(ROPE_WARPS *WARP)
    rope_kernel(float *qkv, gpu_batch batch, rope rope, gpu_kv kv, gpu_heads heads) {
    SHARED(rope_shared, s);
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, t = blockIdx.x;
    uint32_t h = blockIdx.y * ROPE_WARPS + warp, dim = heads.head_dim;
    uint32_t n_all = heads.n_heads + 2 * heads.n_kv_heads;
    if (h >= n_all || batch.positions[t] == GPU_NO_TOKEN)
        return; /* the whole warp */
    bool is_q = h < heads.n_heads, is_v = h >= heads.n_heads + heads.n_kv_heads;
    float *from = qkv + ((size_t)t * n_all + h) * dim, *x = s.head[warp];
    uint32_t position = batch.positions[t], seq = batch.seq_of[t];
    for (uint32_t i = lane; i < dim; i += WARP)
        x[i] = from[i];
    __syncwarp();
    if (!is_v) {
        uint32_t variant = batch.variants ? batch.variants[seq] : 0;
        if (rope.q_norm)
            norm_head(x, is_q ? rope.q_norm : rope.k_norm, rope.norm_eps, dim, lane);
        if (rope.layout != ROPE_NONE)
            rotate_head(x, rope, (size_t)variant * heads.max_context + position, lane);
        for (uint32_t i = lane; i < dim; i += WARP)
            from[i] = is_q && rope.q_scale ? x[i] * rope.q_scale[position] : x[i];
    }
    if (is_q)
        return;
    uint32_t slot = position % KV_BLOCK_TOKENS;
    uint32_t number =
        batch.block_tables[(size_t)seq * batch.block_table_stride + position / KV_BLOCK_TOKENS];
    void *block = (char *)kv.base + (size_t)number * kv.block_bytes;
    uint32_t head = h - heads.n_heads; /* of k, then of v */
    for (uint32_t i = lane; i < dim; i += WARP)
        store_kv(kv, block,
                 is_v ? ((size_t)head * KV_BLOCK_TOKENS + slot) * dim + i
                      : ((size_t)head * dim + i) * KV_BLOCK_TOKENS + slot,
                 x[i]);
}

void rope_kv(struct device_stream *stream, const gpu_rope_kv *what) {
    uint32_t n_all = what->heads.n_heads + 2 * what->heads.n_kv_heads;
    gpu_launch(stream, dim3(what->batch.n_tokens, pieces_of(n_all, ROPE_WARPS)),
               dim3(ROPE_WARPS * WARP), sizeof(rope_shared), rope_kernel, what->qkv, what->batch,
               what->rope, what->kv, what->heads);
}

} // namespace GPU_NAMESPACE
