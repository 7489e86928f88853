/* Products of a few rows with a matrix of integers: limited by how fast the matrix comes from memory.
 *
 * A block has 32 outputs. Its warps share the groups of 32 inputs: lane n multiplies the group's integers of
 * output n (exact, so in any order) and leaves the dot in shared memory with the group's scale and
 * minimum. Then one warp a row adds them up in the order of kernels/ref, one chain of FMAs an output. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define FEW_WARPS   8
#define FEW_THREADS (FEW_WARPS * WARP)

/* Groups of a round, by the number of rows: what shared memory holds. */
template <int ROWS> struct few {
    static const int groups = ROWS <= 2 ? 64 : (ROWS <= 4 ? 32 : 16);
    static const int per_warp = groups / FEW_WARPS;
};

template <int ROWS> struct few_shared {
    int32_t dots[few<ROWS>::groups][2][ROWS]
                [WARP]; /* of the halves, or of the whole in the first */
    float scales[few<ROWS>::groups][2][WARP];
    float mins[few<ROWS>::groups][WARP];
    float y[ROWS][WARP];
};

/* The dots of both halves of a group: inputs 0 to 15 and 16 to 31. */
template <bool FOUR>
__device__ __forceinline__ void dot_group(const uint4 raw[2], const int8_t *q, int32_t dots[2]) {
    const uint4 *from = (const uint4 *)q;
    uint4 x0 = __ldg(from), x1 = __ldg(from + 1);
    uint32_t low[4] = {raw[0].x, raw[0].y, raw[0].z, raw[0].w};
    uint32_t high[4] = {raw[1].x, raw[1].y, raw[1].z, raw[1].w};
    uint32_t a[4] = {x0.x, x0.y, x0.z, x0.w}, b[4] = {x1.x, x1.y, x1.z, x1.w};
    dots[0] = dots[1] = 0;
#pragma unroll
    for (int t = 0; t < 4; t++) {
        dots[0] = dp4a(dots[0], FOUR ? low[t] & 0x0f0f0f0fu : low[t], a[t]);
        dots[1] = dp4a(dots[1], FOUR ? low[t] >> 4 & 0x0f0f0f0fu : high[t], b[t]);
    }
}

/* A round: this warp's groups from `begin` on into shared memory. */
template <int ROWS, bool FOUR>
__device__ __forceinline__ void few_dots(few_shared<ROWS> &s, const gpu_matrix &w,
                                         const gpu_linear &what, const int8_t *q, uint32_t begin,
                                         uint32_t n) {
    const int per_warp = few<ROWS>::per_warp;
    uint32_t lane = threadIdx.x % WARP, first = threadIdx.x / WARP * per_warp;
    uint32_t n_groups = w.k_stored / GROUP;
    bool halves = w.groups_per_scale == 0;
    uint4 raw[per_warp][2];
#pragma unroll
    for (int i = 0; i < per_warp; i++) {
        uint32_t g = begin + first + i;
        const uint4 *from = (const uint4 *)w.data;
        if (g >= n_groups)
            break;
        if (FOUR) {
            raw[i][0] = load_stream_16(from + (size_t)g * w.n_padded + n);
        } else {
            raw[i][0] = load_stream_16(from + (size_t)(2 * g) * w.n_padded + n);
            raw[i][1] = load_stream_16(from + (size_t)(2 * g + 1) * w.n_padded + n);
        }
    }
#pragma unroll
    for (int i = 0; i < per_warp; i++) {
        uint32_t g = begin + first + i, at = first + i;
        if (g >= n_groups)
            break;
        size_t scale = (size_t)(halves ? 2 * g : g / w.groups_per_scale) * w.n_padded + n;
        s.scales[at][0][lane] = load_scale(w.scales, scale, w.wide);
        if (halves)
            s.scales[at][1][lane] = load_scale(w.scales, scale + w.n_padded, w.wide);
        if (w.mins)
            s.mins[at][lane] = load_scale(w.mins, scale, w.wide);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int32_t dots[2];
            dot_group<FOUR>(raw[i], q + ((size_t)r * what.ints.n_groups + g) * GROUP, dots);
            s.dots[at][0][r][lane] = halves ? dots[0] : dots[0] + dots[1];
            if (halves)
                s.dots[at][1][r][lane] = dots[1];
        }
    }
}

/* The chain of row r over the round's groups, as in dot_ints() of kernels/ref/linear.c. */
template <int ROWS>
__device__ __forceinline__ float few_chain(const few_shared<ROWS> &s, const gpu_matrix &w,
                                           const float *scales, const float *sums, uint32_t n,
                                           uint32_t r, float f) {
    uint32_t lane = threadIdx.x % WARP;
    bool halves = w.groups_per_scale == 0, has_min = w.mins != NULL;
#pragma unroll 4
    for (uint32_t g = 0; g < n; g++) {
        float x_scale = __ldg(scales + g);
        f = fmaf(s.scales[g][0][lane] * x_scale, (float)s.dots[g][0][r][lane], f);
        if (halves)
            f = fmaf(s.scales[g][1][lane] * x_scale, (float)s.dots[g][1][r][lane], f);
        if (has_min)
            f = fmaf(s.mins[g][lane], __ldg(sums + g), f);
    }
    return f;
}

