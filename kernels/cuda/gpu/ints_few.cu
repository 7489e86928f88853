/* Products of one or two rows with a matrix of integers: limited by how fast the matrix comes from memory.
 *
 * A block has 32 outputs. Most of its warps multiply: lane n makes the dots of output n over four groups
 * of 32 inputs a chunk (exact, so in any order), from a ring in shared memory that the lane itself fills
 * by cp.async several chunks ahead. One warp a row adds: its lanes follow the chains of FMAs of
 * kernels/ref over a chunk while the next one is multiplied. They meet once a chunk. The activations come into
 * shared memory once, at the start. */
#include "kernels/cuda/gpu/ints.h"

namespace GPU_NAMESPACE {

#define FEW_DOT_WARPS 8
#define FEW_GROUPS    (FEW_DOT_WARPS * 4) /* of a chunk */

/* How the matrix is stored (struct ints_stored), and how many neighbouring groups, or halves of them, have the same
 * scale: four, or one, whose scale may be that of the next as well. */
template <typename STORED, uint32_t PER_SCALE> struct few_form : STORED {
    static const bool nibbles = STORED::four;
    static const uint32_t parts = STORED::halves ? 2 : 1;
    static const uint32_t chunks = nibbles ? 3 : 2; /* of integers, in shared memory: 48, 64 KiB */
    static const uint32_t per_scale = PER_SCALE, n_scales = FEW_GROUPS * parts / per_scale;
    static const uint32_t n_mins = STORED::halves ? 1 : n_scales;
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
    return zero_min(scale, zero_base, zero);
}

/* The scales of a chunk are wanted once more when its integers are not. Behind it lie the activations: struct few_x. */
template <int ROWS, typename FORM> struct few_shared {
    alignas(16) uint4 w[FEW_DOT_WARPS][FORM::chunks][4][FORM::planes][WARP];
    alignas(16) typename FORM::scale scales[FORM::chunks + 1][FORM::n_scales][WARP];
    alignas(16) typename FORM::min mins[FORM::chunks + 1][FORM::n_mins][WARP];
    alignas(16) float dots[2][FEW_DOT_WARPS][ROWS][FORM::parts][WARP][4];
    float y[ROWS][WARP];
};

template <int ROWS> struct few_threads { static const uint32_t n = (FEW_DOT_WARPS + ROWS) * WARP; };

/* Rows of activations in shared memory, n groups each: whole chunks. What lies behind a row's last group means
 * nothing. An H100 has room for two rows of 40,000 inputs beside any form's chunks, and for 60,000 beside those of
 * 4 bits with zeros. */
struct few_x {
    int8_t *q;     /* (ROWS, n * 32) */
    float *scales; /* (ROWS, n) */
    float *sums;
    uint32_t n;
};

template <int ROWS>
__device__ __forceinline__ few_x few_copy_x(void *room, const gpu_ints &from, size_t first,
                                            uint32_t n_groups) {
    uint32_t n = (n_groups + FEW_GROUPS - 1) / FEW_GROUPS * FEW_GROUPS;
    few_x x = {(int8_t *)room, (float *)((int8_t *)room + ROWS * n * GROUP), NULL, n};
    x.sums = x.scales + ROWS * n;
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        size_t row = first + (size_t)r * from.n_groups;
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < 2 * n_groups; i += few_threads<ROWS>::n)
            cp_async_16(x.q + r * n * GROUP + i * 16, from.q + row * GROUP + i * 16);
        for (uint32_t g = threadIdx.x * 4; g < n_groups; g += few_threads<ROWS>::n * 4) {
            cp_async_16(x.scales + r * n + g, from.scales + row + g);
            cp_async_16(x.sums + r * n + g, from.sums + row + g);
        }
    }
    cp_async_commit();
    return x;
}

