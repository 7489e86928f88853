/* Products of one or two rows with a matrix of floats: limited by how fast the matrix comes from memory, and by the length of a
 * chain. A warp has a row, a lane an output: a chain that waits for nothing but its own FMAs. */
#include "kernels/cuda/gpu/floats_ring.h"

namespace GPU_NAMESPACE {

template <uint32_t ROWS, weight_format FORMAT> struct thin {
    typedef ring<ROWS, WARP, ROWS == 1 ? 16 : 8, 4 * WARP, 4, FORMAT> fetcher;
    typedef typename fetcher::shared shared;
    static const int n_packed = packed<FORMAT>::n;
    static const uint32_t planes = fetcher::planes, threads = fetcher::fetchers + ROWS * WARP;

    /* A thread's place in the stages, and what it has read ahead: the next plane and the weights of the one
     * behind it. The stage behind the one that is multiplied is there too. */
    struct reader {
        uint32_t lane, row;
        float w[n_packed];
        float4 x[n_packed / 4];
        uint4 raw;
    };

    static __device__ __forceinline__ void read_x(reader &a, const float *from) {
#pragma unroll
        for (int i = 0; i < n_packed / 4; i++)
            a.x[i] = *(const float4 *)&from[i * 4];
    }

    static __device__ __forceinline__ void read_first(reader &a, const shared &s) {
        unpack<FORMAT>(s.w[0][0][a.lane], a.w);
        a.raw = s.w[0][1][a.lane];
        read_x(a, s.x[0][a.row]);
    }

    /* Plane number `plane` joins the chain; behind it is read from x and w. */
    static __device__ __forceinline__ void add_one(reader &a, uint32_t plane, const float *x,
                                                   const uint4 *w, chain<FORMAT> &sum) {
        reader now = a;
        unpack<FORMAT>(now.raw, a.w);
        read_x(a, x);
        a.raw = *w;
#pragma unroll
        for (int i = 0; i < n_packed; i += 4) {
            sum.add(0, now.w[i], now.x[i / 4].x);
            sum.add(1, now.w[i + 1], now.x[i / 4].y);
            sum.add(2, now.w[i + 2], now.x[i / 4].z);
            sum.add(3, now.w[i + 3], now.x[i / 4].w);
        }
        if ((plane + 1) * n_packed % GROUP == 0)
            sum.end_group();
    }

    /* The stage's inputs join the chain; of bfloat16 the groups of 32 that are `left`. */
    static __device__ __forceinline__ void add(reader &a, const shared &s, uint32_t number,
                                               uint32_t left, chain<FORMAT> &sum) {
        const uint4 *w = &s.w[number % fetcher::stages][0][a.lane];
        const uint4 *next = &s.w[(number + 1) % fetcher::stages][0][a.lane];
        const float *x = s.x[number % fetcher::x_stages][a.row];
#pragma unroll 2
        for (uint32_t plane = 0; plane + 2 < planes; plane++) {
            if (FORMAT == WEIGHT_BF16 && plane * n_packed >= left)
                return;
            add_one(a, plane, x + (plane + 1) * n_packed, w + (plane + 2) * WARP, sum);
        }
        if (FORMAT == WEIGHT_BF16 && (planes - 2) * n_packed >= left)
            return;
        add_one(a, planes - 2, x + (planes - 1) * n_packed, next, sum);
        add_one(a, planes - 1, s.x[(number + 1) % fetcher::x_stages][a.row], next + WARP, sum);
    }
};

template <uint32_t ROWS, weight_format FORMAT>
__global__ void __launch_bounds__(thin<ROWS, FORMAT>::threads) thin_kernel(gpu_linear what) {
    typedef thin<ROWS, FORMAT> own;
    SHARED(typename own::shared, s);
    uint32_t row = blockIdx.y * ROWS;
    const gpu_matrix w = chosen(what.choice, row); /* in registers */
    uint32_t n_inputs = inputs_of<FORMAT>(w), inputs = own::fetcher::inputs;
    uint32_t n_stages = (n_inputs + inputs - 1) / inputs;
    bool fetches = threadIdx.x < own::fetcher::fetchers;
    chain<FORMAT> sum;
    typename own::fetcher f = {};
    typename own::reader a = {};
    a.lane = threadIdx.x % WARP, a.row = (threadIdx.x - own::fetcher::fetchers) / WARP;
    if (fetches) {
        f.begin(what, w, row, blockIdx.x * WARP);
        f.template fill<1>(s);
    }
    for (uint32_t i = 0; i < n_stages; i++) {
        if (fetches)
            f.template complete<1>(s, i);
        __syncthreads(); /* this stage and the next are there, and no thread reads the one before */
        if (fetches) {
            f.fetch(s, i + own::fetcher::stages - 1);
        } else {
            if (i == 0)
                own::read_first(a, s);
            own::add(a, s, i, n_inputs - i * inputs, sum);
        }
    }
    if (fetches) {
        cp_async_wait<0>();
        return;
    }
    float next = __shfl_down_sync(FULL_WARP, sum.f, 1);
    uint32_t n = blockIdx.x * WARP + a.lane;
    row += a.row;
    if (row < what.n_rows && n < w.n)
        store_row(what, w, row, n, sum.f, next);
}

template <uint32_t ROWS>
static void thin_launch(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    gpu_launch(stream, dim3(w->n_padded / WARP, pieces_of(what->n_rows, ROWS)),
               dim3(thin<ROWS, WEIGHT_F16>::threads),
               w->format == WEIGHT_F32   ? sizeof(typename thin<ROWS, WEIGHT_F32>::shared)
               : w->format == WEIGHT_F16 ? sizeof(typename thin<ROWS, WEIGHT_F16>::shared)
                                         : sizeof(typename thin<ROWS, WEIGHT_BF16>::shared),
               w->format == WEIGHT_F32   ? thin_kernel<ROWS, WEIGHT_F32>
               : w->format == WEIGHT_F16 ? thin_kernel<ROWS, WEIGHT_F16>
                                         : thin_kernel<ROWS, WEIGHT_BF16>,
               *what);
}

void floats_thin(struct device_stream *stream, const gpu_linear *what) {
    if (what->choice.table || what->n_rows == 1)
        thin_launch<1>(stream, what);
    else
        thin_launch<2>(stream, what);
}

} // namespace GPU_NAMESPACE
