/* kernels/cuda/gpu/tensor_form.h: how weights become operands of mma.m16n8k16, in the order of tensor.h.
 *
 * A FORM says how a matrix is stored: `pieces` of 16 bytes an output and group of 32 inputs, plane p of group g being
 * (pieces * g + p); of integers, how many rows of scales a chunk has; and which input stands where in a row of activations (of
 * floats: its own place).
 *
 * Of integers, a lane has the bytes of two outputs, r and r + 8, and one group of a chunk. Integers become binary16 in registers. Bits of an integer below those of a binary16 of 1024 are 1024 more than it: so one
 * instruction a pair makes the two, a second takes 1024 and the zero away, exactly, and a third multiplies by the scale and adds
 * the minimum, rounded once. Scales and minima of float32 (K-quants) are rounded to binary16 first. */
#pragma once

#include "kernels/cuda/gpu/ints.h"
#include "kernels/cuda/gpu/tensor.h"

namespace GPU_NAMESPACE {

/* 16-bit floats: mma i of a chunk takes its inputs 16 i to 16 i + 15 in their order, whose two planes ldmatrix shares out
 * among the lanes. */
template <weight_format FORMAT> struct form_floats {
    static const weight_format format = FORMAT;
    static const bool ints = false;
    static const int pieces = 4;
    static const uint32_t scale_rows = 0, scale_bytes = 0, min_bytes = 0;
};

/* A number of binary16 twice. */
__device__ __forceinline__ uint32_t pair_of(uint16_t half) {
    return half * 0x10001u;
}
__device__ __forceinline__ uint32_t pair_of(float value) {
    return half2_of(value, value);
}

#define PAIR_1024      0x64006400u /* 1024, whose last place is 1 */
#define PAIR_1152      0x64806480u
#define PAIR_MINUS_64  0xd400d400u /* whose last place is 1/16 */
#define PAIR_SIXTEENTH 0x2c002c00u

/* What a lane multiplies the integers of one group (or half of it) of its two outputs by, and what it takes away or adds: all of
 * them pairs. Of 8 bits with zeros the stored integers are 128 less than the file's; without, 128
 * is what is taken away. */
template <typename STORED> struct ints_scales {
    uint32_t scale[2];
    uint32_t low[2];  /* taken of integers behind 1024: of 8 bits, or the low four */
    uint32_t high[2]; /* added to a sixteenth of the high four behind 1024 */
    uint32_t min[2];

    /* From 16 scales and the minima behind them. */
    __device__ __forceinline__ void load(const uint8_t *row, uint32_t r, bool has_mins) {
        typedef typename STORED::scale number;
        typedef typename STORED::min rest;
#pragma unroll
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t at = r + 8 * j;
            const rest *mins = (const rest *)(row + 16 * sizeof(number));
            scale[j] = pair_of(((const number *)row)[at]);
            low[j] = STORED::four ? PAIR_1024 : PAIR_1152;
            high[j] = PAIR_MINUS_64;
            min[j] = 0;
            if constexpr (STORED::zeros) {
                uint32_t zero = ((const uint8_t *)mins)[at]; /* 4 bits always have one */
                if (!STORED::four && !has_mins)
                    zero = 128;
                zero *= 0x10001u; /* two integers of 16 bits */
                low[j] = PAIR_1024 + zero;
                high[j] += zero * 16;
            } else if (has_mins) {
                min[j] = pair_of(mins[at]);
            }
        }
    }
    /* Four neighbouring inputs of output j, the even ones and the odd ones; high: of the high halves of a word of 4 bits. */
    __device__ __forceinline__ void apply(uint32_t &even, uint32_t &odd, uint32_t word, int j,
                                          bool upper) const {
        uint32_t pairs[2];
        if (!STORED::four) {
            word ^= 0x80808080u;
            pairs[0] = half2_sub(__byte_perm(word, PAIR_1024 | PAIR_1024 >> 8, 0x4240), low[j]);
            pairs[1] = half2_sub(__byte_perm(word, PAIR_1024 | PAIR_1024 >> 8, 0x4341), low[j]);
        } else if (!upper) {
            pairs[0] = half2_sub(and_or(word, 0x000f000fu, PAIR_1024), low[j]);
            pairs[1] = half2_sub(and_or(word >> 8, 0x000f000fu, PAIR_1024), low[j]);
        } else { /* 1024 and 16 times the integer, of which a sixteenth */
            pairs[0] = half2_fma(and_or(word, 0x00f000f0u, PAIR_1024), PAIR_SIXTEENTH, high[j]);
            pairs[1] =
                half2_fma(and_or(word >> 8, 0x00f000f0u, PAIR_1024), PAIR_SIXTEENTH, high[j]);
        }
        even = half2_fma(pairs[0], scale[j], min[j]);
        odd = half2_fma(pairs[1], scale[j], min[j]);
    }
};

