/* Products with matrices of floats, in the order of kernels/ref: one chain of FMAs an output in rising k; of
 * bfloat16, per 32 inputs a chain over the even and one over the odd ones, then their sum added. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

/* One output's sum, as its format's order has it. */
template <weight_format FORMAT> struct chain {
    float f = 0.0f, even = 0.0f, odd = 0.0f;
    /* Inputs come in rising i. */
    __device__ __forceinline__ void add(uint32_t i, float w, float x) {
        if (FORMAT != WEIGHT_BF16) {
            f = fmaf(w, x, f);
        } else if (i % 2 == 0) {
            even = fmaf(w, x, even);
        } else {
            odd = fmaf(w, x, odd);
            if (i % GROUP == GROUP - 1) {
                f += even + odd;
                even = odd = 0.0f;
            }
        }
    }
};

/* Inputs in 16 bytes of a matrix. */
template <weight_format FORMAT> struct packed {
    static const int n = FORMAT == WEIGHT_F32 ? 4 : 8;
};

template <weight_format FORMAT>
__device__ __forceinline__ void unpack(const uint4 &raw, float w[packed<FORMAT>::n]) {
    uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (FORMAT == WEIGHT_F32) {
            w[i] = float_from_bits(words[i]);
        } else if (FORMAT == WEIGHT_F16) {
            w[2 * i] = half_float((uint16_t)words[i]);
            w[2 * i + 1] = half_float((uint16_t)(words[i] >> 16));
        } else {
            w[2 * i] = float_from_bits(words[i] << 16);
            w[2 * i + 1] = float_from_bits(words[i] & 0xffff0000u);
        }
    }
}

/* An activation as the product takes it: input i of a row, zeros behind the last. */
template <weight_format FORMAT>
__device__ __forceinline__ float take_x(const float *x, uint32_t i, uint32_t k) {
    float value = i < k ? x[i] : 0.0f;
    return FORMAT == WEIGHT_BF16 ? bf16_to_float(float_to_bf16(value)) : value;
}

__device__ __forceinline__ void store_row(const gpu_linear &what, const gpu_matrix &w, uint32_t row,
                                          uint32_t n, float y, float next) {
    float *out = what.out + (size_t)row * what.out_stride;
    if (what.epilogue != EPILOGUE_SILU_MUL)
        store_output(w, out + n, n, with_scale(w, n, y), what.epilogue == EPILOGUE_ADD, false,
                     0.0f);
    else if (n % 2 == 0 && n + 1 < w.n)
        out[n / 2] = numbers_silu(with_scale(w, n, y)) * with_scale(w, n + 1, next);
}

#define THIN_THREADS 256
#define THIN_PLANES  16 /* of 16 bytes an output, in a stage */
#define THIN_STAGES  6  /* 40 KiB of weights under way */

template <int ROWS> struct thin_shared {
    alignas(16) uint4 w[THIN_STAGES][THIN_PLANES][WARP];
    alignas(16) float x[2][ROWS][THIN_PLANES * 8];
};

/* Few rows. A block has 32 outputs and all threads fetch their weights, several stages ahead; a warp a row takes
 * them in rising k, a lane an output: one chain is as long as k, so it may wait for nothing else. */
