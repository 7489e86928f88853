/* Products of a few rows with a matrix of integers: limited by how fast the matrix comes from memory.
 *
 * A block has 32 outputs. Its warps share the groups of 32 inputs: lane n multiplies the group's integers of
 * output n (exact, so in any order) and leaves the dot in shared memory with the group's scale and
 * minimum. Then one warp a row adds them up in the order of kernels/ref, one chain of FMAs an output. */
#include "kernels/cuda/gpu/kernels.h"

#include <type_traits>

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
    alignas(16) int8_t q[ROWS][few<ROWS>::groups][GROUP];
    float x_scales[ROWS][few<ROWS>::groups];
    float x_sums[ROWS][few<ROWS>::groups];
    float y[ROWS][WARP];
};

/* How the matrix is stored: 4 or 8 bits, scales of each half of a group, scales of float32 or binary16. */
template <bool FOUR_, bool HALVES_, bool WIDE_> struct form {
    static const bool four = FOUR_, halves = HALVES_, wide = WIDE_;
    typedef typename std::conditional<WIDE_, float, uint16_t>::type scale;
};

__device__ __forceinline__ float scale_value(float scale) {
    return scale;
}
__device__ __forceinline__ float scale_value(uint16_t scale) {
    return half_float(scale);
}

/* What a lane fetches of its warp's groups, all of it before anything is used (to convert would be to wait):
 * bytes under way are what the kernel lives on. */
template <int ROWS, typename FORM> struct few_loads {
    uint4 raw[few<ROWS>::per_warp][FORM::four ? 1 : 2];
    typename FORM::scale scales[few<ROWS>::per_warp][FORM::halves ? 2 : 1];
    typename FORM::scale mins[few<ROWS>::per_warp];

    __device__ __forceinline__ void fetch(const gpu_matrix &w, uint32_t begin, uint32_t n) {
        uint32_t n_groups = w.k_stored / GROUP;
        uint32_t first = begin + threadIdx.x / WARP * few<ROWS>::per_warp;
        uint32_t share = FORM::halves ? 1 : w.groups_per_scale;
        uint32_t number = first / share, left = share - first % share;
        const uint4 *from = (const uint4 *)w.data + n;
        const typename FORM::scale *scale = (const typename FORM::scale *)w.scales + n;
        const typename FORM::scale *min = (const typename FORM::scale *)w.mins + n;
#pragma unroll
        for (int i = 0; i < few<ROWS>::per_warp; i++) {
            uint32_t g = first + i;
            size_t at = (size_t)(FORM::halves ? 2 * number : number) * w.n_padded;
            if (g >= n_groups)
                continue;
            raw[i][0] = load_stream_16(from + (size_t)(FORM::four ? g : 2 * g) * w.n_padded);
            if (!FORM::four)
                raw[i][!FORM::four] = load_stream_16(from + (size_t)(2 * g + 1) * w.n_padded);
            scales[i][0] = __ldg(scale + at);
            if (FORM::halves)
                scales[i][FORM::halves] = __ldg(scale + at + w.n_padded);
            if (w.mins)
                mins[i] = __ldg(min + at);
            if (--left == 0) {
                number++;
                left = share;
            }
        }
    }
};

/* The dots of both halves of a group: inputs 0 to 15 and 16 to 31. */
template <bool FOUR>
__device__ __forceinline__ void dot_group(const uint4 *raw, const int8_t *q, int32_t dots[2]) {
    uint4 x0 = *(const uint4 *)q, x1 = *(const uint4 *)(q + 16), second = raw[FOUR ? 0 : 1];
    uint32_t low[4] = {raw[0].x, raw[0].y, raw[0].z, raw[0].w};
    uint32_t high[4] = {second.x, second.y, second.z, second.w};
    uint32_t a[4] = {x0.x, x0.y, x0.z, x0.w}, b[4] = {x1.x, x1.y, x1.z, x1.w};
    dots[0] = dots[1] = 0;
#pragma unroll
    for (int t = 0; t < 4; t++) {
        dots[0] = dp4a(dots[0], FOUR ? low[t] & 0x0f0f0f0fu : low[t], a[t]);
        dots[1] = dp4a(dots[1], FOUR ? low[t] >> 4 & 0x0f0f0f0fu : high[t], b[t]);
    }
}

/* The round's activations into shared memory. */
template <int ROWS>
__device__ __forceinline__ void few_activations(few_shared<ROWS> &s, const gpu_ints &ints,
                                                size_t first, uint32_t begin, uint32_t n) {
    for (uint32_t i = threadIdx.x; i < ROWS * n * 2; i += FEW_THREADS) {
        uint32_t r = i / (2 * n), part = i % (2 * n);
        size_t at = first + (size_t)r * ints.n_groups + begin;
        *(uint4 *)&s.q[r][part / 2][part % 2 * 16] =
            __ldg((const uint4 *)(ints.q + at * GROUP) + part);
    }
    for (uint32_t i = threadIdx.x; i < ROWS * n; i += FEW_THREADS) {
        size_t at = first + (size_t)(i / n) * ints.n_groups + begin + i % n;
        s.x_scales[i / n][i % n] = __ldg(ints.scales + at);
        s.x_sums[i / n][i % n] = __ldg(ints.sums + at);
    }
}

