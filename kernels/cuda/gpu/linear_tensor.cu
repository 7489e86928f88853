/* Products with matrices of 16-bit floats on tensor cores: the backend's fast numerics. Activations are rounded to the
 * weights' own type, a row of binary16 after it is scaled by a power of two, and lie as a matrix does: (inputs / 8,
 * rows, 8). Each output is one chain of mma.m16n8k16 in rising steps of 16 inputs, with the weights as operand A
 * and the activations as operand B, whatever the tile: a row has the same bits beside any others. */
#include "kernels/cuda/gpu/kernels.h"

namespace GPU_NAMESPACE {

#define PLANE         8 /* inputs of an output or row in 16 bytes */
#define ROUND_THREADS 256
#define ROUND_WARPS   (ROUND_THREADS / WARP)

struct round_shared {
    uint32_t max_bits[ROUND_WARPS];
};

/* Inputs [8 plane, 8 plane + 8) of a row, zeros behind the last. */
__device__ __forceinline__ void load_plane(float to[PLANE], const float *row, uint32_t k,
                                           uint32_t plane) {
    uint32_t begin = plane * PLANE;
    if ((uintptr_t)row % 16 == 0 && begin + PLANE <= k) {
        const float4 *from = (const float4 *)(row + begin);
        float4 a = from[0], b = from[1];
        to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
        to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < PLANE; i++)
        to[i] = begin + i < k ? row[begin + i] : 0.0f;
}

/* The largest magnitude of a row, as bits; the whole block calls. */
__device__ static uint32_t largest_bits(round_shared &s, const float *row, uint32_t k) {
    uint32_t max_bits = 0, n_planes = (k + PLANE - 1) / PLANE;
#pragma unroll 4
    for (uint32_t plane = threadIdx.x; plane < n_planes; plane += ROUND_THREADS) {
        float x[PLANE];
        load_plane(x, row, k, plane);
#pragma unroll
        for (uint32_t i = 0; i < PLANE; i++) {
            uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
            max_bits = bits > max_bits ? bits : max_bits;
        }
    }
    for (int width = 16; width > 0; width /= 2) {
        uint32_t other = __shfl_xor_sync(FULL_WARP, max_bits, width);
        max_bits = other > max_bits ? other : max_bits;
    }
    if (threadIdx.x % WARP == 0)
        s.max_bits[threadIdx.x / WARP] = max_bits;
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < ROUND_WARPS; i++)
        max_bits = s.max_bits[i] > max_bits ? s.max_bits[i] : max_bits;
    return max_bits;
}

/* A block a row. The largest number of a row of binary16 comes to lie in [2^14, 2^15): none overflows, and those
 * down to 2^-28 of it keep all their bits. A row with an infinity or a NaN is not scaled. */
template <weight_format FORMAT>
__global__ void __launch_bounds__(ROUND_THREADS) round_kernel(gpu_quantize what) {
    SHARED(round_shared, s);
    const gpu_matrix &w = what.choice.matrix;
    uint32_t row = blockIdx.x, n_planes = (w.k_stored + PLANE - 1) / PLANE;
    const float *from = what.x + (size_t)row * w.k;
    float factor = 1.0f, back = 1.0f;
    griddep_launch();
    griddep_wait();
    if (FORMAT == WEIGHT_F16) {
        uint32_t exponent = largest_bits(s, from, w.k) >> 23;
        if (exponent < 255) {
            exponent = exponent < 15 ? 15 : exponent; /* so that both powers are normal numbers */
            factor = float_from_bits((268 - exponent) << 23);
            back = float_from_bits((exponent - 14) << 23);
        }
    }
    uint4 *to = (uint4 *)what.to.q + row;
#pragma unroll 4
    for (uint32_t plane = threadIdx.x; plane < n_planes; plane += ROUND_THREADS) {
        float x[PLANE];
        uint32_t words[PLANE / 2];
        load_plane(x, from, w.k, plane);
#pragma unroll
        for (uint32_t i = 0; i < PLANE / 2; i++)
            words[i] = FORMAT == WEIGHT_F16
                           ? half2_of(x[2 * i] * factor, x[2 * i + 1] * factor)
                           : float_to_bf16(x[2 * i]) | (uint32_t)float_to_bf16(x[2 * i + 1]) << 16;
        to[(size_t)plane * what.n_rows] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    if (threadIdx.x == 0)
        what.to.scales[row] = back;
}

void round_floats(struct device_stream *stream, const gpu_quantize *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows), dim3(ROUND_THREADS), sizeof(round_shared),
                     what->choice.matrix.format == WEIGHT_F16 ? round_kernel<WEIGHT_F16>
                                                              : round_kernel<WEIGHT_BF16>,
                     *what);
}

/* A block's outputs and rows: WARPS_N x WARPS_M warps of N x 16 outputs and M x 8 rows each; PLANES of 8 inputs in a
 * stage. */