template <int ROWS>
__device__ __forceinline__ void few_store(const few_shared<ROWS> &s, const gpu_matrix &w,
                                          const gpu_linear &what, uint32_t row, uint32_t n) {
    uint32_t lane = threadIdx.x % WARP, r = threadIdx.x / WARP, terms = what.fine ? 2 : 1;
    if (r >= ROWS / terms || n >= w.n)
        return;
    float *out = what.out + (size_t)(row + r) * what.out_stride;
    float y = with_scale(w, n, s.y[r * terms][lane]);
    if (what.epilogue == EPILOGUE_SILU_MUL) {
        if (lane % 2 == 0 && n + 1 < w.n)
            out[n / 2] = numbers_silu(y) * with_scale(w, n + 1, s.y[r * terms][lane + 1]);
        return;
    }
    store_output(w, out + n, n, y, what.epilogue == EPILOGUE_ADD, what.fine,
                 what.fine ? s.y[r * terms + 1][lane] : 0.0f);
}

/* ROWS rows of integers: those of both terms count. */
template <int ROWS, bool FOUR>
__global__ void __launch_bounds__(FEW_THREADS) few_kernel(gpu_linear what) {
    SHARED(few_shared<ROWS>, s);
    uint32_t terms = what.fine ? 2 : 1, row = blockIdx.y * (ROWS / terms);
    const gpu_matrix &w = chosen(what.choice, row);
    uint32_t n = blockIdx.x * WARP + threadIdx.x % WARP, r = threadIdx.x / WARP;
    uint32_t n_groups = w.k_stored / GROUP;
    size_t first = (size_t)row * terms * what.ints.n_groups;
    const int8_t *q = what.ints.q + first * GROUP;
    const float *scales = what.ints.scales + first, *sums = what.ints.sums + first;
    float f = 0.0f;
    for (uint32_t begin = 0; begin < n_groups; begin += few<ROWS>::groups) {
        uint32_t left = n_groups - begin;
        few_dots<ROWS, FOUR>(s, w, what, q, begin, n);
        __syncthreads();
        if (r < ROWS) {
            size_t at = (size_t)r * what.ints.n_groups + begin;
            f = few_chain<ROWS>(s, w, scales + at, sums + at,
                                left < few<ROWS>::groups ? left : few<ROWS>::groups, r, f);
        }
        __syncthreads();
    }
    if (r < ROWS)
        s.y[r][threadIdx.x % WARP] = f;
    __syncthreads();
    few_store<ROWS>(s, w, what, row, n);
}

template <int ROWS>
static void few_launch(struct device_stream *stream, const gpu_linear *what, uint32_t n_blocks) {
    bool four = what->choice.matrix.format == WEIGHT_I4G;
    gpu_launch(stream, dim3(what->choice.matrix.n_padded / WARP, n_blocks), dim3(FEW_THREADS),
               sizeof(few_shared<ROWS>), four ? few_kernel<ROWS, true> : few_kernel<ROWS, false>,
               *what);
}

/* Rows are taken in pieces of 1, 2, 4 or 8 (of both terms together). */
void linear_few(struct device_stream *stream, const gpu_linear *what) {
    uint32_t terms = what->fine ? 2 : 1;
    gpu_linear part = *what;
    if (what->choice.table) { /* each row has a matrix of its own */
        if (terms == 2)
            few_launch<2>(stream, &part, what->n_rows);
        else
            few_launch<1>(stream, &part, what->n_rows);
        return;
    }
    for (uint32_t row = 0; row < what->n_rows;) {
        uint32_t left = (what->n_rows - row) * terms;
        uint32_t rows = left >= 8 ? 8 : (left >= 4 ? 4 : (left >= 2 ? 2 : 1));
        size_t first = (size_t)row * terms * what->ints.n_groups;
        part.out = what->out + (size_t)row * what->out_stride;
        part.ints.q = what->ints.q + first * GROUP;
        part.ints.scales = what->ints.scales + first;
        part.ints.sums = what->ints.sums + first;
        if (rows == 8)
            few_launch<8>(stream, &part, 1);
        else if (rows == 4)
            few_launch<4>(stream, &part, 1);
        else if (rows == 2)
            few_launch<2>(stream, &part, 1);
        else
            few_launch<1>(stream, &part, 1);
        row += rows / terms;
    }
}

} // namespace GPU_NAMESPACE
