/* kernels/cpu/rows.h: operations on one row: norm, gates, softmax, rounding, and the passes over
 * logits. Compiled
 * once per path, after its vec_*.h. */
#pragma once

#include "kernels/cpu/path.h"
#include "kernels/sampling.h"

static void path_norm(float *out, const float *x, const float *gain, float eps, uint32_t dim) {
    struct vec squares = vec_set(0.0f);
    uint32_t whole = dim / 16 * 16;
    uint32_t rest = dim - whole;
    for (uint32_t i = 0; i < whole; i += 16) {
        struct vec v = vec_load(x + i);
        squares = vec_fma(v, v, squares);
    }
    if (rest) {
        struct vec v = vec_load_n(x + whole, rest, 0.0f);
        squares = vec_fma(v, v, squares);
    }
    struct vec factor = vec_set(1.0f / sqrtf(vec_sum(squares) / (float)dim + eps));
    for (uint32_t i = 0; i < whole; i += 16)
        vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), factor), vec_load(gain + i)));
    if (rest) {
        struct vec scaled = vec_mul(vec_load_n(x + whole, rest, 0.0f), factor);
        vec_store_n(out + whole, rest, vec_mul(scaled, vec_load_n(gain + whole, rest, 0.0f)));
    }
}

static void path_silu_mul(float *out, const float *gate, const float *up, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        vec_store(out + i, vec_mul(vec_silu(vec_load(gate + i)), vec_load(up + i)));
    uint32_t rest = (uint32_t)(n - i);
    if (rest) {
        struct vec activated = vec_silu(vec_load_n(gate + i, rest, 0.0f));
        vec_store_n(out + i, rest, vec_mul(activated, vec_load_n(up + i, rest, 0.0f)));
    }
}

static void path_add_scaled(float *out, const float *x, float factor, size_t n) {
    struct vec f = vec_set(factor);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        vec_store(out + i, vec_fma(f, vec_load(x + i), vec_load(out + i)));
    uint32_t rest = (uint32_t)(n - i);
    if (rest) {
        struct vec sum = vec_fma(f, vec_load_n(x + i, rest, 0.0f), vec_load_n(out + i, rest, 0.0f));
        vec_store_n(out + i, rest, sum);
    }
}

/* Lanes behind the end are -infinity: they lose to every maximum and add an exact zero. */
static void path_softmax(float *out, const float *x, uint32_t n) {
    struct vec max = vec_set(-INFINITY);
    struct vec sum = vec_set(0.0f);
    for (uint32_t i = 0; i < n; i += 16)
        max = vec_max(vec_load_n(x + i, n - i < 16 ? n - i : 16, -INFINITY), max);
    struct vec highest = vec_set(vec_max_lane(max));
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t lanes = n - i < 16 ? n - i : 16;
        struct vec p = vec_exp(vec_sub(vec_load_n(x + i, lanes, -INFINITY), highest));
        vec_store_n(out + i, lanes, p);
        sum = vec_add(sum, p);
    }
    struct vec total = vec_set(vec_sum(sum));
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t lanes = n - i < 16 ? n - i : 16;
        vec_store_n(out + i, lanes, vec_div(vec_load_n(out + i, lanes, 0.0f), total));
    }
}

static void path_round_bf16(float *out, const float *x, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        vec_store(out + i, vec_round_bf16(vec_load(x + i)));
    uint32_t rest = (uint32_t)(n - i);
    if (rest)
        vec_store_n(out + i, rest, vec_round_bf16(vec_load_n(x + i, rest, 0.0f)));
}