template <int WARPS_N, int WARPS_M, int N, int M, int PLANES, int STAGES> struct tensor_tile {
    static const uint32_t outputs = WARPS_N * N * 16, rows = WARPS_M * M * 8;
    static const uint32_t n_threads = WARPS_N * WARPS_M * WARP;
    static const int warps_m = WARPS_M, n = N, m = M, n_planes = PLANES, n_stages = STAGES;
    static const int w_each = PLANES * outputs / n_threads, x_each = PLANES * rows / n_threads;
    static_assert(PLANES * outputs % n_threads == 0 && PLANES * rows % n_threads == 0,
                  "all threads fetch alike");
    static_assert(M % 2 == 0 && PLANES % 2 == 0, "ldmatrix takes four matrices at a time");
};

template <typename TILE> struct tensor_shared {
    alignas(16) uint4 w[TILE::n_stages][TILE::n_planes][TILE::outputs];
    alignas(16) uint4 x[TILE::n_stages][TILE::n_planes][TILE::rows];
};

/* EACH pieces of 16 bytes a thread of a stage of `N` neighbours from `first` on, `n` lying beside each other in a plane;
 * zeros behind the last of them and the last inputs. */
template <typename TILE, uint32_t N, int EACH>
__device__ __forceinline__ void fetch_planes(uint4 (*to)[N], const void *from, uint32_t first,
                                             uint32_t n, uint32_t plane, uint32_t n_planes) {
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        uint32_t i = threadIdx.x + j * TILE::n_threads, at = plane + i / N;
        bool there = at < n_planes && first + i % N < n;
        cp_async_16(&to[i / N][i % N],
                    (const uint4 *)from + (there ? (size_t)at * n + first + i % N : 0),
                    there ? 16 : 0);
    }
}

/* Stage `number` of the weights. */
template <typename TILE>
__device__ __forceinline__ void fetch_w(tensor_shared<TILE> &s, const gpu_linear &what,
                                        uint32_t number) {
    const gpu_matrix &w = what.choice.matrix;
    fetch_planes<TILE, TILE::outputs, TILE::w_each>(
        s.w[number % TILE::n_stages], w.data, blockIdx.y * TILE::outputs, w.n_padded,
        number * TILE::n_planes, (w.k_stored + PLANE - 1) / PLANE);
}

/* And of the activations. There is always one more stage, so that a wait counts them. */
template <typename TILE>
__device__ __forceinline__ void fetch_x(tensor_shared<TILE> &s, const gpu_linear &what,
                                        uint32_t number) {
    fetch_planes<TILE, TILE::rows, TILE::x_each>(
        s.x[number % TILE::n_stages], what.ints.q, blockIdx.x * TILE::rows, what.n_rows,
        number * TILE::n_planes, (what.choice.matrix.k_stored + PLANE - 1) / PLANE);
    cp_async_commit();
}

/* The operands of a warp for 16 inputs. */
template <typename TILE> struct tensor_operands {
    uint32_t a[TILE::n][4];
    uint32_t b[TILE::m / 2][4]; /* of 16 rows: two operands */

    __device__ __forceinline__ void load(const tensor_shared<TILE> &s, uint32_t stage,
                                         uint32_t step) {
        uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        uint32_t column = warp / TILE::warps_m * TILE::n * 16 + lane % 16;
        uint32_t row = warp % TILE::warps_m * TILE::m * 8 + lane / 16 * 8 + lane % 8;
#pragma unroll
        for (uint32_t i = 0; i < TILE::n; i++)
            ldmatrix_x4(a[i], &s.w[stage][2 * step + lane / 16][column + i * 16]);
#pragma unroll
        for (uint32_t i = 0; i < TILE::m / 2; i++)
            ldmatrix_x4(b[i], &s.x[stage][2 * step + lane / 8 % 2][row + i * 16]);
    }
};

template <typename TILE, weight_format FORMAT>
__device__ __forceinline__ void multiply(float acc[TILE::n][TILE::m][4],
                                         const tensor_operands<TILE> &of) {
#pragma unroll
    for (uint32_t j = 0; j < TILE::m; j++)
#pragma unroll
        for (uint32_t i = 0; i < TILE::n; i++)
            if (FORMAT == WEIGHT_F16)
                mma_m16n8k16_f16_f32(acc[i][j], of.a[i], &of.b[j / 2][j % 2 * 2]);
            else
                mma_m16n8k16_bf16_f32(acc[i][j], of.a[i], &of.b[j / 2][j % 2 * 2]);
}

/* Output n of row m; `next` is output n + 1. */
__device__ __forceinline__ void store_one(const gpu_linear &what, uint32_t m, uint32_t n, float y,
                                          float next) {
    const gpu_matrix &w = what.choice.matrix;
    if (m >= what.n_rows || n >= w.n)
        return;
    float *out = what.out + (size_t)m * what.out_stride;
    if (what.epilogue != EPILOGUE_SILU_MUL)
        out[n] = what.epilogue == EPILOGUE_ADD ? out[n] + y : y;
    else if (n % 2 == 0 && n + 1 < w.n)
        out[n / 2] = numbers_silu(y) * next;
}