/* This warp's dots of the round, with the scales and minima that belong to them. */
template <int ROWS, typename FORM>
__device__ __forceinline__ void few_dots(few_shared<ROWS> &s, const few_loads<ROWS, FORM> &loads,
                                         bool has_min, uint32_t n) {
    uint32_t lane = threadIdx.x % WARP, first = threadIdx.x / WARP * few<ROWS>::per_warp;
#pragma unroll
    for (int i = 0; i < few<ROWS>::per_warp; i++) {
        uint32_t g = first + i;
        if (g >= n)
            continue;
        s.scales[g][0][lane] = scale_value(loads.scales[i][0]);
        if (FORM::halves)
            s.scales[g][1][lane] = scale_value(loads.scales[i][FORM::halves]);
        if (has_min)
            s.mins[g][lane] = scale_value(loads.mins[i]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int32_t dots[2];
            dot_group<FORM::four>(loads.raw[i], s.q[r][g], dots);
            s.dots[g][0][r][lane] = FORM::halves ? dots[0] : dots[0] + dots[1];
            if (FORM::halves)
                s.dots[g][1][r][lane] = dots[1];
        }
    }
}

/* The chain of row r over the round's groups, as in dot_ints() of kernels/ref/linear.c. */
template <int ROWS, bool HALVES>
__device__ __forceinline__ float few_chain(const few_shared<ROWS> &s, bool has_min, uint32_t n,
                                           uint32_t r, float f) {
    uint32_t lane = threadIdx.x % WARP;
#pragma unroll 16
    for (uint32_t g = 0; g < n; g++) {
        float x_scale = s.x_scales[r][g];
        f = fmaf(s.scales[g][0][lane] * x_scale, (float)s.dots[g][0][r][lane], f);
        if (HALVES)
            f = fmaf(s.scales[g][1][lane] * x_scale, (float)s.dots[g][1][r][lane], f);
        if (has_min)
            f = fmaf(s.mins[g][lane], s.x_sums[r][g], f);
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
template <int ROWS, typename FORM>
__global__ void __launch_bounds__(FEW_THREADS) few_kernel(gpu_linear what) {
    SHARED(few_shared<ROWS>, s);
    const uint32_t round = few<ROWS>::groups;
    uint32_t terms = what.fine ? 2 : 1, row = blockIdx.y * (ROWS / terms);
    const gpu_matrix w = chosen(what.choice, row); /* in registers */
    uint32_t n = blockIdx.x * WARP + threadIdx.x % WARP, r = threadIdx.x / WARP;
    uint32_t n_groups = w.k_stored / GROUP;
    size_t first = (size_t)row * terms * what.ints.n_groups;
    few_loads<ROWS, FORM> loads;
    float f = 0.0f;
    loads.fetch(w, 0, n);
    for (uint32_t begin = 0; begin < n_groups; begin += round) {
        uint32_t here = n_groups - begin < round ? n_groups - begin : round;
        few_activations<ROWS>(s, what.ints, first, begin, here);
        __syncthreads();
        few_dots<ROWS, FORM>(s, loads, w.mins != NULL, here);
        if (begin + round < n_groups)
            loads.fetch(w, begin + round, n); /* under way while the chains run */
        __syncthreads();
        if (r < ROWS)
            f = few_chain<ROWS, FORM::halves>(s, w.mins != NULL, here, r, f);
        __syncthreads();
    }
    if (r < ROWS)
        s.y[r][threadIdx.x % WARP] = f;
    __syncthreads();
    few_store<ROWS>(s, w, what, row, n);
}

template <int ROWS, bool FOUR, bool HALVES> static void (*few_of(const gpu_matrix *w))(gpu_linear) {
    return w->wide ? few_kernel<ROWS, form<FOUR, HALVES, true>>
                   : few_kernel<ROWS, form<FOUR, HALVES, false>>;
}

template <int ROWS>
static void few_launch(struct device_stream *stream, const gpu_linear *what, uint32_t n_blocks) {
    const gpu_matrix *w = &what->choice.matrix;
    void (*kernel)(gpu_linear);
    if (w->format == WEIGHT_I4G)
        kernel = few_of<ROWS, true, false>(w);
    else if (w->groups_per_scale == 0)
        kernel = few_of<ROWS, false, true>(w);
    else
        kernel = few_of<ROWS, false, false>(w);
    gpu_launch(stream, dim3(w->n_padded / WARP, n_blocks), dim3(FEW_THREADS),
               sizeof(few_shared<ROWS>), kernel, *what);
}

/* The first rows, as many blocks of them as are full; answers how many rows (of one term) these are. */
template <int ROWS>
static uint32_t take_rows(struct device_stream *stream, const gpu_linear *what, uint32_t row) {
    uint32_t terms = what->fine ? 2 : 1, n_blocks = (what->n_rows - row) * terms / ROWS;
    size_t first = (size_t)row * terms * what->ints.n_groups;
    gpu_linear part = *what;
    if (n_blocks == 0)
        return 0;
    part.out = what->out + (size_t)row * what->out_stride;
    part.ints.q = what->ints.q + first * GROUP;
    part.ints.scales = what->ints.scales + first;
    part.ints.sums = what->ints.sums + first;
    few_launch<ROWS>(stream, &part, n_blocks);
    return n_blocks * ROWS / terms;
}

/* Rows are taken in blocks of 8, 4, 2 and 1 (of both terms together). */
void linear_few(struct device_stream *stream, const gpu_linear *what) {
    if (what->choice.table) { /* each row has a matrix of its own */
        if (what->fine)
            few_launch<2>(stream, what, what->n_rows);
        else
            few_launch<1>(stream, what, what->n_rows);
        return;
    }
    uint32_t row = take_rows<8>(stream, what, 0);
    row += take_rows<4>(stream, what, row);
    row += take_rows<2>(stream, what, row);
    take_rows<1>(stream, what, row);
}

} // namespace GPU_NAMESPACE
