/* Products with matrices of 16-bit floats on tensor cores: the backend's fast numerics. Activations are rounded to the
 * weights' own type, a row of binary16 after it is scaled by a power of two. */
#include "kernels/cuda/gpu/tensor.h"

namespace GPU_NAMESPACE {

/* A block a row. */
template <weight_format FORMAT>
__global__ void __launch_bounds__(ROUND_THREADS) round_kernel(gpu_quantize what) {
    SHARED(round_shared, s);
    const gpu_matrix &w = what.choice.matrix;
    uint32_t row = blockIdx.x, n_planes = (w.k_stored + PLANE - 1) / PLANE;
    const float *from = what.x + (size_t)row * w.k;
    row_powers powers = {1.0f, 1.0f};
    griddep_launch();
    griddep_wait();
    if (FORMAT == WEIGHT_F16)
        powers = powers_of(largest_bits(s, from, w.k));
    uint4 *to = (uint4 *)what.to.q + row;
#pragma unroll 4
    for (uint32_t plane = threadIdx.x; plane < n_planes; plane += ROUND_THREADS) {
        float x[PLANE];
        uint32_t words[PLANE / 2];
        load_plane(x, from, w.k, plane);
#pragma unroll
        for (uint32_t i = 0; i < PLANE / 2; i++)
            words[i] = FORMAT == WEIGHT_F16
                           ? half2_of(x[2 * i] * powers.factor, x[2 * i + 1] * powers.factor)
                           : float_to_bf16(x[2 * i]) | (uint32_t)float_to_bf16(x[2 * i + 1]) << 16;
        to[(size_t)plane * what.n_rows] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    if (threadIdx.x == 0)
        what.to.scales[row] = powers.back;
}

void round_floats(struct device_stream *stream, const gpu_quantize *what) {
    gpu_launch_ahead(stream, dim3(what->n_rows), dim3(ROUND_THREADS), sizeof(round_shared),
                     what->choice.matrix.format == WEIGHT_F16 ? round_kernel<WEIGHT_F16>
                                                              : round_kernel<WEIGHT_BF16>,
                     *what);
}

template <typename TILE> struct tensor_shared {
    alignas(16) uint4 w[TILE::n_stages][TILE::n_planes][TILE::outputs];
    alignas(16) uint4 x[TILE::n_stages][TILE::n_planes][TILE::rows];
};

/* Stage `number` of the weights. */
template <typename TILE>
__device__ __forceinline__ void fetch_w(tensor_shared<TILE> &s, const gpu_linear &what,
                                        uint32_t number) {
    const gpu_matrix &w = what.choice.matrix;
    fetch_planes<TILE, TILE::outputs, TILE::w_each>(
        s.w[number % TILE::n_stages], w.data, blockIdx.y * TILE::outputs, w.n_padded,
        number * TILE::n_planes, (w.k_stored + PLANE - 1) / PLANE);
}

template <typename TILE>
__device__ __forceinline__ void load_operands(tensor_operands<TILE> &to,
                                              const tensor_shared<TILE> &s, uint32_t stage,
                                              uint32_t step) {
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t column = warp / TILE::warps_m * TILE::n * 16 + lane % 16;
#pragma unroll
    for (uint32_t i = 0; i < TILE::n; i++)
        ldmatrix_x4(to.a[i], &s.w[stage][2 * step + lane / 16][column + i * 16]);
    to.load_x(s.x[stage], step);
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
        load_operands(operands[0], s, i % TILE::n_stages, 0);
#pragma unroll
        for (int step = 0; step < n_steps; step++) {
            if (step + 1 < n_steps)
                load_operands(operands[(step + 1) % 2], s, i % TILE::n_stages, step + 1);
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
