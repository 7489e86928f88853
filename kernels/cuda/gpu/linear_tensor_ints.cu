/* Products with matrices of integers of 4 and 8 bits on 16-bit tensor cores: the backend's fast numerics for them.
 *
 * The integers come into shared memory as they are stored, with the scales and minima of their groups, and become
 * operands in registers. Bits of an integer below those of a binary16 of 1024 are 1024 more than it. So one
 * instruction a pair makes the two, a second takes 1024 and the zero away, exactly, and a third multiplies by the
 * scale and adds the minimum, rounded once: 13 instructions for the 8 weights of a word of 4 bits, where a warp with 64 rows
 * has 16 mma for two words. To multiply integers and to scale each group's sums would save four of the 13, but take
 * four instructions a group and mma of outputs and rows, and registers for all the sums twice.
 *
 * Word t of a group has the inputs 4 t and 4 t + 2 of 16 in one pair, 4 t + 1 and 4 t + 3 in the other: the operand's
 * inputs are the even ones and then the odd ones of 16, and rows of activations are rounded into that order. Scales
 * and minima of float32 (K-quants) are rounded to binary16 first. */
#include "kernels/cuda/gpu/ints.h"
#include "kernels/cuda/gpu/quantize.h"
#include "kernels/cuda/gpu/tensor.h"

namespace GPU_NAMESPACE {

#define STEP_INPUTS 16 /* of an mma: half a group */

/* STEP_INPUTS of a row as float32, in the matrix's order, into the planes of even and odd ones. */
__device__ __forceinline__ void round_step(uint4 *even, uint4 *odd, const float *row,
                                           const uint32_t *order, uint32_t begin, float factor) {
    uint32_t words[2][STEP_INPUTS / 4];
#pragma unroll
    for (uint32_t i = 0; i < STEP_INPUTS / 4; i++) {
        float x[4];
        load_inputs(x, row, order, begin + 4 * i);
        words[0][i] = half2_of(x[0] * factor, x[2] * factor);
        words[1][i] = half2_of(x[1] * factor, x[3] * factor);
    }
    *even = make_uint4(words[0][0], words[0][1], words[0][2], words[0][3]);
    *odd = make_uint4(words[1][0], words[1][1], words[1][2], words[1][3]);
}

/* A block a row. */
__global__ void __launch_bounds__(ROUND_THREADS) round_ints_kernel(gpu_quantize what) {
    SHARED(round_shared, s);
    const gpu_matrix &w = what.choice.matrix;
    uint32_t row = blockIdx.x, n_steps = w.k_stored / STEP_INPUTS;
    const float *from = what.x + (size_t)row * w.k;
    griddep_launch();
    griddep_wait();
    row_powers powers = powers_of(largest_bits(s, from, w.k));
    uint4 *to = (uint4 *)what.to.q + row;
    for (uint32_t i = threadIdx.x; i < n_steps; i += ROUND_THREADS)
        round_step(to + (size_t)(2 * i) * what.n_rows, to + (size_t)(2 * i + 1) * what.n_rows, from,
                   w.order, i * STEP_INPUTS, powers.factor);
    if (threadIdx.x == 0)
        what.to.scales[row] = powers.back;
}

void round_for_ints(struct device_stream *stream, const gpu_quantize *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows), dim3(ROUND_THREADS), sizeof(round_shared),
                     round_ints_kernel, *what);
}

/* A stage is whole groups. It has room for as many scales of an output as it can have at most. */
template <typename FORM, typename TILE> struct tensor_ints_shared {
    static const int n_groups = TILE::n_planes / 4, n_planes = n_groups * FORM::planes;
    static const int n_scales = FORM::halves ? 2 * n_groups : n_groups;
    static_assert(TILE::n_planes % 4 == 0, "whole groups");
    alignas(16) uint4 w[TILE::n_stages][n_planes][TILE::outputs];
    alignas(16) uint4 x[TILE::n_stages][TILE::n_planes][TILE::rows];
    alignas(16) typename FORM::scale scales[TILE::n_stages][n_scales][TILE::outputs];
    alignas(16) typename FORM::min mins[TILE::n_stages][n_scales][TILE::outputs];
};

/* Which scale a group has; of halves, the first of its two. `share` is ceil(2^31 / groups_per_scale): a division
 * becomes a product. */
template <typename FORM>
__device__ __forceinline__ uint32_t scale_of(uint32_t group, uint32_t share) {
    return FORM::halves ? 2 * group : (uint32_t)((uint64_t)group * share >> 31);
}