/* Copies rows of WARP numbers, 16 bytes at a time; from_row tells where row i of the matrix's begins. */
template <int ROWS, typename FORM, uint32_t N, typename T>
__device__ __forceinline__ void few_copy_rows(T (*to)[WARP], const T *from, const gpu_matrix &w,
                                              uint32_t begin, uint32_t reciprocal) {
    const uint32_t each = 16 / sizeof(T), pieces = WARP / each, all = N * pieces;
#pragma unroll
    for (uint32_t i = 0; i < (all + ROWS * WARP - 1) / (ROWS * WARP); i++) {
        uint32_t at = i * ROWS * WARP + threadIdx.x, row = at / pieces, n = at % pieces * each;
        uint32_t g = begin + row * FORM::per_scale / FORM::parts;
        if (at >= all || g >= w.k_stored / GROUP)
            continue;
        uint32_t number =
            FORM::halves ? 2 * begin + row : (uint32_t)((uint64_t)(2 * g) * reciprocal >> 32);
        cp_async_16(&to[row][n], from + (size_t)number * w.n_padded + n);
    }
}

/* Where this thread copies from: a warp that multiplies its own integers, the others scales and minima. */
struct few_source {
    const char *ints;   /* of this lane's output, from the warp's first group on */
    uint32_t row_bytes; /* from one plane of integers to the next */
    uint32_t n;         /* the block's first output */
    uint32_t
        reciprocal; /* of the groups per scale; to divide by it is right for numbers of groups below 2^15 */
};

/* A warp's four groups of chunk `number`. In place of those behind the last one it takes that again. */
template <int ROWS, typename FORM>
__device__ __forceinline__ void few_fetch_ints(few_shared<ROWS, FORM> &s, const few_source &source,
                                               uint32_t n_groups, uint32_t number) {
    uint32_t warp = threadIdx.x / WARP - ROWS, lane = threadIdx.x % WARP;
    uint32_t g = number * FEW_GROUPS + warp * 4;
    if (g >= n_groups)
        return;
    uint4(*to)[FORM::planes][WARP] = s.w[warp][number % FORM::chunks];
    const char *from =
        source.ints + (uint64_t)number * (FEW_GROUPS * FORM::planes * source.row_bytes);
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
#pragma unroll
        for (uint32_t plane = 0; plane < FORM::planes; plane++) {
            uint32_t row = min(j, n_groups - 1 - g) * FORM::planes + plane;
            cp_async_16(&to[j][plane][lane], from + (uint64_t)row * source.row_bytes);
        }
}

/* Copies this thread's part of chunk `number`. There is always one more to wait for, so that a wait counts them. */
template <int ROWS, typename FORM>
__device__ __forceinline__ void few_fetch(few_shared<ROWS, FORM> &s, const gpu_matrix &w,
                                          const few_source &source, uint32_t number) {
    uint32_t begin = number * FEW_GROUPS, n_groups = w.k_stored / GROUP;
    if (threadIdx.x >= ROWS * WARP) {
        few_fetch_ints<ROWS, FORM>(s, source, n_groups, number);
    } else if (begin < n_groups) {
        uint32_t slot = number % (FORM::chunks + 1);
        few_copy_rows<ROWS, FORM, FORM::n_scales>(s.scales[slot],
                                                  (const typename FORM::scale *)w.scales + source.n,
                                                  w, begin, source.reciprocal);
        if (!FORM::halves && w.mins)
            few_copy_rows<ROWS, FORM, FORM::n_mins>(s.mins[slot],
                                                    (const typename FORM::min *)w.mins + source.n,
                                                    w, begin, source.reciprocal);
    }
    cp_async_commit();
}

/* The dots of both halves of a group, inputs 0 to 15 and 16 to 31, or their sum in the first. */
template <bool NIBBLES, bool HALVES>
__device__ __forceinline__ void dot_group(const uint4 *raw, uint4 first, uint4 second,
                                          int32_t dots[2]) {
    uint4 other = raw[NIBBLES ? 0 : 1];
    uint32_t low[4] = {raw[0].x, raw[0].y, raw[0].z, raw[0].w};
    uint32_t high[4] = {other.x, other.y, other.z, other.w};
    uint32_t a[4] = {first.x, first.y, first.z, first.w};
    uint32_t b[4] = {second.x, second.y, second.z, second.w};
    dots[0] = dots[1] = 0;
#pragma unroll
    for (int t = 0; NIBBLES && t < 4; t++) /* where they are: 16 times the dot */
        dots[0] = dp4a_unsigned(dots[0], high[t] & 0xf0f0f0f0u, b[t]);
    dots[0] >>= 4;
#pragma unroll
    for (int t = 0; t < 4; t++)
        dots[0] = NIBBLES ? dp4a_unsigned(dots[0], low[t] & 0x0f0f0f0fu, a[t])
                          : dp4a(dots[0], low[t], a[t]);
#pragma unroll
    for (int t = 0; !NIBBLES && t < 4; t++)
        dots[HALVES] = dp4a(dots[HALVES], high[t], b[t]);
}

