/* Products of many rows with a matrix of floats: limited by the FMAs of kernels/ref's order.
 *
 * A warp has 32 rows and 64 outputs, a thread 8 rows and 8 outputs of them (of bfloat16, whose chains
 * are three numbers each, 4). A stage is 16 inputs of the block's rows and outputs as float32 in shared
 * memory, inputs first: a thread reads 4 rows or 4 outputs of an input at a time, 64 FMAs for 4 reads. The
 * next stage comes from memory through registers while this one is multiplied: a barrier a stage. */
#include "kernels/cuda/gpu/floats.h"

namespace GPU_NAMESPACE {

#define WIDE_INPUTS 16 /* of a stage */
#define WIDE_ROWS   8  /* of a thread */

/* A block of DOWN x ACROSS warps. */
template <int DOWN, int ACROSS, weight_format FORMAT> struct wide {
    static const int n_packed = packed<FORMAT>::n;
    static const uint32_t outputs = FORMAT == WEIGHT_BF16 ? 4 : 8; /* of a thread */
    static const uint32_t warps = DOWN * ACROSS, threads = warps * WARP;
    static const uint32_t tile_rows = DOWN * 32, tile_outputs = ACROSS * 8 * outputs;
    static const uint32_t x_each = 4 / ACROSS; /* pieces of x that a thread fetches */
    static const uint32_t w_pieces = WIDE_INPUTS / n_packed * tile_outputs;
    static const uint32_t w_each = (w_pieces + threads - 1) / threads;

    /* Four rows to the right: a warp stores 8 inputs of 16 rows at once, each in a bank of its own. */
    struct stage {
        alignas(16) float x[WIDE_INPUTS][tile_rows + 4];
        alignas(16) float w[WIDE_INPUTS][tile_outputs];
    };
    struct shared {
        stage of[2];
    };

    /* What a thread has of the next stage. */
    struct fetched {
        float4 x[x_each];
        uint4 w[w_each];
    };

    /* Piece j of this thread: 4 inputs of a row. */
    static __device__ __forceinline__ uint32_t piece_row(uint32_t j) {
        return (threadIdx.x / WARP * x_each + j) / 2 * 16 + threadIdx.x % WARP / 2;
    }
    static __device__ __forceinline__ uint32_t piece_input(uint32_t j) {
        return (threadIdx.x / WARP * x_each + j) % 2 * 8 + threadIdx.x % 2 * 4;
    }

    static __device__ __forceinline__ void fetch(fetched &got, const gpu_linear &what,
                                                 uint32_t begin, bool aligned) {
        const gpu_matrix &w = what.choice.matrix;
        uint32_t n_planes = (w.k_stored + n_packed - 1) / n_packed;
#pragma unroll
        for (uint32_t j = 0; j < x_each; j++) {
            uint32_t row = blockIdx.x * tile_rows + piece_row(j);
            row = row < what.n_rows ? row : what.n_rows - 1; /* its outputs are not stored */
            got.x[j] =
                load_x<FORMAT>(what.x + (size_t)row * w.k, begin + piece_input(j), w.k, aligned);
        }
#pragma unroll
        for (uint32_t j = 0; j < w_each; j++) {
            uint32_t i = threadIdx.x + j * threads,
                     n = blockIdx.y * tile_outputs + i % tile_outputs;
            uint32_t plane = begin / n_packed + i / tile_outputs;
            n = n < w.n_padded ? n : w.n_padded - 1;
            got.w[j] = make_uint4(0, 0, 0, 0);
            if (plane < n_planes && i < w_pieces)
                got.w[j] = load_stream_16((const uint4 *)w.data + (size_t)plane * w.n_padded + n);
        }
    }

    static __device__ __forceinline__ void store(stage &s, const fetched &got) {
#pragma unroll
        for (uint32_t j = 0; j < x_each; j++) {
            uint32_t row = piece_row(j), input = piece_input(j);
            s.x[input][row] = take_x<FORMAT>(got.x[j].x);
            s.x[input + 1][row] = take_x<FORMAT>(got.x[j].y);
            s.x[input + 2][row] = take_x<FORMAT>(got.x[j].z);
            s.x[input + 3][row] = take_x<FORMAT>(got.x[j].w);
        }
#pragma unroll
        for (uint32_t j = 0; j < w_each; j++) {
            uint32_t i = threadIdx.x + j * threads;
            float weights[n_packed];
            unpack<FORMAT>(got.w[j], weights);
#pragma unroll
            for (int k = 0; k < n_packed; k++)
                if (i < w_pieces)
                    s.w[i / tile_outputs * n_packed + k][i % tile_outputs] = weights[k];
        }
    }

    /* This thread's rows and outputs of the block: four in a row, then four more behind those of all the
     * others. A warp's lanes lie so that each half of it reads two rows' fours and eight outputs' fours,
     * neighbours the same of one of them: no two reads of a bank. */
    static __device__ __forceinline__ uint32_t first_row() {
        uint32_t lane = threadIdx.x % WARP;
        return threadIdx.x / WARP / ACROSS * 32 + ((lane >> 1 & 1) | (lane >> 3 & 2)) * 4;
    }
    static __device__ __forceinline__ uint32_t first_output() {
        uint32_t lane = threadIdx.x % WARP;
        return threadIdx.x / WARP % ACROSS * 8 * outputs + ((lane & 1) | (lane >> 1 & 6)) * 4;
    }

    static __device__ __forceinline__ void multiply(const stage &s,
                                                    chain<FORMAT> chains[WIDE_ROWS][outputs]) {
        const float *at_x = &s.x[0][first_row()], *at_w = &s.w[0][first_output()];
#pragma unroll
        for (uint32_t i = 0; i < WIDE_INPUTS; i++) {
            float x[WIDE_ROWS], weights[outputs];
            take_four(x, at_x + i * (tile_rows + 4));
            take_four(x + 4, at_x + i * (tile_rows + 4) + 16);
#pragma unroll
            for (uint32_t j = 0; j < outputs; j += 4)
                take_four(weights + j, at_w + i * tile_outputs + j * 8);
#pragma unroll
            for (uint32_t r = 0; r < WIDE_ROWS; r++)
#pragma unroll
                for (uint32_t c = 0; c < outputs; c++)
                    chains[r][c].add(i, weights[c], x[r]);
        }
    }
};

/* Blocks of eight warps a multiprocessor: for sm_80 ptxas cannot keep the two chains of bfloat16 in half its registers. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define WIDE_BLOCKS(FORMAT) ((FORMAT) == WEIGHT_BF16 ? 1 : 2)
#else
#define WIDE_BLOCKS(FORMAT) 2
#endif

template <int DOWN, int ACROSS, weight_format FORMAT>
__global__ void __launch_bounds__(DOWN *ACROSS *WARP, DOWN *ACROSS == 2 ? 6 : WIDE_BLOCKS(FORMAT))
    wide_kernel(gpu_linear what) {
    typedef wide<DOWN, ACROSS, FORMAT> own;
    SHARED(typename own::shared, s);
    const gpu_matrix &w = what.choice.matrix;
    bool aligned = are_fours(what.x, w.k);
    uint32_t n_stages = (inputs_of<FORMAT>(w) + WIDE_INPUTS - 1) / WIDE_INPUTS;
    chain<FORMAT> chains[WIDE_ROWS][own::outputs];
    typename own::fetched got;
    own::fetch(got, what, 0, aligned);
    own::store(s.of[0], got);
    __syncthreads();
    for (uint32_t i = 0; i < n_stages; i++) {
        if (i + 1 < n_stages)
            own::fetch(got, what, (i + 1) * WIDE_INPUTS, aligned);
        own::multiply(s.of[i % 2], chains);
        if (FORMAT == WEIGHT_BF16 && i % 2 == 1)
#pragma unroll
            for (uint32_t r = 0; r < WIDE_ROWS; r++)
#pragma unroll
                for (uint32_t c = 0; c < own::outputs; c++)
                    chains[r][c].end_group();
        if (i + 1 < n_stages)
            own::store(s.of[(i + 1) % 2], got);
        __syncthreads(); /* the next stage is there, and no thread reads this one */
    }
    uint32_t row = blockIdx.x * own::tile_rows + own::first_row();
    uint32_t n = blockIdx.y * own::tile_outputs + own::first_output();