template <int ROWS, weight_format FORMAT> struct thin {
    static const int n_packed = packed<FORMAT>::n;
    static const uint32_t inputs = THIN_PLANES * n_packed; /* of a stage */
    static const int per_thread = (ROWS * inputs + THIN_THREADS - 1) / THIN_THREADS; /* of x */

    /* Stage `number` of the weights; there is always one more, so that a wait counts them. */
    static __device__ __forceinline__ void fetch(thin_shared<ROWS> &s, const gpu_matrix &w,
                                                 uint32_t number) {
        uint32_t n_planes = (w.k_stored + n_packed - 1) / n_packed;
        for (uint32_t i = threadIdx.x; i < THIN_PLANES * WARP; i += THIN_THREADS) {
            uint32_t plane = number * THIN_PLANES + i / WARP, n = blockIdx.x * WARP + i % WARP;
            bool there = plane < n_planes;
            cp_async_16(&s.w[number % THIN_STAGES][i / WARP][i % WARP],
                        (const uint4 *)w.data + (there ? (size_t)plane * w.n_padded + n : 0),
                        there ? 16 : 0);
        }
        cp_async_commit();
    }

    /* The activations of a stage, through registers: they may lie at any address. */
    static __device__ __forceinline__ void fetch_x(float got[per_thread], const gpu_linear &what,
                                                   uint32_t k, uint32_t row, uint32_t number) {
#pragma unroll
        for (int j = 0; j < per_thread; j++) {
            uint32_t i = threadIdx.x + j * THIN_THREADS, r = row + i / inputs;
            uint32_t input = number * inputs + i % inputs;
            bool there = i < ROWS * inputs && r < what.n_rows && input < k;
            got[j] = there ? what.x[(size_t)(r / what.share) * k + input] : 0.0f;
        }
    }

    static __device__ __forceinline__ void store_x(thin_shared<ROWS> &s,
                                                   const float got[per_thread], uint32_t number) {
#pragma unroll
        for (int j = 0; j < per_thread; j++) {
            uint32_t i = threadIdx.x + j * THIN_THREADS;
            float x = FORMAT == WEIGHT_BF16 ? bf16_to_float(float_to_bf16(got[j])) : got[j];
            if (i < ROWS * inputs)
                s.x[number % 2][i / inputs][i % inputs] = x;
        }
    }

    /* The stage's inputs join the chain: all of them (WHOLE) or the first n_here. */
    template <bool WHOLE>
    static __device__ __forceinline__ void add(const thin_shared<ROWS> &s, uint32_t number,
                                               uint32_t n_here, chain<FORMAT> &sum) {
        uint32_t lane = threadIdx.x % WARP, r = threadIdx.x / WARP;
        const float *x = s.x[number % 2][r];
#pragma unroll 4
        for (uint32_t plane = 0; plane < THIN_PLANES; plane++) {
            float weights[n_packed];
            unpack<FORMAT>(s.w[number % THIN_STAGES][plane][lane], weights);
#pragma unroll
            for (int j = 0; j < n_packed; j++)
                if (WHOLE || plane * n_packed + j < n_here)
                    sum.add(plane * n_packed + j, weights[j], x[plane * n_packed + j]);
        }
    }
};

template <int ROWS, weight_format FORMAT>
__global__ void __launch_bounds__(THIN_THREADS, 4) thin_kernel(gpu_linear what) {
    typedef thin<ROWS, FORMAT> own;
    SHARED(thin_shared<ROWS>, s);
    uint32_t row = blockIdx.y * ROWS, r = threadIdx.x / WARP;
    uint32_t n = blockIdx.x * WARP + threadIdx.x % WARP;
    const gpu_matrix w = chosen(what.choice, row); /* in registers */
    uint32_t n_inputs = FORMAT == WEIGHT_BF16 ? w.k_stored : w.k;
    uint32_t n_stages = (n_inputs + own::inputs - 1) / own::inputs;
    chain<FORMAT> sum;
    float x[own::per_thread];
    for (uint32_t i = 0; i + 1 < THIN_STAGES; i++)
        own::fetch(s, w, i);
    own::fetch_x(x, what, w.k, row, 0);
    for (uint32_t i = 0; i < n_stages; i++) {
        uint32_t left = n_inputs - i * own::inputs;
        own::store_x(s, x, i);
        own::fetch_x(x, what, w.k, row, i + 1);
        cp_async_wait<THIN_STAGES - 2>();
        __syncthreads(); /* the stage is there, and nobody reads the one before */
        own::fetch(s, w, i + THIN_STAGES - 1);
        if (r < ROWS && left >= own::inputs)
            own::template add<true>(s, i, left, sum);
        else if (r < ROWS)
            own::template add<false>(s, i, left, sum);
    }
    cp_async_wait<0>();
    float next = __shfl_down_sync(FULL_WARP, sum.f, 1);
    if (r < ROWS && row + r < what.n_rows && n < w.n)
        store_row(what, w, row + r, n, sum.f, next);
}

#define WIDE_TILE    64
#define WIDE_INPUTS  32
#define WIDE_THREADS 256