/* This warp's dots of chunk `number`. */
template <int ROWS, typename FORM>
__device__ __forceinline__ void few_dots(few_shared<ROWS, FORM> &s, const few_x &x,
                                         uint32_t number) {
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP - ROWS;
    const uint4(*w)[FORM::planes][WARP] = s.w[warp][number % FORM::chunks];
    float dots[ROWS][FORM::parts][4];
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        uint4 raw[FORM::planes];
#pragma unroll
        for (uint32_t plane = 0; plane < FORM::planes; plane++)
            raw[plane] = w[j][plane][lane];
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint4 *q =
                (const uint4 *)(x.q + (r * x.n + number * FEW_GROUPS + warp * 4 + j) * GROUP);
            int32_t of_group[2];
            dot_group<FORM::nibbles, FORM::halves>(raw, q[0], q[1], of_group);
#pragma unroll
            for (uint32_t part = 0; part < FORM::parts; part++)
                dots[r][part][j] = (float)of_group[part];
        }
    }
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++)
#pragma unroll
        for (uint32_t part = 0; part < FORM::parts; part++) {
            const float *d = dots[r][part];
            *(float4 *)s.dots[number % 2][warp][r][part][lane] =
                make_float4(d[0], d[1], d[2], d[3]);
        }
}

/* The chain of output `lane` and this warp's row over the n groups of chunk `number`, as in ref_dot_ints() of
 * kernels/ref/linear.c. WHOLE: n is all of them. */
