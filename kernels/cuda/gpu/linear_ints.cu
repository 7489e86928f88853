/* Products of many rows with a matrix of integers, on tensor cores: 64 x 64 tiles, four warps of 32 x 32, steps
 * of 64 inputs through two stages of shared memory that cp.async fills. Per group of 32 inputs one
 * mma.m16n8k32, exact; its results then join the chains of FMAs of kernels/ref, in rising k. Scales
 * for each half of a group: the mma takes one half at a time, the other being zero. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define TILE         64
#define STEP         2                /* groups of a stage */
#define INTS_THREADS 128              /* STEP * TILE */
#define ROW_BYTES    (STEP * 32 + 16) /* so that eight rows lie in eight different banks */

/* Which of two terms the launch multiplies. */
struct ints_pass {
    uint32_t terms; /* rows of integers per row */
    uint32_t term;
};

struct ints_shared {
    alignas(16) int8_t x[2][TILE][ROW_BYTES];
    alignas(16) uint32_t w[2][STEP][2][TILE * 4]; /* the second plane: matrices of 8 bits */
    float scales[2][STEP][2][TILE]; /* of both halves of a group, where each has its own */
    float mins[2][STEP][TILE];
    float x_scales[2][STEP][TILE];
    float x_sums[2][STEP][TILE];
};

/* The scales and sums of the next stage, on their way through registers: thread i has group i / TILE of the
 * stage, output and row i % TILE. */
struct ints_scales {
    float scale[2];
    float min;
    float x_scale;
    float x_sum;

    __device__ __forceinline__ void fetch(const gpu_linear &what, ints_pass pass, uint32_t begin) {
        const gpu_matrix &w = what.choice.matrix;
        uint32_t g = begin + threadIdx.x / TILE, i = threadIdx.x % TILE;
        uint32_t n = blockIdx.x * TILE + i, m = blockIdx.y * TILE + i;
        bool halves = w.groups_per_scale == 0;
        scale[0] = scale[1] = min = x_scale = x_sum = 0.0f;
        if (g >= w.k_stored / GROUP)
            return;
        size_t at = (size_t)(halves ? 2 * g : g / w.groups_per_scale) * w.n_padded + n;
        scale[0] = load_scale(w.scales, at, w.wide);
        if (halves)
            scale[1] = load_scale(w.scales, at + w.n_padded, w.wide);
        if (w.mins)
            min = load_min(w, at, scale[0]);
        if (m < what.n_rows) {
            size_t from = ((size_t)m * pass.terms + pass.term) * what.ints.n_groups + g;
            x_scale = __ldg(what.ints.scales + from);
            x_sum = __ldg(what.ints.sums + from);
        }
    }

    __device__ __forceinline__ void store(ints_shared &s, uint32_t stage) const {
        uint32_t part = threadIdx.x / TILE, i = threadIdx.x % TILE;
        s.scales[stage][part][0][i] = scale[0];
        s.scales[stage][part][1][i] = scale[1];
        s.mins[stage][part][i] = min;
        s.x_scales[stage][part][i] = x_scale;
        s.x_sums[stage][part][i] = x_sum;
    }
};

template <bool FOUR>
__device__ __forceinline__ void load_stage(ints_shared &s, const gpu_linear &what, ints_pass pass,
                                           uint32_t stage, uint32_t begin) {
    const gpu_matrix &w = what.choice.matrix;
    uint32_t n_groups = w.k_stored / GROUP;
    for (uint32_t i = threadIdx.x; i < TILE * STEP * 2; i += INTS_THREADS) {
        uint32_t row = i / (STEP * 2), part = i % (STEP * 2), m = blockIdx.y * TILE + row;
        bool there = m < what.n_rows && begin + part / 2 < n_groups;
        size_t from = there ? ((size_t)m * pass.terms + pass.term) * what.ints.n_groups * GROUP +
                                  (size_t)begin * GROUP + part * 16
                            : 0;
        cp_async_16(&s.x[stage][row][part * 16], what.ints.q + from, there ? 16 : 0);
    }
    const uint32_t planes = FOUR ? 1 : 2;
    for (uint32_t i = threadIdx.x; i < TILE * STEP * planes; i += INTS_THREADS) {
        uint32_t column = i % TILE, plane = i / TILE % planes, part = i / TILE / planes;
        bool there = begin + part < n_groups;
        size_t from = there ? ((size_t)(begin + part) * planes + plane) * w.n_padded +
                                  blockIdx.x * TILE + column
                            : 0;
        cp_async_16(&s.w[stage][part][plane][column * 4], (const uint4 *)w.data + from,
                    there ? 16 : 0);
    }
    cp_async_commit();
}

/* What the four results of an mma become: f += (scale * x_scale) * dot. */
__device__ __forceinline__ void add_dots(float f[4], const int32_t dot[4], const float scale[2],
                                         const float x_scale[2]) {
#pragma unroll
    for (uint32_t e = 0; e < 4; e++)
        f[e] = fmaf(scale[e % 2] * x_scale[e / 2], (float)dot[e], f[e]);
}

