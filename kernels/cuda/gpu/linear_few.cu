/* Products of a few rows with a matrix of integers: limited by how fast the matrix comes from memory.
 *
 * A block has 32 outputs. The matrix, its scales and the activations come through a ring of stages in shared
 * memory that cp.async fills several stages ahead. Its warps share a stage's groups of 32 inputs:
 * lane n multiplies the group's integers of output n (exact, so in any order) and leaves the dot in
 * shared memory. One warp a row then adds the dots up in the order of kernels/ref, one chain of FMAs
 * an output, while the dots of the next stage are made: a barrier a stage. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define FEW_WARPS   8
#define FEW_THREADS (FEW_WARPS * WARP)

/* What scales and minima are: binary16, float32, or binary16 with a zero each (struct gpu_matrix). */
enum few_scales { FEW_HALF, FEW_WIDE, FEW_ZEROS };
template <few_scales SCALES> struct few_numbers { typedef uint16_t scale, min; };
template <> struct few_numbers<FEW_WIDE> { typedef float scale, min; };
template <> struct few_numbers<FEW_ZEROS> {
    typedef uint16_t scale;
    typedef uint8_t min;
};

/* How the matrix is stored: 4 or 8 bits, scales of each half of a group, what they are. A stage is 8 KiB of
 * integers. */
template <bool FOUR_, bool HALVES_, few_scales SCALES_> struct form {
    static const bool four = FOUR_, halves = HALVES_;
    static const uint32_t planes = FOUR_ ? 1 : 2, groups = FOUR_ ? 16 : 8;
    static const uint32_t parts = HALVES_ ? 2 : 1; /* of a group, with a dot and a scale each */
    typedef typename few_numbers<SCALES_>::scale scale;
    typedef typename few_numbers<SCALES_>::min min;
};

__device__ __forceinline__ float scale_value(float scale) {
    return scale;
}
__device__ __forceinline__ float scale_value(uint16_t scale) {
    return half_float(scale);
}

/* A minimum, from what is stored for it and the scale beside it. */
__device__ __forceinline__ float min_value(float min, float, int32_t) {
    return min;
}
__device__ __forceinline__ float min_value(uint16_t min, float, int32_t) {
    return half_float(min);
}
__device__ __forceinline__ float min_value(uint8_t zero, float scale, int32_t zero_base) {
    return scale * (float)(zero_base - zero);
}

template <int ROWS, typename FORM> struct few_stage {
    alignas(16) uint4 w[FORM::groups][FORM::planes][WARP];
    alignas(16) typename FORM::scale scales[FORM::groups * FORM::parts][WARP]; /* each once */
    alignas(16) typename FORM::min mins[FORM::groups][WARP];
    alignas(16) int8_t q[ROWS][FORM::groups][GROUP];
    alignas(16) float x_scales[ROWS][FORM::groups];
    alignas(16) float x_sums[ROWS][FORM::groups];
};

/* Two stages are in use, their dots and their chains; the others are under way: 40 KiB of integers, or 24 in blocks
 * of which two fit. */
template <int ROWS, typename FORM> struct few_shared {
    static const uint32_t n_stages = ROWS <= 4 ? 7 : 5;
    few_stage<ROWS, FORM> stages[n_stages];
    int32_t dots[2][FORM::groups][FORM::parts][ROWS][WARP];
    float y[ROWS][WARP];
};

/* Copies n rows of WARP numbers each, `stride` numbers apart, 16 bytes at a time. */
template <typename T>
__device__ __forceinline__ void few_copy(T (*to)[WARP], const T *from, uint32_t n,
                                         uint32_t stride) {
    const uint32_t each = 16 / sizeof(T), pieces = WARP / each;
    for (uint32_t i = threadIdx.x; i < n * pieces; i += FEW_THREADS)
        cp_async_16(&to[i / pieces][i % pieces * each],
                    from + (size_t)(i / pieces) * stride + i % pieces * each);
}