template <bool WHOLE, int ROWS, typename FORM>
__device__ __forceinline__ float few_chain(const few_shared<ROWS, FORM> &s, const few_x &x,
                                           const gpu_matrix &w, uint32_t number, uint32_t n,
                                           float f) {
    uint32_t lane = threadIdx.x % WARP, r = threadIdx.x / WARP;
    uint32_t slot = number % (FORM::chunks + 1), first = r * x.n + number * FEW_GROUPS;
#pragma unroll
    for (uint32_t quad = 0; quad < FEW_GROUPS / 4; quad++) {
        float x_scale[4], x_sum[4], dot[FORM::parts][4];
        if (!WHOLE && quad * 4 >= n)
            break;
        take_four(x_scale, x.scales + first + quad * 4);
        take_four(x_sum, x.sums + first + quad * 4);
#pragma unroll
        for (uint32_t part = 0; part < FORM::parts; part++)
            take_four(dot[part], s.dots[number % 2][quad][r][part][lane]);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = (quad * 4 + j) * FORM::parts / FORM::per_scale;
            if (!WHOLE && quad * 4 + j >= n)
                break;
            float scale = scale_value(s.scales[slot][at][lane]);
            f = fmaf(scale * x_scale[j], dot[0][j], f);
            if (FORM::halves)
                f = fmaf(scale_value(s.scales[slot][at + FORM::parts - 1][lane]) * x_scale[j],
                         dot[FORM::parts - 1][j], f);
            else if (FORM::nibbles || w.mins) /* all matrices of 4 bits have some */
                f = fmaf(min_value(s.mins[slot][at][lane], scale, w.zero_base), x_sum[j], f);
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
__global__ void __launch_bounds__(few_threads<ROWS>::n, !FORM::nibbles ? 1
                                                        : ROWS == 1    ? 3
                                                                       : 2)
    few_kernel(gpu_linear what) {
    typedef few_shared<ROWS, FORM> shared;
    SHARED(shared, s);
    uint32_t terms = what.fine ? 2 : 1, row = blockIdx.y * (ROWS / terms), n = blockIdx.x * WARP;
    gpu_matrix w = what.choice.matrix; /* in registers */
    griddep_launch();
    if (what.choice.table) {
        griddep_wait(); /* the ids */
        w = chosen(what.choice, row);
    }
    uint32_t n_groups = w.k_stored / GROUP, n_chunks = (n_groups + FEW_GROUPS - 1) / FEW_GROUPS;
    const few_source source = {
        (const char *)((const uint4 *)w.data + n + threadIdx.x % WARP +
                       (size_t)((threadIdx.x / WARP - ROWS) * 4 * FORM::planes) * w.n_padded),
        w.n_padded * 16, n, FORM::halves ? 0 : 0x80000000u / w.groups_per_scale + 1};
    for (uint32_t i = 0; i + 1 < FORM::chunks; i++)
        few_fetch<ROWS, FORM>(s, w, source, i);
    griddep_wait();
    const few_x x =
        few_copy_x<ROWS>(&s + 1, what.ints, (size_t)row * terms * what.ints.n_groups, n_groups);
    cp_async_wait<0>();
    __syncthreads(); /* the activations are there */
    float f = 0.0f;
    for (uint32_t i = 0; i < n_chunks; i++) {
        few_fetch<ROWS, FORM>(s, w, source, i + FORM::chunks - 1);
        cp_async_wait<FORM::chunks - 1>();
        if (threadIdx.x >= ROWS * WARP)
            few_dots<ROWS, FORM>(s, x, i);
        else if (i > 0)
            f = few_chain<true, ROWS, FORM>(s, x, w, i - 1, FEW_GROUPS, f);
        __syncthreads(); /* the dots and scales of chunk i are there; no thread reads the dots before */
    }
    cp_async_wait<0>();
    if (threadIdx.x < ROWS * WARP) {
        uint32_t last = n_chunks - 1;
        f = few_chain<false, ROWS, FORM>(s, x, w, last, n_groups - last * FEW_GROUPS, f);
        s.y[threadIdx.x / WARP][threadIdx.x % WARP] = f;
    }
    __syncthreads();
    few_store<ROWS>(s.y, w, what, row, n + threadIdx.x % WARP);
}

template <int ROWS, typename FORM>
static bool few_launch_of(struct device_stream *stream, const gpu_linear *what, uint32_t n_blocks) {
    const gpu_matrix *w = &what->choice.matrix;
    size_t n = (size_t)pieces_of(w->k_stored / GROUP, FEW_GROUPS) * FEW_GROUPS;
    size_t n_bytes = sizeof(few_shared<ROWS, FORM>) + ROWS * n * (GROUP + 2 * sizeof(float));
    if (n_bytes > gpu_shared_bytes(stream) && !what->choice.table)
        return false;
    gpu_launch_ahead(stream, dim3(w->n_padded / WARP, n_blocks), dim3(few_threads<ROWS>::n),
                     n_bytes, few_kernel<ROWS, FORM>, *what);
    return true;
}

template <int ROWS>
static bool few_launch(struct device_stream *stream, const gpu_linear *what, uint32_t n_blocks) {
    const gpu_matrix *w = &what->choice.matrix;
    return ints_with(*w, [&](auto stored) {
        typedef decltype(stored) of;
        if (of::halves || w->groups_per_scale % 4 > 0)
            return few_launch_of<ROWS, few_form<of, 1>>(stream, what, n_blocks);
        return few_launch_of<ROWS, few_form<of, of::halves ? 1 : 4>>(stream, what, n_blocks);
    });
}

bool ints_few(struct device_stream *stream, const gpu_linear *what) {
    if (what->fine) /* each row, of a table too, in a block of its own */
        return few_launch<2>(stream, what, what->n_rows);
    if (what->choice.table || what->n_rows == 1)
        return few_launch<1>(stream, what, what->n_rows);
    return few_launch<2>(stream, what, 1);
}

} // namespace GPU_NAMESPACE