/* 16 bytes of a row of numbers of a byte or more, those of outputs from `output` on; zeros where there are none. */
template <typename NUMBER>
__device__ __forceinline__ void fetch_numbers(NUMBER *to, const void *from, uint32_t row,
                                              uint32_t output, uint32_t n_padded, bool there) {
    there = there && output < n_padded;
    cp_async_16(to, (const NUMBER *)from + (there ? (size_t)row * n_padded + output : 0),
                there ? 16 : 0);
}

/* Scales and minima of a stage's groups. */
template <typename FORM, typename TILE>
__device__ __forceinline__ void fetch_scales(tensor_ints_shared<FORM, TILE> &s,
                                             const gpu_linear &what, uint32_t number,
                                             uint32_t share) {
    typedef tensor_ints_shared<FORM, TILE> shared;
    const gpu_matrix &w = what.choice.matrix;
    const uint32_t per_scales = 16 / sizeof(typename FORM::scale);
    const uint32_t per_mins = 16 / sizeof(typename FORM::min);
    const uint32_t of_scales = TILE::outputs / per_scales; /* pieces of a row */
    const uint32_t of_both = of_scales + TILE::outputs / per_mins;
    uint32_t stage = number % TILE::n_stages, begin = number * shared::n_groups;
    uint32_t first = scale_of<FORM>(begin, share);
    uint32_t n = scale_of<FORM>(begin + shared::n_groups - 1, share) - first + 1 + FORM::halves;
    uint32_t n_there =
        scale_of<FORM>(w.k_stored / GROUP - 1, share) + 1 + FORM::halves; /* in all */
    for (uint32_t i = threadIdx.x; i < n * of_both; i += TILE::n_threads) {
        uint32_t row = i / of_both, piece = i % of_both, at = blockIdx.y * TILE::outputs;
        bool there = first + row < n_there;
        if (piece < of_scales)
            fetch_numbers(&s.scales[stage][row][piece * per_scales], w.scales, first + row,
                          at + piece * per_scales, w.n_padded, there);
        else if (w.mins)
            fetch_numbers(&s.mins[stage][row][(piece - of_scales) * per_mins], w.mins, first + row,
                          at + (piece - of_scales) * per_mins, w.n_padded, there);
    }
}

/* Stage `number` of the weights. */
template <typename FORM, typename TILE>
__device__ __forceinline__ void fetch_ints(tensor_ints_shared<FORM, TILE> &s,
                                           const gpu_linear &what, uint32_t number,
                                           uint32_t share) {
    typedef tensor_ints_shared<FORM, TILE> shared;
    const gpu_matrix &w = what.choice.matrix;
    const int each = shared::n_planes * TILE::outputs / TILE::n_threads;
    static_assert(shared::n_planes * TILE::outputs % TILE::n_threads == 0,
                  "all threads fetch alike");
    fetch_planes<TILE, TILE::outputs, each>(
        s.w[number % TILE::n_stages], w.data, blockIdx.y * TILE::outputs, w.n_padded,
        number * shared::n_planes, w.k_stored / GROUP * FORM::planes);
    fetch_scales(s, what, number, share);
}

/* A number of binary16 twice. */
__device__ __forceinline__ uint32_t pair_of(uint16_t half) {
    return half * 0x10001u;
}
__device__ __forceinline__ uint32_t pair_of(float value) {
    return half2_of(value, value);
}
__device__ __forceinline__ uint32_t pair_of(uint8_t zero) {
    return zero * 0x10001u; /* two integers of 16 bits */
}

#define PAIR_1024      0x64006400u /* 1024, whose last place is 1 */
#define PAIR_1152      0x64806480u
#define PAIR_MINUS_64  0xd400d400u /* whose last place is 1/16 */
#define PAIR_SIXTEENTH 0x2c002c00u

/* Four neighbouring inputs of an output of a group, less their zeros (a pair of integers), exactly: even ones, then odd ones. Of
 * 8 bits with zeros the stored integers are 128 less than the file's. */
