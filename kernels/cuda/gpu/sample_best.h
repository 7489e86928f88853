/* kernels/cuda/gpu/sample_best.h: the best of a row of values, for sample.cu: values as keys that fall in the order of
 * kernels/ref/sample.c (larger value first, lower id first among equals), and lists of the best keys, each
 * sorted and wholly before the next. */
#pragma once

#include "kernels/cuda/gpu/common.h"

namespace GPU_NAMESPACE {

#define CHOOSE_THREADS 512
#define LIST_MAX       2048 /* of a list: a power of two */
#define DIGIT_BITS     8
#define DIGITS         (1u << DIGIT_BITS)

/* A value and its id as one number, larger where it stands before. Values that compare as equal are equal:
 * zeros, and what is flushed to zero. */
__device__ __forceinline__ uint64_t key_of(float x, uint32_t id) {
    uint32_t bits = float_bits(x);
    bits = (bits & 0x7fffffffu) < 0x00800000u ? 0 : bits;
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | ~id;
}

__device__ __forceinline__ float value_of(uint64_t key) {
    uint32_t bits = (uint32_t)(key >> 32);
    return float_from_bits(bits >> 31 ? bits ^ 0x80000000u : ~bits);
}

__device__ __forceinline__ uint32_t id_of(uint64_t key) {
    return ~(uint32_t)key;
}

#define KEY_NAN      UINT64_MAX                    /* the best of ids with a NaN among them */
#define KEY_INFINITY ((uint64_t)0xff800000u << 32) /* the least of +infinity */
#define KEY_FINITE   ((uint64_t)0x00800000u << 32) /* the least above -infinity */

/* The largest of the warp's keys, in all lanes. The warp calls. */
__device__ __forceinline__ uint64_t warp_best(uint64_t key) {
    for (int width = 16; width > 0; width /= 2) {
        uint64_t other = (uint64_t)__shfl_xor_sync(FULL_WARP, (uint32_t)(key >> 32), width) << 32 |
                         __shfl_xor_sync(FULL_WARP, (uint32_t)key, width);
        key = other > key ? other : key;
    }
    return key;
}

/* The largest of a row's n keys, in all threads. The block calls; `warps` is shared: a key a warp. */
template <uint32_t THREADS>
__device__ __forceinline__ uint64_t row_best(uint64_t *warps, const uint64_t *keys, uint32_t n) {
    uint64_t best = 0;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS)
        best = keys[i] > best ? keys[i] : best;
    best = warp_best(best);
    __syncthreads(); /* the last call's keys are read */
    if (threadIdx.x % WARP == 0)
        warps[threadIdx.x / WARP] = best;
    __syncthreads();
    for (uint32_t i = 0; i < THREADS / WARP; i++)
        best = warps[i] > best ? warps[i] : best;
    return best;
}

/* A list of the best: keys in falling order. */
struct list_shared {
    uint64_t keys[LIST_MAX];
    uint32_t counts[DIGITS];
    uint64_t from; /* no listed key is less, and none of the range that is not */
    uint32_t n;
    uint32_t digit; /* see end_list() */
    bool fits;
};

/* Which keys are listed: those of values x (n) within [floor, below). */
struct list_range {
    const float *x;
    uint32_t n;
    uint64_t floor;
    uint64_t below;

    __device__ __forceinline__ bool has(uint64_t key) const {
        return key >= floor && key < below;
    }
};

/* Ends a list by the counts of a digit, whole digits at a time: when it has `wanted`, when the next would not
 * fit, or with the last. Answers the least digit taken, or, `fits` being false, the highest, which does
 * not fit alone. One warp calls; lane 0 has the highest digits. */
__device__ __forceinline__ void end_list(list_shared &s, uint32_t wanted) {
    const uint32_t own = DIGITS / WARP;
    uint32_t lane = threadIdx.x, top = DIGITS - 1 - lane * own, sum = 0;
    for (uint32_t i = 0; i < own; i++)
        sum += s.counts[top - i];
    uint32_t before = sum; /* becomes the count of higher digits than this lane's */
    for (uint32_t width = 1; width < WARP; width *= 2) {
        uint32_t other = __shfl_up_sync(FULL_WARP, before, width);
        before += lane >= width ? other : 0;
    }
    if (lane == WARP - 1) { /* unless it ends before the last */
        s.n = before;
        s.fits = true;
        s.digit = 0;
    }
    before -= sum;
    __syncwarp();
    for (uint32_t i = 0; i < own; i++) {
        uint32_t after = before + s.counts[top - i];
        if (before < wanted && before <= LIST_MAX && after > LIST_MAX) {
            s.n = before;
            s.fits = before > 0;
            s.digit = top - i + (before > 0 ? 1 : 0);
        } else if (before < wanted && after >= wanted && after <= LIST_MAX) {
            s.n = after;
            s.digit = top - i;
        }
        before = after;
    }
}

/* The list falls in order: a bitonic network. The block calls. */
__device__ __forceinline__ void sort_list(list_shared &s) {
    uint32_t n = 1;
    while (n < s.n)
        n *= 2;
    for (uint32_t i = s.n + threadIdx.x; i < n; i += CHOOSE_THREADS)
        s.keys[i] = 0;
    for (uint32_t size = 2; size <= n; size *= 2)
        for (uint32_t step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < n / 2; i += CHOOSE_THREADS) {
                uint32_t low = i / step * 2 * step + i % step, high = low + step;
                bool falls = (low & size) == 0;
                uint64_t a = s.keys[low], b = s.keys[high];
                if (falls ? a < b : a > b) {
                    s.keys[low] = b;
                    s.keys[high] = a;
                }
            }
        }
    __syncthreads();
}

/* The best keys of the range, `wanted` (at most LIST_MAX) or more where there are and they fit; s.n is 0 when
 * there is none. Looks at one digit after the other until the keys of one fit. The block calls. */
__device__ __forceinline__ void list_best(list_shared &s, const list_range &range,
                                          uint32_t wanted) {
    uint64_t from = 0;
    for (int shift = 64 - DIGIT_BITS;; shift -= DIGIT_BITS) {
        __syncthreads(); /* what the last list or digit left is read */
        if (threadIdx.x < DIGITS)
            s.counts[threadIdx.x] = 0;
        __syncthreads();
        uint64_t prefix = from >> shift >> DIGIT_BITS;
#pragma unroll 8
        for (uint32_t i = threadIdx.x; i < range.n; i += CHOOSE_THREADS) {
            uint64_t key = key_of(range.x[i], i);
            if (range.has(key) && key >> shift >> DIGIT_BITS == prefix)
                atomicAdd(&s.counts[key >> shift & (DIGITS - 1)], 1u);
        }
        __syncthreads();
        if (threadIdx.x < WARP)
            end_list(s, wanted);
        __syncthreads();
        from |= (uint64_t)s.digit << shift;
        if (s.fits)
            break;
    }
    __syncthreads(); /* the counts are read */
    uint32_t *n_listed = &s.counts[0];
    if (threadIdx.x == 0) {
        *n_listed = 0;
        s.from = from > range.floor ? from : range.floor;
    }
    __syncthreads();
    from = s.from;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < range.n; i += CHOOSE_THREADS) {
        uint64_t key = key_of(range.x[i], i);
        if (key >= from && key < range.below)
            s.keys[atomicAdd(n_listed, 1u)] = key;
    }
    __syncthreads();
    sort_list(s);
}

} // namespace GPU_NAMESPACE
