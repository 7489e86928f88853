/* kernels/numbers.h: the numbers that every CPU path must reproduce bit for bit, in plain C.
 *
 * ref and the scalar path use these functions; the vector paths do the same operations in the same
 * order on 16 lanes. All of it assumes round-to-nearest, flush-to-zero and denormals-are-zero
 * (numbers_enter). Nothing here calls libm but fmaf and sqrtf, which are exact. */
#pragma once

#include "kernels/half.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Names the rules: contexts with equal text give equal bits. Change it with any rule below. */
#define NUMERICS_TEXT "tandem-f32 lanes16 acts-i8g32 fine-i8 exp7 attend256 v2"

#define NUMBERS_LANES 16
#define GROUP         32 /* inputs per scale, of weights and activations; zeros fill up the last */

#define ATTEND_CHUNK 256 /* tokens of one partial softmax, counted from position 0 */

/* Sets flush-to-zero and denormals-are-zero in this thread; gives what to hand back. */
static inline uint32_t numbers_enter(void) {
#if defined(__x86_64__)
    uint32_t saved = _mm_getcsr();
    _mm_setcsr((saved & ~0x6000u) | 0x8040u);
    return saved;
#else
    return 0;
#endif
}

static inline void numbers_leave(uint32_t saved) {
#if defined(__x86_64__)
    _mm_setcsr(saved);
#else
    (void)saved;
#endif
}

/* Adds 16 lanes: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
EVERYWHERE float numbers_tree(const float lanes[NUMBERS_LANES]) {
    float sum[8];
    for (int i = 0; i < 8; i++)
        sum[i] = lanes[i] + lanes[i + 8];
    for (int width = 4; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            sum[i] += sum[i + width];
    return sum[0];
}

/* Adding it rounds to an integer, ties to even, and leaves that in the low bits. */
#define ROUND_MAGIC 0x1.8p+23f

/* exp(x) = 2^n exp(r), r = x - n ln 2 in two parts, exp(r) by its Taylor polynomial of degree 7:
 * its error, r^8 / 8! with |r| <= ln 2 / 2, is below 2^-27. Below EXP_MIN the result is an exact
 * zero, above EXP_MAX it stays at exp(EXP_MAX). NaN gives NaN. */
#define EXP_MIN    (-87.0f)
#define EXP_MAX    88.0f
#define EXP_LOG2E  0x1.715476p+0f
#define EXP_LN2_HI 0x1.62e4p-1f
#define EXP_LN2_LO 0x1.7f7d1cp-20f
#define EXP_C2     0.5f
#define EXP_C3     0x1.555556p-3f
#define EXP_C4     0x1.555556p-5f
#define EXP_C5     0x1.111112p-7f
#define EXP_C6     0x1.6c16c2p-10f
#define EXP_C7     0x1.a01a02p-13f

EVERYWHERE float numbers_exp(float x) {
    float y = EXP_MIN > x ? EXP_MIN : x;
    y = EXP_MAX < y ? EXP_MAX : y;
    float shifted = fmaf(y, EXP_LOG2E, ROUND_MAGIC);
    float n = shifted - ROUND_MAGIC;
    float r = fmaf(n, -EXP_LN2_HI, y);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = fmaf(EXP_C7, r, EXP_C6);
    p = fmaf(p, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float power = float_from_bits((float_bits(shifted) << 23) + 0x3f800000u);
    return x < EXP_MIN ? 0.0f : p * power;
}

/* silu(t) = t / (1 + exp(-t)). */
EVERYWHERE float numbers_silu(float t) {
    return t / (1.0f + numbers_exp(0.0f - t));
}

/* 1 / (1 + exp(-t)). */
EVERYWHERE float numbers_sigmoid(float t) {
    return 1.0f / (1.0f + numbers_exp(0.0f - t));
}

/* Natural logarithm of a positive finite number, for logprobs: ln m + e ln 2 with m in [sqrt(1/2),
 * sqrt(2)) and ln m = 2 atanh((m - 1) / (m + 1)) by its series; the error is below 1e-15. */
double numbers_log(double x);

/* Activations of one group become integers: scale = max|x| / 127, q = round(x * (127 / max|x|)),
 * ties to even, within [-127, 127]. A group whose largest value is below 2^-100 is zero; one that
 * holds NaN or infinity gets q = 0 and a scale that makes the result NaN. */
#define QUANT_TINY 0x1p-100f

static inline void numbers_quantize(const float x[GROUP], int8_t q[GROUP], float *scale) {
    uint32_t max_bits = 0;
    for (int i = 0; i < GROUP; i++) {
        uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
        max_bits = bits > max_bits ? bits : max_bits;
    }
    float max = float_from_bits(max_bits);
    memset(q, 0, GROUP);
    *scale = max_bits >= 0x7f800000u ? float_from_bits(0x7fc00000u) : 0.0f;
    if (max_bits >= 0x7f800000u || max < QUANT_TINY)
        return;
    *scale = max / 127.0f;
    float inverse = 127.0f / max;
    for (int i = 0; i < GROUP; i++) {
        float rounded = (x[i] * inverse + ROUND_MAGIC) - ROUND_MAGIC;
        rounded = rounded > 127.0f ? 127.0f : rounded;
        q[i] = (int8_t)(rounded < -127.0f ? -127.0f : rounded);
    }
}

/* Matrices of 8-bit integers (an output head above all) are finer than one 8-bit term of the
 * activations, and AWQ's and GPTQ's were made for 16-bit ones: these take them in two, x = scale q
 * + rest, and the rest quantized once more; the second product is added to the first. Rounding the
 * activations of SmolLM2's head once made a fifth of the squared error of its logits. Not where two
 * outputs are multiplied. */
EVERYWHERE bool numbers_fine(const struct weight *weight, enum epilogue epilogue) {
    return weight->fine && epilogue != EPILOGUE_SILU_MUL;
}

/* What the first term leaves of one activation. */
EVERYWHERE float numbers_rest(float x, float scale, int8_t q) {
    return x - scale * (float)q;
}