static bool path_block_maxima(const float *x, uint32_t n, float *maxima) {
    bool nan = false;
    for (uint32_t begin = 0; begin < n; begin += SAMPLING_BLOCK) {
        uint32_t end = n - begin < SAMPLING_BLOCK ? n : begin + SAMPLING_BLOCK;
        struct vec max = vec_set(-INFINITY);
        struct vec zero = vec_set(0.0f);
        uint32_t i = begin;
        for (; i + 16 <= end; i += 16) {
            struct vec v = vec_load(x + i);
            max = vec_max(v, max);
            zero = vec_fma(v, vec_set(0.0f), zero); /* NaN after NaN or infinity */
        }
        if (i < end) {
            struct vec v = vec_load_n(x + i, end - i, -INFINITY);
            max = vec_max(v, max);
            nan |= vec_any_nan(v);
        }
        if (vec_any_nan(zero)) /* rare: look for a NaN proper */
            for (uint32_t j = begin; j < end; j++)
                nan |= x[j] != x[j];
        maxima[begin / SAMPLING_BLOCK] = vec_max_lane(max);
    }
    return !nan;
}

/* Ids [begin, end) of one block; gives its maximum. */
static float mask_block(float *x, uint32_t begin, uint32_t end, const uint32_t *bits) {
    struct vec max = vec_set(-INFINITY);
    uint32_t i = begin;
    for (; i + 16 <= end; i += 16) {
        struct vec v = vec_only(vec_load(x + i), bits[i / 32] >> i % 32);
        vec_store(x + i, v);
        max = vec_max(v, max);
    }
    if (i < end) {
        struct vec v = vec_only(vec_load_n(x + i, end - i, -INFINITY), bits[i / 32] >> i % 32);
        vec_store_n(x + i, end - i, v);
        max = vec_max(v, max);
    }
    return vec_max_lane(max);
}

static void path_mask(float *x, uint32_t n, const uint32_t *bits, float *maxima) {
    enum { words = SAMPLING_BLOCK / 32 };
    for (uint32_t begin = 0; begin < n; begin += SAMPLING_BLOCK) {
        uint32_t end = n - begin < SAMPLING_BLOCK ? n : begin + SAMPLING_BLOCK;
        bool is_whole = end - begin == SAMPLING_BLOCK;
        uint32_t all = UINT32_MAX, any = 0;
        for (uint32_t i = 0; is_whole && i < words; i++) {
            all &= bits[begin / 32 + i];
            any |= bits[begin / 32 + i];
        }
        if (is_whole && all == UINT32_MAX)
            continue;
        if (!is_whole || any != 0) {
            maxima[begin / SAMPLING_BLOCK] = mask_block(x, begin, end, bits);
            continue;
        }
        for (uint32_t i = begin; i < end; i += 16)
            vec_store(x + i, vec_set(-INFINITY));
        maxima[begin / SAMPLING_BLOCK] = -INFINITY;
    }
}

static void path_block_exps(const float *x, uint32_t n, float max, float factor, float *out,
                            float *sums) {
    for (uint32_t begin = 0; begin < n; begin += SAMPLING_BLOCK) {
        uint32_t end = n - begin < SAMPLING_BLOCK ? n : begin + SAMPLING_BLOCK;
        struct vec sum = vec_set(0.0f);
        uint32_t i = begin;
        for (; i + 16 <= end; i += 16) {
            struct vec shifted = vec_sub(vec_load(x + i), vec_set(max));
            struct vec p = vec_exp(vec_mul(shifted, vec_set(factor)));
            sum = vec_add(sum, p);
            if (out)
                vec_store(out + i, p);
        }
        if (i < end) {
            struct vec shifted = vec_sub(vec_load_n(x + i, end - i, -INFINITY), vec_set(max));
            struct vec p = vec_exp(vec_mul(shifted, vec_set(factor)));
            sum = vec_add(sum, p);
            if (out)
                vec_store_n(out + i, end - i, p);
        }
        sums[begin / SAMPLING_BLOCK] = vec_sum(sum);
    }
}

static uint32_t path_find_at_least(const float *x, uint32_t n, float threshold, uint32_t *ids) {
    uint32_t count = 0;
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (uint32_t mask = vec_mask_ge(vec_load(x + i), vec_set(threshold)); mask;
             mask &= mask - 1)
            ids[count++] = i + (uint32_t)__builtin_ctz(mask);
    for (; i < n; i++)
        if (x[i] >= threshold)
            ids[count++] = i;
    return count;
}