template <typename FORM>
__device__ __forceinline__ void subtract_zeros(uint32_t to[2], uint32_t word, bool second,
                                               uint32_t zeros) {
    if (!FORM::four) {
        uint32_t base = FORM::zeros ? PAIR_1024 + zeros : PAIR_1152;
        word ^= 0x80808080u;
        to[0] = half2_sub(__byte_perm(word, PAIR_1024 | PAIR_1024 >> 8, 0x4240), base);
        to[1] = half2_sub(__byte_perm(word, PAIR_1024 | PAIR_1024 >> 8, 0x4341), base);
    } else if (!second) {
        uint32_t base = PAIR_1024 + (FORM::zeros ? zeros : 0);
        to[0] = half2_sub((word & 0x000f000fu) | PAIR_1024, base);
        to[1] = half2_sub((word >> 8 & 0x000f000fu) | PAIR_1024, base);
    } else { /* 1024 and 16 times the integer, of which a sixteenth */
        uint32_t base = PAIR_MINUS_64 + (FORM::zeros ? zeros * 16 : 0);
        to[0] = half2_fma((word & 0x00f000f0u) | PAIR_1024, PAIR_SIXTEENTH, base);
        to[1] = half2_fma((word >> 8 & 0x00f000f0u) | PAIR_1024, PAIR_SIXTEENTH, base);
    }
}

/* What a lane has of the group that is multiplied: words of its two outputs of each tile of 16, and their scales. */
template <typename FORM, typename TILE> struct ints_lane {
    uint32_t words[TILE::n][FORM::planes][2];
    uint32_t scale[TILE::n][2]; /* pairs */
    uint32_t rest[TILE::n][2];  /* pairs of minima or zeros */
    uint32_t number;            /* of these scales */

    /* Four matrices of 8 outputs at a time: of two tiles, or of both planes of one. */
    __device__ __forceinline__ void load_words(const uint4 (*w)[TILE::outputs], uint32_t group) {
        uint32_t lane = threadIdx.x % WARP;
        uint32_t column = threadIdx.x / WARP / TILE::warps_m * TILE::n * 16;
        if (!FORM::four) {
            w += group * 2 + lane / 16;
#pragma unroll
            for (uint32_t i = 0; i < TILE::n; i++)
                ldmatrix_x4(words[i][0], w[0] + column + i * 16 + lane % 16);
        } else if (TILE::n % 2 == 0) {
#pragma unroll
            for (uint32_t i = 0; i < TILE::n; i += 2)
                ldmatrix_x4(words[i][0], w[group] + column + i * 16 + lane);
        } else {
#pragma unroll
            for (uint32_t i = 0; i < 2 * TILE::n; i++)
                words[i / 2][0][i % 2] =
                    ((const uint32_t *)(w[group] + column + i * 8 + lane / 4))[lane % 4];
        }
    }

    /* Scales at `place` of a stage, number `wanted` of the matrix. */
    __device__ __forceinline__ void load_scales(const tensor_ints_shared<FORM, TILE> &s,
                                                uint32_t stage, uint32_t place, uint32_t wanted,
                                                bool has_mins) {
        if (wanted == number)
            return;
        number = wanted;
        uint32_t output =
            threadIdx.x / WARP / TILE::warps_m * TILE::n * 16 + threadIdx.x % WARP / 4;
#pragma unroll
        for (uint32_t i = 0; i < 2 * TILE::n; i++) {
            scale[i / 2][i % 2] = pair_of(s.scales[stage][place][output + i * 8]);
            rest[i / 2][i % 2] = FORM::zeros ? pair_of((uint8_t)128) : 0;
            if (has_mins)
                rest[i / 2][i % 2] = pair_of(s.mins[stage][place][output + i * 8]);
        }
    }

    /* Operands of the first or second 16 inputs. */
    __device__ __forceinline__ void make(uint32_t a[TILE::n][4], bool second) const {
#pragma unroll
        for (uint32_t i = 0; i < TILE::n; i++)
#pragma unroll
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t pairs[2], word = words[i][!FORM::four && second][j];
                subtract_zeros<FORM>(pairs, word, second, rest[i][j]);
                a[i][j] = half2_fma(pairs[0], scale[i][j], FORM::zeros ? 0 : rest[i][j]);
                a[i][j + 2] = half2_fma(pairs[1], scale[i][j], FORM::zeros ? 0 : rest[i][j]);
            }
    }
};

/* The operands of step `step` of stage `number`. */
template <typename FORM, typename TILE>
__device__ __forceinline__ void
load_operands(tensor_operands<TILE> &to, ints_lane<FORM, TILE> &lane,
              const tensor_ints_shared<FORM, TILE> &s, uint32_t number, uint32_t step,
              uint32_t share, bool has_mins) {
    uint32_t stage = number % TILE::n_stages, first = number * s.n_groups, second = step % 2;
    if (second == 0)
        lane.load_words(s.w[stage], step / 2);
    if (second == 0 || FORM::halves) {
        uint32_t wanted = scale_of<FORM>(first + step / 2, share) + (FORM::halves ? second : 0);
        lane.load_scales(s, stage, wanted - scale_of<FORM>(first, share), wanted, has_mins);
    }
    lane.make(to.a, second != 0);
    to.load_x(s.x[stage], step);
}

