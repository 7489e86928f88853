/* kernels/cpu/vec_math.h: exp and silu on sixteen lanes: the operations of kernels/numbers.h, in
 * its order. Include after one of the vec_*.h. */
#pragma once

VEC_INLINE struct vec vec_exp(struct vec x) {
    struct vec y = vec_min(vec_set(EXP_MAX), vec_max(vec_set(EXP_MIN), x));
    struct vec shifted = vec_fma(y, vec_set(EXP_LOG2E), vec_set(ROUND_MAGIC));
    struct vec n = vec_sub(shifted, vec_set(ROUND_MAGIC));
    struct vec r = vec_fma(n, vec_set(-EXP_LN2_HI), y);
    r = vec_fma(n, vec_set(-EXP_LN2_LO), r);
    struct vec p = vec_fma(vec_set(EXP_C7), r, vec_set(EXP_C6));
    p = vec_fma(p, r, vec_set(EXP_C5));
    p = vec_fma(p, r, vec_set(EXP_C4));
    p = vec_fma(p, r, vec_set(EXP_C3));
    p = vec_fma(p, r, vec_set(EXP_C2));
    p = vec_fma(p, r, vec_set(1.0f));
    p = vec_fma(p, r, vec_set(1.0f));
    return vec_zero_below(x, vec_set(EXP_MIN), vec_mul(p, vec_power(shifted)));
}

VEC_INLINE struct vec vec_silu(struct vec t) {
    struct vec e = vec_exp(vec_sub(vec_set(0.0f), t));
    return vec_div(t, vec_add(vec_set(1.0f), e));
}