/* Integers of 4 bits: a piece has a group, words of inputs 4 w to 4 w + 3 and 16 more. Of 8 bits: piece h has the inputs
 * 16 h + 4 w to 16 h + 4 w + 3 in word w. WHOLE: the groups of a chunk share a scale. */
template <typename STORED_, bool WHOLE> struct form_ints {
    typedef STORED_ stored;
    static const weight_format format = WEIGHT_F16; /* of the operands */
    static const bool ints = true, halves = STORED_::halves;
    static const int pieces = STORED_::planes;
    static const uint32_t scale_rows = WHOLE ? 1 : halves ? 8 : 4;
    static const uint32_t scale_bytes = sizeof(typename STORED_::scale);
    static const uint32_t min_bytes = sizeof(typename STORED_::min);

    struct lane {
        ints_scales<STORED_> scales[halves ? 2 : 1];

        __device__ __forceinline__ void operand(uint32_t a[4], const uint4 (&of)[2][pieces], int w,
                                                int h) const {
            const ints_scales<STORED_> &with = scales[halves ? h : 0];
#pragma unroll
            for (int j = 0; j < 2; j++)
                with.apply(a[j], a[j + 2], word_of(of[j][STORED_::four ? 0 : h], w), j, h != 0);
        }
        /* rows: those of the chunk, `row_bytes` apart; has_mins: the matrix has minima. */
        __device__ __forceinline__ void load(const uint8_t *rows, uint32_t row_bytes, uint32_t t,
                                             uint32_t r, bool has_mins) {
#pragma unroll
            for (uint32_t h = 0; h < (halves ? 2u : 1u); h++)
                scales[h].load(rows + (WHOLE    ? 0
                                       : halves ? 2 * t + h
                                                : t) *
                                          row_bytes,
                               r, has_mins);
        }
    };
    /* The row of the matrix's scales that row i of a chunk is. share: ceil(2^31 / groups_per_scale), which makes a
     * product of a division. */
    __device__ __forceinline__ static uint32_t scale_row(uint32_t chunk, uint32_t i,
                                                         uint32_t share) {
        if (halves)
            return chunk * 8 + i;
        return (uint32_t)((uint64_t)(chunk * 4 + i) * share >> 31);
    }
    /* The inputs of a chunk, by e from 0 to 7, that lane t multiplies in mma 2 w and 2 w + 1: two in each word of its units. */
    __host__ __device__ static uint32_t input(uint32_t t, uint32_t w, uint32_t e) {
        return 32 * t + 4 * w + 16 * (e / 4) + e % 4 / 2 + e % 2 * 2;
    }
};

template <typename FORM> struct form_lane {
    struct type {}; /* floats need nothing beside them */
};
template <typename STORED, bool WHOLE> struct form_lane<form_ints<STORED, WHOLE>> {
    typedef typename form_ints<STORED, WHOLE>::lane type;
};

/* with(form_ints<...>()), of the form that a matrix of integers of 4 or 8 bits has. */
template <typename STORED, typename WITH>
static inline void form_with_stored(const gpu_matrix &w, const WITH &with) {
    if constexpr (STORED::zeros) /* the others have a scale a group of 32 */
        if (w.groups_per_scale % (TENSOR_CHUNK / GROUP) == 0)
            return with(form_ints<STORED, true>());
    with(form_ints<STORED, false>());
}
template <typename WITH> static inline void form_with_4(const gpu_matrix &w, const WITH &with) {
    ints_with_numbers<true>(w, [&](auto stored) { form_with_stored<decltype(stored)>(w, with); });
}
template <typename WITH> static inline void form_with_8(const gpu_matrix &w, const WITH &with) {
    ints_with_8(w, [&](auto stored) { form_with_stored<decltype(stored)>(w, with); });
}

static inline uint32_t form_share(const gpu_matrix &w) {
    return pieces_of((size_t)1 << 31, w.groups_per_scale > 0 ? w.groups_per_scale : 1);
}

} // namespace GPU_NAMESPACE
