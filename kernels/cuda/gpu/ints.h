/* kernels/cuda/gpu/ints.h: what the products with matrices of integers share, whatever their number of rows. */
#pragma once

#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

/* How a matrix is stored (struct gpu_matrix): 4 or 8 bits, whether each half of a group has its own scale, and what
 * scales and minima are: float32, binary16, or binary16 with zeros of a byte. */
template <bool FOUR_, bool HALVES_, typename SCALE, typename MIN> struct ints_stored {
    static const bool four = FOUR_, halves = HALVES_, zeros = sizeof(MIN) == 1;
    static const uint32_t planes = FOUR_ ? 1 : 2;
    typedef SCALE scale;
    typedef MIN min;
};

/* Answers with(ints_stored<...>()), of the one that the matrix is. */
template <bool FOUR, typename WITH>
static inline auto ints_with_numbers(const gpu_matrix &w, const WITH &with) {
    if (w.zeros)
        return with(ints_stored<FOUR, false, uint16_t, uint8_t>());
    if (w.wide)
        return with(ints_stored<FOUR, false, float, float>());
    return with(ints_stored<FOUR, false, uint16_t, uint16_t>());
}
template <typename WITH> static inline auto ints_with_8(const gpu_matrix &w, const WITH &with) {
    if (w.groups_per_scale > 0)
        return ints_with_numbers<false>(w, with);
    if (w.wide)
        return with(ints_stored<false, true, float, float>());
    return with(ints_stored<false, true, uint16_t, uint16_t>());
}
template <typename WITH> static inline auto ints_with(const gpu_matrix &w, const WITH &with) {
    return w.format == WEIGHT_I4G ? ints_with_numbers<true>(w, with) : ints_with_8(w, with);
}

/* A GPU turns integers into floats at a fraction of the rate of its sums, which would limit a product. So an mma begins
 * at the bits of 1.5 * 2^23: its results are the bits of floats that are as much too large, as dots are below 2^22. */
#define DOT_BIAS 0x4b400000

__device__ __forceinline__ void dot_block(int32_t dot[4], const uint32_t a[4],
                                          const uint32_t b[2]) {
    const int32_t bias[4] = {DOT_BIAS, DOT_BIAS, DOT_BIAS, DOT_BIAS};
    mma_m16n8k32_s8_s32_from(dot, a, b, bias);
}

__device__ __forceinline__ float dot_value(int32_t dot) {
    return float_from_bits((uint32_t)dot) - float_from_bits(DOT_BIAS);
}

/* Neighbouring outputs, n the first of them, of neighbouring rows of integers: two rows, or the two terms of one. */
__device__ __forceinline__ void store_block(const gpu_linear &what, uint32_t m, uint32_t n,
                                            const float f[4]) {
    const gpu_matrix &w = what.choice.matrix;
    if (n >= w.n)
        return;
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t row = what.fine ? m / 2 : m + r;
        float *out = what.out + (size_t)row * what.out_stride;
        if (row >= what.n_rows || (what.fine && r > 0))
            return;
        if (what.epilogue == EPILOGUE_SILU_MUL) {
            if (n + 1 < w.n)
                out[n / 2] =
                    numbers_silu(with_scale(w, n, f[2 * r])) * with_scale(w, n + 1, f[2 * r + 1]);
            continue;
        }
        for (uint32_t e = 0; e < 2 && n + e < w.n; e++)
            store_output(w, out + n + e, n + e, with_scale(w, n + e, f[2 * r + e]),
                         what.epilogue == EPILOGUE_ADD, what.fine, f[2 + e]);
    }
}

} // namespace GPU_NAMESPACE
