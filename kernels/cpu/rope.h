/* kernels/cpu/rope.h: norm and rotation of heads, and the way of k and v into the cache. Compiled
 * once per path, after its vec_*.h. */
#pragma once

#include "kernels/cpu/path.h"
#include "kernels/cpu/rows.h"

/* (a, b) -> (a cos - b sin, b cos + a sin), each as one product and one FMA. */
VEC_INLINE void path_rotate(struct vec *a, struct vec *b, struct vec cosine, struct vec sine) {
    struct vec minus = vec_sub(vec_set(-0.0f), vec_mul(*b, sine));
    struct vec first = vec_fma(*a, cosine, minus);
    *b = vec_fma(*b, cosine, vec_mul(*a, sine));
    *a = first;
}

static void path_rope_one(float *a, float *b, float cosine, float sine) {
    float first = fmaf(*a, cosine, -(*b * sine));
    *b = fmaf(*b, cosine, *a * sine);
    *a = first;
}

static void path_rope_head(float *x, const struct rope *rope, const float *cosines,
                           const float *sines) {
    uint32_t half = rope->dims / 2;
    uint32_t i = 0;
    if (rope->layout == ROPE_HALF_SPLIT)
        for (; i + 16 <= half; i += 16) {
            struct vec a = vec_load(x + i);
            struct vec b = vec_load(x + half + i);
            path_rotate(&a, &b, vec_load(cosines + i), vec_load(sines + i));
            vec_store(x + i, a);
            vec_store(x + half + i, b);
        }
    for (; i < half; i++) {
        if (rope->layout == ROPE_HALF_SPLIT)
            path_rope_one(&x[i], &x[i + half], cosines[i], sines[i]);
        else
            path_rope_one(&x[2 * i], &x[2 * i + 1], cosines[i], sines[i]);
    }
}

/* Norm and rotation of the query and key heads of one token; see struct rope. */
static void path_rope_heads(const struct rope_job *job) {
    const struct rope *rope = job->rope;
    uint32_t dim = job->kv->head_dim;
    for (uint32_t h = 0; h < job->n_heads + job->kv->n_kv_heads; h++) {
        float *head = job->row + (size_t)h * dim;
        bool is_query = h < job->n_heads;
        if (rope->q_norm)
            path_norm(head, head, is_query ? rope->q_norm : rope->k_norm, rope->norm_eps, dim);
        if (rope->layout != ROPE_NONE)
            path_rope_head(head, rope, job->cos, job->sin);
        if (!rope->q_scale || !is_query)
            continue;
        float factor = rope->q_scale[job->position];
        for (uint32_t i = 0; i < dim; i++)
            head[i] *= factor;
    }
}

static void path_keep_f16(const struct rope_job *job) {
    uint32_t dim = job->kv->head_dim;
    uint32_t n_kv = job->kv->n_kv_heads;
    uint32_t slot = job->position % KV_BLOCK_TOKENS;
    const float *k = job->row + (size_t)job->n_heads * dim;
    const float *v = k + (size_t)n_kv * dim;
    uint16_t *k_out = (uint16_t *)job->block + slot;
    uint16_t *v_out = (uint16_t *)job->block + ((size_t)n_kv * KV_BLOCK_TOKENS + slot) * dim;
    uint32_t rest = dim % 16;
    for (uint32_t h = 0; h < n_kv; h++, v_out += (size_t)KV_BLOCK_TOKENS * dim) {
        uint16_t halves[16];
        uint32_t d = 0;
        for (; d + 16 <= dim; d += 16, k += 16, v += 16, k_out += 16 * KV_BLOCK_TOKENS) {
            vec_store_half(halves, vec_load(k));
            for (uint32_t i = 0; i < 16; i++)
                k_out[i * KV_BLOCK_TOKENS] = halves[i];
            vec_store_half(v_out + d, vec_load(v));
        }
        if (rest == 0)
            continue;
        vec_store_half(halves, vec_load_n(k, rest, 0.0f));
        for (uint32_t i = 0; i < rest; i++)
            k_out[i * KV_BLOCK_TOKENS] = halves[i];
        vec_store_half(halves, vec_load_n(v, rest, 0.0f));
        memcpy(v_out + d, halves, rest * sizeof *halves);
        k += rest;
        v += rest;
        k_out += (size_t)rest * KV_BLOCK_TOKENS;
    }
}

static void path_keep_f32(const struct rope_job *job) {
    uint32_t dim = job->kv->head_dim;
    uint32_t n_kv = job->kv->n_kv_heads;
    uint32_t slot = job->position % KV_BLOCK_TOKENS;
    const float *k = job->row + (size_t)job->n_heads * dim;
    const float *v = k + (size_t)n_kv * dim;
    float *k_out = (float *)job->block + slot;
    float *v_out = (float *)job->block + ((size_t)n_kv * KV_BLOCK_TOKENS + slot) * dim;
    for (uint32_t h = 0; h < n_kv; h++, v += dim, v_out += (size_t)KV_BLOCK_TOKENS * dim) {
        for (uint32_t d = 0; d < dim; d++, k++, k_out += KV_BLOCK_TOKENS)
            *k_out = *k;
        memcpy(v_out, v, dim * sizeof *v);
    }
}

static void path_rope_kv(const struct rope_job *job) {
    path_rope_heads(job);
    if (job->kv->format == KV_F32)
        path_keep_f32(job);
    else
        path_keep_f16(job);
}