template <typename TILE>
__device__ __forceinline__ void store_all(const gpu_linear &what,
                                          const float acc[TILE::n][TILE::m][4]) {
    const gpu_matrix &w = what.choice.matrix;
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t n0 = blockIdx.y * TILE::outputs + warp / TILE::warps_m * TILE::n * 16 + lane / 4;
    uint32_t m0 = blockIdx.x * TILE::rows + warp % TILE::warps_m * TILE::m * 8 + lane % 4 * 2;
    float scale[TILE::n][2], bias[TILE::n][2];
#pragma unroll
    for (uint32_t i = 0; i < 2 * TILE::n; i++) {
        uint32_t n = n0 + i * 8;
        scale[i / 2][i % 2] = w.scale && n < w.n ? w.scale[n] : 1.0f;
        bias[i / 2][i % 2] = w.bias && n < w.n ? w.bias[n] : 0.0f;
    }
#pragma unroll
    for (uint32_t j = 0; j < 2 * TILE::m; j++) {
        uint32_t m = m0 + j / 2 * 8 + j % 2;
        float back = m < what.n_rows ? what.ints.scales[m] : 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 2 * TILE::n; i++) {
            float y = acc[i / 2][j / 2][i % 2 * 2 + j % 2] * back * scale[i / 2][i % 2] +
                      bias[i / 2][i % 2];
            float next = 0.0f;
            if (what.epilogue == EPILOGUE_SILU_MUL) /* of all lanes */
                next = __shfl_down_sync(FULL_WARP, y, 4);
            store_one(what, m, n0 + i * 8, y, next);
        }
    }
}

template <typename TILE, weight_format FORMAT>
__global__ void __launch_bounds__(TILE::n_threads) tensor_kernel(gpu_linear what) {
    SHARED(tensor_shared<TILE>, s);
    const int n_steps = TILE::n_planes / 2;
    uint32_t inputs = TILE::n_planes * PLANE;
    uint32_t n_stages = (what.choice.matrix.k_stored + inputs - 1) / inputs;
    float acc[TILE::n][TILE::m][4] = {};
    tensor_operands<TILE> operands[2];
    griddep_launch();
    for (uint32_t i = 0; i + 1 < TILE::n_stages; i++)
        fetch_w<TILE>(s, what, i);
    griddep_wait();
    for (uint32_t i = 0; i + 1 < TILE::n_stages; i++)
        fetch_x<TILE>(s, what, i);
    for (uint32_t i = 0; i < n_stages; i++) {
        cp_async_wait<TILE::n_stages - 2>();
        __syncthreads(); /* the stage is there, and nobody reads the one before */
        fetch_w<TILE>(s, what, i + TILE::n_stages - 1);
        fetch_x<TILE>(s, what, i + TILE::n_stages - 1);
        operands[0].load(s, i % TILE::n_stages, 0);
#pragma unroll
        for (int step = 0; step < n_steps; step++) {
            if (step + 1 < n_steps)
                operands[(step + 1) % 2].load(s, i % TILE::n_stages, step + 1);
            multiply<TILE, FORMAT>(acc, operands[step % 2]);
        }
    }
    cp_async_wait<0>();
    store_all<TILE>(what, acc);
}

template <typename TILE>
static void tensor_launch(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    gpu_launch_ahead(
        stream, dim3(pieces_of(what->n_rows, TILE::rows), pieces_of(w->n_padded, TILE::outputs)),
        dim3(TILE::n_threads), sizeof(tensor_shared<TILE>),
        w->format == WEIGHT_F16 ? tensor_kernel<TILE, WEIGHT_F16>
                                : tensor_kernel<TILE, WEIGHT_BF16>,
        *what);
}

#define ENOUGH_BLOCKS 128 /* about the multiprocessors of a large GPU */

void linear_tensor(struct device_stream *stream, const gpu_linear *what) {
    typedef tensor_tile<2, 1, 1, 2, 16, 6> few;   /* 32 outputs x 16 rows */
    typedef tensor_tile<2, 2, 1, 2, 16, 5> some;  /* 32 x 32 */
    typedef tensor_tile<4, 2, 1, 4, 8, 5> square; /* 64 x 64 */
    typedef tensor_tile<2, 2, 4, 8, 4, 4> wide;   /* 128 x 128 */
    uint32_t n_blocks = pieces_of(what->choice.matrix.n_padded, wide::outputs) *
                        pieces_of(what->n_rows, wide::rows);
    if (what->n_rows <= few::rows)
        tensor_launch<few>(stream, what);
    else if (what->n_rows <= some::rows)
        tensor_launch<some>(stream, what);
    else if (what->n_rows <= square::rows || n_blocks < ENOUGH_BLOCKS)
        tensor_launch<square>(stream, what);
    else
        tensor_launch<wide>(stream, what);
}

} // namespace GPU_NAMESPACE
