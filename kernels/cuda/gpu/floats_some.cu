/* Products of 3 to 64 rows with a matrix of floats: limited by what shared memory gives registers, 128 bytes a clock on a
 * multiprocessor whether lanes read the same or not, as many as it has FMAs in a clock. So a thread has
 * four outputs of each of its rows: of an input, 4 FMAs a row for 4 bytes a row and 8 of weights.
 *
 * A warp has 32 outputs and 4 EACH rows; a block DOWN x ACROSS such warps beside those that fetch. */
#include "kernels/cuda/gpu/floats_ring.h"

namespace GPU_NAMESPACE {

#define SOME_OUTPUTS 4 /* of a thread, 8 apart */

template <uint32_t EACH, uint32_t DOWN, uint32_t ACROSS, weight_format FORMAT> struct some {
    static const uint32_t planes = ACROSS > 1 || EACH *DOWN > 8 ? 4 : 8;
    typedef ring<4 * EACH * DOWN, 32 * ACROSS, planes, 2 * WARP, 2, FORMAT> fetcher;
    typedef typename fetcher::shared shared;
    static const int n_packed = packed<FORMAT>::n;
    static const uint32_t threads = fetcher::fetchers + DOWN * ACROSS * WARP;

    /* This thread's first row and output of the block; its rows are 4 apart. */
    static __device__ __forceinline__ uint32_t first_row() {
        uint32_t warp = threadIdx.x / WARP - fetcher::fetchers / WARP;
        return warp / ACROSS * 4 * EACH + threadIdx.x % WARP / 8;
    }
    static __device__ __forceinline__ uint32_t first_output() {
        uint32_t warp = threadIdx.x / WARP - fetcher::fetchers / WARP;
        return warp % ACROSS * 32 + threadIdx.x % 8;
    }

    /* The stage's inputs join the chains; of bfloat16 the groups of 32 that are `left`. */
    static __device__ __forceinline__ void add(const shared &s, uint32_t number, uint32_t left,
                                               chain<FORMAT> sums[EACH][SOME_OUTPUTS]) {
        const uint4 *w = s.w[number % fetcher::stages][0] + first_output();
        const float *at_x = s.x[number % fetcher::x_stages][first_row()];
#pragma unroll
        for (uint32_t plane = 0; plane < fetcher::planes; plane++) {
            float weights[SOME_OUTPUTS][n_packed];
            if (FORMAT == WEIGHT_BF16 && plane * n_packed >= left)
                break;
#pragma unroll
            for (int c = 0; c < SOME_OUTPUTS; c++)
                unpack<FORMAT>(w[plane * fetcher::outputs + c * 8], weights[c]);
#pragma unroll
            for (int i = 0; i < n_packed; i += 4) {
                float x[EACH][4];
#pragma unroll
                for (uint32_t r = 0; r < EACH; r++) {
                    float4 four = *(
                        const float4 *)&at_x[r * 4 * (fetcher::inputs + 4) + plane * n_packed + i];
                    x[r][0] = four.x, x[r][1] = four.y, x[r][2] = four.z, x[r][3] = four.w;
                }
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (uint32_t r = 0; r < EACH; r++)
#pragma unroll
                        for (int c = 0; c < SOME_OUTPUTS; c++)
                            sums[r][c].add(j, weights[c][i + j], x[r][j]);
            }
            if ((plane + 1) * n_packed % GROUP == 0)
#pragma unroll
                for (uint32_t r = 0; r < EACH; r++)
#pragma unroll
                    for (int c = 0; c < SOME_OUTPUTS; c++)
                        sums[r][c].end_group();
        }
    }
};

template <uint32_t EACH, uint32_t DOWN, uint32_t ACROSS, weight_format FORMAT>
__global__ void __launch_bounds__(some<EACH, DOWN, ACROSS, FORMAT>::threads)
    some_kernel(gpu_linear what) {
    typedef some<EACH, DOWN, ACROSS, FORMAT> own;
    SHARED(typename own::shared, s);
    const gpu_matrix &w = what.choice.matrix;
    uint32_t row = blockIdx.y * own::fetcher::rows, n = blockIdx.x * own::fetcher::outputs;
    uint32_t n_inputs = inputs_of<FORMAT>(w), inputs = own::fetcher::inputs;
    uint32_t n_stages = (n_inputs + inputs - 1) / inputs;
    bool fetches = threadIdx.x < own::fetcher::fetchers;
    chain<FORMAT> sums[EACH][SOME_OUTPUTS];
    typename own::fetcher f = {};
    if (fetches) {
        f.begin(what, w, row, n);
        f.template fill<0>(s);
    }
    for (uint32_t i = 0; i < n_stages; i++) {
        if (fetches)
            f.template complete<0>(s, i);
        __syncthreads(); /* the stage is there, and no thread reads the one before */
        if (fetches)
            f.fetch(s, i + own::fetcher::stages - 1);
        else
            own::add(s, i, n_inputs - i * inputs, sums);
    }
    if (fetches) {
        cp_async_wait<0>();
        return;
    }
    row += own::first_row();
    n += own::first_output();
#pragma unroll
    for (uint32_t r = 0; r < EACH; r++)
#pragma unroll
        for (uint32_t c = 0; c < SOME_OUTPUTS; c++) {
            float next = __shfl_down_sync(FULL_WARP, sums[r][c].f, 1);
            if (row + r * 4 < what.n_rows && n + c * 8 < w.n)
                store_row(what, w, row + r * 4, n + c * 8, sums[r][c].f, next);
        }
}

template <uint32_t EACH, uint32_t DOWN, uint32_t ACROSS, weight_format FORMAT>
static void some_put(struct device_stream *stream, const gpu_linear *what) {
    typedef some<EACH, DOWN, ACROSS, FORMAT> own;
    gpu_launch(stream,
               dim3(what->choice.matrix.n_padded / own::fetcher::outputs,
                    pieces_of(what->n_rows, own::fetcher::rows)),
               dim3(own::threads), sizeof(typename own::shared),
               some_kernel<EACH, DOWN, ACROSS, FORMAT>, *what);
}

template <uint32_t EACH, uint32_t DOWN, uint32_t ACROSS>
static void some_launch(struct device_stream *stream, const gpu_linear *what) {
    if (what->choice.matrix.format == WEIGHT_F32)
        some_put<EACH, DOWN, ACROSS, WEIGHT_F32>(stream, what);
    else if (what->choice.matrix.format == WEIGHT_F16)
        some_put<EACH, DOWN, ACROSS, WEIGHT_F16>(stream, what);
    else
        some_put<EACH, DOWN, ACROSS, WEIGHT_BF16>(stream, what);
}

#define NARROW_MAX 8192 /* outputs; more of them give each multiprocessor several blocks */

/* A thread of few rows has less to do for an input: where there are few outputs, more warps share them. */
void floats_some(struct device_stream *stream, const gpu_linear *what) {
    bool narrow = what->choice.matrix.n_padded <= NARROW_MAX;
    if (what->n_rows <= 4)
        some_launch<1, 1, 1>(stream, what);
    else if (what->n_rows <= 8 && narrow)
        some_launch<1, 2, 1>(stream, what);
    else if (what->n_rows <= 8)
        some_launch<2, 1, 1>(stream, what);
    else if (what->n_rows <= 16 && narrow)
        some_launch<2, 2, 1>(stream, what);
    else if (what->n_rows <= 16)
        some_launch<4, 1, 2>(stream, what);
    else if (what->n_rows <= 32 && narrow)
        some_launch<4, 2, 1>(stream, what);
    else if (what->n_rows <= 32)
        some_launch<8, 1, 2>(stream, what);
    else
        some_launch<8, 2, 1>(stream, what);
}

} // namespace GPU_NAMESPACE