template <typename FORM, typename TILE>
__global__ void __launch_bounds__(TILE::n_threads)
    tensor_ints_kernel(gpu_linear what, uint32_t share) {
    typedef tensor_ints_shared<FORM, TILE> shared;
    SHARED(shared, s);
    const int n_steps = TILE::n_planes / 2;
    const uint32_t inputs = TILE::n_planes * PLANE;
    const bool has_mins = what.choice.matrix.mins != NULL;
    uint32_t n_stages = (what.choice.matrix.k_stored + inputs - 1) / inputs;
    float acc[TILE::n][TILE::m][4] = {};
    tensor_operands<TILE> operands[2];
    ints_lane<FORM, TILE> lane;
    lane.number = UINT32_MAX;
    griddep_launch();
    for (uint32_t i = 0; i + 1 < TILE::n_stages; i++)
        fetch_ints(s, what, i, share);
    griddep_wait();
    for (uint32_t i = 0; i + 1 < TILE::n_stages; i++)
        fetch_x<TILE>(s, what, i);
    for (uint32_t i = 0; i < n_stages; i++) {
        cp_async_wait<TILE::n_stages - 2>();
        __syncthreads(); /* the stage is there, and nobody reads the one before */
        fetch_ints(s, what, i + TILE::n_stages - 1, share);
        fetch_x<TILE>(s, what, i + TILE::n_stages - 1);
        load_operands(operands[0], lane, s, i, 0, share, has_mins);
#pragma unroll
        for (int step = 0; step < n_steps; step++) {
            if (step + 1 < n_steps)
                load_operands(operands[(step + 1) % 2], lane, s, i, step + 1, share, has_mins);
            multiply<TILE, WEIGHT_F16>(acc, operands[step % 2]);
        }
    }
    cp_async_wait<0>();
    store_all<TILE>(what, acc);
}

#define SHARED_LEAST (99u << 10) /* of a block, on sm_86 and sm_89 */

template <typename FORM, typename TILE>
static void tensor_ints_put(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    uint32_t each = w->groups_per_scale > 0 ? w->groups_per_scale : 1;
    static_assert(sizeof(tensor_ints_shared<FORM, TILE>) <= SHARED_LEAST, "every GPU has as much");
    gpu_launch_ahead(
        stream, dim3(pieces_of(what->n_rows, TILE::rows), pieces_of(w->n_padded, TILE::outputs)),
        dim3(TILE::n_threads), sizeof(tensor_ints_shared<FORM, TILE>),
        tensor_ints_kernel<FORM, TILE>, *what, pieces_of((size_t)1 << 31, each));
}

/* Stages of many inputs, as one of 4 bits has few bytes. */
template <typename FORM>
static void tensor_ints_launch(struct device_stream *stream, const gpu_linear *what) {
    const int more = FORM::four ? 1 : 0;
    typedef tensor_tile<2, 1, 1, 2, 32, 4 + 2 * more> few; /* 32 outputs x 16 rows */
    typedef tensor_tile<2, 2, 1, 2, 32, 3 + more> some;    /* 32 x 32 */
    typedef tensor_tile<4, 2, 1, 4, 16, 3 + more> square;  /* 64 x 64 */
    typedef tensor_tile<2, 2, 4, 8, 8, 3> wide;            /* 128 x 128 */
    uint32_t n_blocks = pieces_of(what->choice.matrix.n_padded, wide::outputs) *
                        pieces_of(what->n_rows, wide::rows);
    if (what->n_rows <= few::rows)
        tensor_ints_put<FORM, few>(stream, what);
    else if (what->n_rows <= some::rows)
        tensor_ints_put<FORM, some>(stream, what);
    else if (what->n_rows <= square::rows || n_blocks < ENOUGH_BLOCKS)
        tensor_ints_put<FORM, square>(stream, what);
    else
        tensor_ints_put<FORM, wide>(stream, what);
}

void linear_tensor_ints(struct device_stream *stream, const gpu_linear *what) {
    ints_with(what->choice.matrix,
              [=](auto form) { tensor_ints_launch<decltype(form)>(stream, what); });
}

} // namespace GPU_NAMESPACE