#pragma unroll
    for (uint32_t r = 0; r < WIDE_ROWS; r++)
#pragma unroll
        for (uint32_t c = 0; c < own::outputs; c++) {
            uint32_t m = row + r % 4 + r / 4 * 16, at = n + c % 4 + c / 4 * 32;
            if (m < what.n_rows && at < w.n)
                store_row(what, w, m, at, chains[r][c].f, chains[r][c % 2 == 0 ? c + 1 : c].f);
        }
}

/* Rows are neighbours in the grid: the blocks that run together share what they read of the matrix. */
template <int DOWN, int ACROSS, weight_format FORMAT>
static void wide_put(struct device_stream *stream, const gpu_linear *what) {
    typedef wide<DOWN, ACROSS, FORMAT> own;
    gpu_launch(stream,
               dim3(pieces_of(what->n_rows, own::tile_rows),
                    pieces_of(what->choice.matrix.n_padded, own::tile_outputs)),
               dim3(own::threads), sizeof(typename own::shared), wide_kernel<DOWN, ACROSS, FORMAT>,
               *what);
}

template <int DOWN, int ACROSS>
static void wide_launch(struct device_stream *stream, const gpu_linear *what) {
    if (what->choice.matrix.format == WEIGHT_F32)
        wide_put<DOWN, ACROSS, WEIGHT_F32>(stream, what);
    else if (what->choice.matrix.format == WEIGHT_F16)
        wide_put<DOWN, ACROSS, WEIGHT_F16>(stream, what);
    else
        wide_put<DOWN, ACROSS, WEIGHT_BF16>(stream, what);
}

#define LARGE_TILE_ROWS 1024 /* fewer leave multiprocessors without a large tile */

void floats_wide(struct device_stream *stream, const gpu_linear *what) {
    if (what->n_rows <= LARGE_TILE_ROWS)
        wide_launch<2, 1>(stream, what);
    else
        wide_launch<4, 2>(stream, what);
}

} // namespace GPU_NAMESPACE