/* The warp's 32 x 32 outputs, over one group. */
template <bool FOUR, bool HALVES>
__device__ __forceinline__ void take_group(ints_shared &s, bool has_min, uint32_t stage,
                                           uint32_t part, float acc[2][4][4]) {
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row = lane / 4, t = lane % 4;
    uint32_t m_warp = warp / 2 * 32, n_warp = warp % 2 * 32;
    uint32_t a[2][4];
    float x_scale[2][2], x_sum[2][2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        ldmatrix_x4(a[i], &s.x[stage][m_warp + i * 16 + lane % 16][part * 32 + lane / 16 * 16]);
#pragma unroll
        for (uint32_t r = 0; r < 2; r++) {
            x_scale[i][r] = s.x_scales[stage][part][m_warp + i * 16 + row + r * 8];
            x_sum[i][r] = s.x_sums[stage][part][m_warp + i * 16 + row + r * 8];
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t column = n_warp + j * 8, n = column + t * 2;
        uint32_t word = s.w[stage][part][0][column * 4 + lane];
        uint32_t b[2] = {FOUR ? word & 0x0f0f0f0fu : word,
                         FOUR ? word >> 4 & 0x0f0f0f0fu : s.w[stage][part][1][column * 4 + lane]};
        float scale[2][2], min[2];
#pragma unroll
        for (uint32_t e = 0; e < 2; e++) {
            scale[0][e] = s.scales[stage][part][0][n + e];
            scale[1][e] = HALVES ? s.scales[stage][part][1][n + e] : 0.0f;
            min[e] = s.mins[stage][part][n + e];
        }
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            int32_t dot[4] = {0, 0, 0, 0};
            if (HALVES) {
                uint32_t first[2] = {b[0], 0}, second[2] = {0, b[1]};
                mma_m16n8k32_s8_s32(dot, a[i], first);
                add_dots(acc[i][j], dot, scale[0], x_scale[i]);
                dot[0] = dot[1] = dot[2] = dot[3] = 0;
                mma_m16n8k32_s8_s32(dot, a[i], second);
                add_dots(acc[i][j], dot, scale[1], x_scale[i]);
            } else {
                mma_m16n8k32_s8_s32(dot, a[i], b);
                add_dots(acc[i][j], dot, scale[0], x_scale[i]);
            }
            if (has_min)
#pragma unroll
                for (uint32_t e = 0; e < 4; e++)
                    acc[i][j][e] = fmaf(min[e % 2], x_sum[i][e / 2], acc[i][j][e]);
        }
    }
}

/* A pair of neighbouring outputs of one row. */
__device__ __forceinline__ void store_pair(const gpu_linear &what, ints_pass pass, uint32_t m,
                                           uint32_t n, const float f[2]) {
    const gpu_matrix &w = what.choice.matrix;
    float *out = what.out + (size_t)m * what.out_stride;
    if (m >= what.n_rows || n >= w.n)
        return;
    if (what.epilogue == EPILOGUE_SILU_MUL) {
        if (n + 1 < w.n)
            out[n / 2] = numbers_silu(with_scale(w, n, f[0])) * with_scale(w, n + 1, f[1]);
        return;
    }
    for (uint32_t e = 0; e < 2 && n + e < w.n; e++)
        if (pass.term == 1) /* what the first pass stored, and the second term's product */
            out[n + e] += w.scale ? f[e] * w.scale[n + e] : f[e];
        else
            store_output(w, out + n + e, n + e, with_scale(w, n + e, f[e]),
                         what.epilogue == EPILOGUE_ADD, false, 0.0f);
}

template <bool FOUR, bool HALVES>
__global__ void __launch_bounds__(INTS_THREADS) ints_kernel(gpu_linear what, ints_pass pass) {
    SHARED(ints_shared, s);
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t n_groups = what.choice.matrix.k_stored / GROUP;
    bool has_min = what.choice.matrix.mins != NULL;
    float acc[2][4][4] = {};
    ints_scales scales;
    load_stage<FOUR>(s, what, pass, 0, 0);
    scales.fetch(what, pass, 0);
    for (uint32_t begin = 0; begin < n_groups; begin += STEP) {
        uint32_t stage = begin / STEP % 2;
        scales.store(s, stage);
        if (begin + STEP < n_groups) {
            load_stage<FOUR>(s, what, pass, stage ^ 1, begin + STEP);
            scales.fetch(what, pass, begin + STEP);
            cp_async_wait<1>();
        } else {
            cp_async_wait<0>();
        }
        __syncthreads();
        for (uint32_t part = 0; part < STEP && begin + part < n_groups; part++)
            take_group<FOUR, HALVES>(s, has_min, stage, part, acc);
        __syncthreads(); /* the stage is filled again in the next turn */
    }
    uint32_t m0 = blockIdx.y * TILE + warp / 2 * 32 + lane / 4;
    uint32_t n0 = blockIdx.x * TILE + warp % 2 * 32 + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
#pragma unroll
            for (uint32_t half = 0; half < 2; half++)
                store_pair(what, pass, m0 + i * 16 + half * 8, n0 + j * 8, &acc[i][j][2 * half]);
}

#define FEW_ROWS_MAX 64 /* of both terms together: above, tensor cores are faster */

void linear_ints(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    uint32_t terms = what->fine ? 2 : 1;
    if (what->choice.table || what->n_rows * terms <= FEW_ROWS_MAX) {
        linear_few(stream, what);
        return;
    }
    for (uint32_t term = 0; term < terms; term++)
        gpu_launch(stream, dim3(w->n_padded / TILE, pieces_of(what->n_rows, TILE)),
                   dim3(INTS_THREADS), sizeof(ints_shared),
                   w->format == WEIGHT_I4G    ? ints_kernel<true, false>
                   : w->groups_per_scale == 0 ? ints_kernel<false, true>
                                              : ints_kernel<false, false>,
                   *what, ints_pass{terms, term});
}

} // namespace GPU_NAMESPACE