/* What a stage of ROWS rows copies from where. */
template <int ROWS, typename FORM> struct few_source {
    const gpu_matrix w; /* in registers */
    const gpu_ints ints;
    size_t first; /* of the activations' groups: that of the first row */
    uint32_t n;   /* the block's first output */
    uint32_t n_groups;
    uint32_t share; /* groups per scale */

    /* Stage `number`; there is always one more to wait for, so that a wait counts them. */
    __device__ __forceinline__ void fetch(few_shared<ROWS, FORM> &s, uint32_t number) const {
        few_stage<ROWS, FORM> &to = s.stages[number % s.n_stages];
        uint32_t begin = number * FORM::groups;
        if (begin < n_groups) {
            uint32_t left = n_groups - begin, here = left < FORM::groups ? left : FORM::groups;
            few_copy(&to.w[0][0],
                     (const uint4 *)w.data + (size_t)begin * FORM::planes * w.n_padded + n,
                     here * FORM::planes, w.n_padded);
            uint32_t scale = FORM::halves ? 2 * begin : begin / share;
            uint32_t n_scales = FORM::halves ? 2 * here : (begin + here - 1) / share - scale + 1;
            size_t at = (size_t)scale * w.n_padded + n;
            few_copy(to.scales, (const typename FORM::scale *)w.scales + at, n_scales, w.n_padded);
            if (!FORM::halves && w.mins)
                few_copy(to.mins, (const typename FORM::min *)w.mins + at, n_scales, w.n_padded);
            fetch_x(to, begin, here);
        }
        cp_async_commit();
    }

    /* Rows of activations end at a multiple of four groups: what is copied behind `here` means nothing. */
    __device__ __forceinline__ void fetch_x(few_stage<ROWS, FORM> &to, uint32_t begin,
                                            uint32_t here) const {
        for (uint32_t i = threadIdx.x; i < ROWS * here * 2; i += FEW_THREADS) {
            uint32_t r = i / (here * 2), part = i % (here * 2);
            cp_async_16(&to.q[r][part / 2][part % 2 * 16],
                        ints.q + (first + (size_t)r * ints.n_groups + begin) * GROUP + part * 16);
        }
        const uint32_t quads = FORM::groups / 4;
        for (uint32_t i = threadIdx.x; i < ROWS * quads; i += FEW_THREADS) {
            uint32_t r = i / quads, g = i % quads * 4;
            size_t from = first + (size_t)r * ints.n_groups + begin + g;
            if (g >= here)
                continue;
            cp_async_16(&to.x_scales[r][g], ints.scales + from);
            cp_async_16(&to.x_sums[r][g], ints.sums + from);
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

/* This warp's dots of a stage of n groups. */
template <int ROWS, typename FORM>
__device__ __forceinline__ void few_dots(const few_stage<ROWS, FORM> &stage,
                                         int32_t (*dots)[FORM::parts][ROWS][WARP], uint32_t n) {
    uint32_t lane = threadIdx.x % WARP;
#pragma unroll
    for (uint32_t i = 0; i < FORM::groups / FEW_WARPS; i++) {
        uint32_t g = threadIdx.x / WARP + i * FEW_WARPS;
        if (g >= n)
            continue;
        uint4 raw[FORM::planes];
#pragma unroll
        for (uint32_t plane = 0; plane < FORM::planes; plane++)
            raw[plane] = stage.w[g][plane][lane];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int32_t of_halves[2];
            dot_group<FORM::four>(raw, stage.q[r][g], of_halves);
            dots[g][0][r][lane] = FORM::halves ? of_halves[0] : of_halves[0] + of_halves[1];
            if (FORM::halves)
                dots[g][FORM::parts - 1][r][lane] = of_halves[1];
        }
    }
}

/* The chain of row r over a stage's groups [begin, begin + n), as in dot_ints() of kernels/ref/linear.c. */
template <int ROWS, typename FORM>
__device__ __forceinline__ float
few_chain(const few_stage<ROWS, FORM> &stage, const int32_t (*dots)[FORM::parts][ROWS][WARP],
          const few_source<ROWS, FORM> &source, uint32_t begin, uint32_t n, uint32_t r, float f) {
    uint32_t lane = threadIdx.x % WARP, slot = 0, left = source.share - begin % source.share;
#pragma unroll 8
    for (uint32_t g = 0; g < n; g++) {
        float x_scale = stage.x_scales[r][g], scale = scale_value(stage.scales[slot][lane]);
        f = fmaf(scale * x_scale, (float)dots[g][0][r][lane], f);
        if (FORM::halves)
            f = fmaf(scale_value(stage.scales[slot + 1][lane]) * x_scale,
                     (float)dots[g][FORM::parts - 1][r][lane], f);
        if (!FORM::halves && source.w.mins) {
            float min = min_value(stage.mins[slot][lane], scale, source.w.zero_base);
            f = fmaf(min, stage.x_sums[r][g], f);
        }
        if (FORM::halves || --left == 0) {
            slot += FORM::parts;
            left = source.share;
        }
    }
    return f;
}

template <int ROWS>
__device__ __forceinline__ void few_store(const float y[ROWS][WARP], const gpu_matrix &w,
                                          const gpu_linear &what, uint32_t row, uint32_t n) {
    uint32_t lane = threadIdx.x % WARP, r = threadIdx.x / WARP, terms = what.fine ? 2 : 1;
    if (r >= ROWS / terms || n >= w.n)
        return;
    float *out = what.out + (size_t)(row + r) * what.out_stride;
    float value = with_scale(w, n, y[r * terms][lane]);
    if (what.epilogue == EPILOGUE_SILU_MUL) {
        if (lane % 2 == 0 && n + 1 < w.n)
            out[n / 2] = numbers_silu(value) * with_scale(w, n + 1, y[r * terms][lane + 1]);
        return;
    }
    store_output(w, out + n, n, value, what.epilogue == EPILOGUE_ADD, what.fine,
                 what.fine ? y[r * terms + 1][lane] : 0.0f);
}

/* ROWS rows of integers: those of both terms count. */
template <int ROWS, typename FORM>
__global__ void __launch_bounds__(FEW_THREADS, 2) few_kernel(gpu_linear what) {
    typedef few_shared<ROWS, FORM> shared;
    SHARED(shared, s);
    const uint32_t groups = FORM::groups;
    uint32_t terms = what.fine ? 2 : 1, row = blockIdx.y * (ROWS / terms), r = threadIdx.x / WARP;
    const gpu_matrix &w = chosen(what.choice, row);
    const few_source<ROWS, FORM> source = {w,
                                           what.ints,
                                           (size_t)row * terms * what.ints.n_groups,
                                           blockIdx.x * WARP,
                                           w.k_stored / GROUP,
                                           FORM::halves ? 1 : w.groups_per_scale};
    float f = 0.0f;
    for (uint32_t i = 0; i + 2 < s.n_stages; i++)
        source.fetch(s, i);
    for (uint32_t i = 0; i * groups < source.n_groups + groups; i++) {
        uint32_t begin = i * groups, before = begin - groups;
        cp_async_wait<shared::n_stages - 3>();
        __syncthreads(); /* stage i is there, and the dots of i - 1; nobody reads what i - 2 was */
        source.fetch(s, i + s.n_stages - 2);
        if (begin < source.n_groups) {
            uint32_t left = source.n_groups - begin;
            few_dots<ROWS, FORM>(s.stages[i % s.n_stages], s.dots[i % 2],
                                 left < groups ? left : groups);
        }
        if (i > 0 && r < ROWS) {
            uint32_t left = source.n_groups - before;
            f = few_chain<ROWS, FORM>(s.stages[(i - 1) % s.n_stages], s.dots[(i - 1) % 2], source,
                                      before, left < groups ? left : groups, r, f);
        }
    }
    cp_async_wait<0>();
    if (r < ROWS)
        s.y[r][threadIdx.x % WARP] = f;
    __syncthreads();
    few_store<ROWS>(s.y, source.w, what, row, source.n + threadIdx.x % WARP);
}

template <int ROWS, typename FORM>
static void few_launch_of(struct device_stream *stream, const gpu_linear *what, uint32_t n_blocks) {
    gpu_launch(stream, dim3(what->choice.matrix.n_padded / WARP, n_blocks), dim3(FEW_THREADS),
               sizeof(few_shared<ROWS, FORM>), few_kernel<ROWS, FORM>, *what);
}

template <int ROWS>
static void few_launch(struct device_stream *stream, const gpu_linear *what, uint32_t n_blocks) {
    const gpu_matrix *w = &what->choice.matrix;
    auto launch = few_launch_of<ROWS, form<true, false, FEW_HALF>>;
    if (w->format == WEIGHT_I4G)
        launch = w->zeros  ? few_launch_of<ROWS, form<true, false, FEW_ZEROS>>
                 : w->wide ? few_launch_of<ROWS, form<true, false, FEW_WIDE>>
                           : launch;
    else if (w->groups_per_scale == 0)
        launch = w->wide ? few_launch_of<ROWS, form<false, true, FEW_WIDE>>
                         : few_launch_of<ROWS, form<false, true, FEW_HALF>>;
    else
        launch = w->zeros  ? few_launch_of<ROWS, form<false, false, FEW_ZEROS>>
                 : w->wide ? few_launch_of<ROWS, form<false, false, FEW_WIDE>>
                           : few_launch_of<ROWS, form<false, false, FEW_HALF>>;
    launch(stream, what, n_blocks);
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