struct wide_shared {
    float x[WIDE_INPUTS][WIDE_TILE + 4];
    float w[WIDE_INPUTS][WIDE_TILE + 4];
};

/* Many rows: a block 64 x 64 outputs, a thread 4 x 4. */
template <weight_format FORMAT>
__global__ void __launch_bounds__(WIDE_THREADS) wide_kernel(gpu_linear what) {
    SHARED(wide_shared, s);
    const int n_packed = packed<FORMAT>::n;
    const gpu_matrix &w = what.choice.matrix;
    uint32_t n_inputs = FORMAT == WEIGHT_BF16 ? w.k_stored : w.k;
    uint32_t row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    chain<FORMAT> chains[4][4];
    for (uint32_t begin = 0; begin < n_inputs; begin += WIDE_INPUTS) {
        uint32_t n_here = n_inputs - begin < WIDE_INPUTS ? n_inputs - begin : WIDE_INPUTS;
        for (uint32_t i = threadIdx.x; i < WIDE_INPUTS * WIDE_TILE; i += WIDE_THREADS) {
            uint32_t m = blockIdx.y * WIDE_TILE + i / WIDE_INPUTS, k = i % WIDE_INPUTS;
            const float *x = what.x + (size_t)m * w.k;
            s.x[k][i / WIDE_INPUTS] = m < what.n_rows ? take_x<FORMAT>(x, begin + k, w.k) : 0.0f;
        }
        for (uint32_t i = threadIdx.x; i < WIDE_INPUTS / n_packed * WIDE_TILE; i += WIDE_THREADS) {
            uint32_t k = i / WIDE_TILE * n_packed, n = i % WIDE_TILE;
            float weights[n_packed] = {};
            if (begin + k < n_inputs)
                unpack<FORMAT>(load_stream_16((const uint4 *)w.data +
                                              (size_t)((begin + k) / n_packed) * w.n_padded +
                                              blockIdx.x * WIDE_TILE + n),
                               weights);
#pragma unroll
            for (int j = 0; j < n_packed; j++)
                s.w[k + j][n] = weights[j];
        }
        __syncthreads();
#pragma unroll 2
        for (uint32_t i = 0; i < n_here; i++) {
            float x[4], weights[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x[j] = s.x[i][row + j];
                weights[j] = s.w[i][column + j];
            }
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    chains[r][c].add(i, weights[c], x[r]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            uint32_t m = blockIdx.y * WIDE_TILE + row + r, n = blockIdx.x * WIDE_TILE + column + c;
            if (m < what.n_rows && n < w.n)
                store_row(what, w, m, n, chains[r][c].f, chains[r][c < 3 ? c + 1 : c].f);
        }
}

template <int ROWS> static void thin_launch(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    gpu_launch(stream, dim3(w->n_padded / WARP, pieces_of(what->n_rows, ROWS)), dim3(THIN_THREADS),
               sizeof(thin_shared<ROWS>),
               w->format == WEIGHT_F32   ? thin_kernel<ROWS, WEIGHT_F32>
               : w->format == WEIGHT_F16 ? thin_kernel<ROWS, WEIGHT_F16>
                                         : thin_kernel<ROWS, WEIGHT_BF16>,
               *what);
}

#define THIN_ROWS_MAX 32 /* above, the tiles are faster */

void linear_floats(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    if (what->choice.table || what->n_rows == 1)
        thin_launch<1>(stream, what);
    else if (what->n_rows <= 4)
        thin_launch<4>(stream, what);
    else if (what->n_rows <= THIN_ROWS_MAX)
        thin_launch<8>(stream, what);
    else
        gpu_launch(stream, dim3(w->n_padded / WIDE_TILE, pieces_of(what->n_rows, WIDE_TILE)),
                   dim3(WIDE_THREADS), sizeof(wide_shared),
                   w->format == WEIGHT_F32   ? wide_kernel<WEIGHT_F32>
                   : w->format == WEIGHT_F16 ? wide_kernel<WEIGHT_F16>
                                             : wide_kernel<WEIGHT_BF16>,
                   *what);
}

} // namespace GPU_NAMESPACE
