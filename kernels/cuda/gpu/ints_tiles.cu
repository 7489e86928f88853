/* Products of many rows with a matrix of integers, on tensor cores. A row of activations stands here for one term of
 * a row: where there are two, both are neighbours in a tile, and one lane has both results.
 *
 * A block's tile goes through its inputs in stages of four groups of 32: two stages in shared memory that
 * cp.async fills. What goes with the integers (scales, minima, scales and sums of the activations) comes
 * as it lies one stage earlier still, and is made ready for the lanes while the stage before is
 * multiplied: one barrier a stage. Per group one mma.m16n8k32, exact; its results then join the chains
 * of FMAs of kernels/ref, in rising k: these, four instructions a result, are what limits the kernel,
 * so warps have tiles as large as their registers hold. Scales for each half of a group: the mma takes
 * one half at a time, the other being zero. */
#include "kernels/cuda/gpu/ints_tiles_stage.h"

namespace GPU_NAMESPACE {

/* What the four results of an mma become: f += (scale * x_scale) * dot. */
__device__ __forceinline__ void add_dots(float f[4], const int32_t dot[4], float scale0,
                                         float scale1, float4 x) {
    f[0] = fmaf(scale0 * x.x, dot_value(dot[0]), f[0]);
    f[1] = fmaf(scale1 * x.x, dot_value(dot[1]), f[1]);
    f[2] = fmaf(scale0 * x.y, dot_value(dot[2]), f[2]);
    f[3] = fmaf(scale1 * x.y, dot_value(dot[3]), f[3]);
}

/* 16 rows and 8 columns, over one group. */
template <typename FORM>
__device__ __forceinline__ void take_block(float f[4], const uint32_t a[4], const uint32_t b[2],
                                           float4 scale, float4 x) {
    int32_t dot[4];
    if (FORM::halves) {
        uint32_t first[2] = {b[0], 0}, second[2] = {0, b[1]};
        int32_t other[4];
        dot_block(dot, a, first);
        dot_block(other, a, second);
        add_dots(f, dot, scale.x, scale.y, x);
        add_dots(f, other, scale.z, scale.w, x);
    } else {
        dot_block(dot, a, b);
        add_dots(f, dot, scale.x, scale.y, x);
    }
    if (FORM::mins) {
        f[0] = fmaf(scale.z, x.z, f[0]);
        f[1] = fmaf(scale.w, x.z, f[1]);
        f[2] = fmaf(scale.z, x.w, f[2]);
        f[3] = fmaf(scale.w, x.w, f[3]);
    }
}

/* Where a lane's operands lie in the stage that is multiplied. The mma's rows lane / 4 and lane / 4 + 8 are neighbours. */
template <typename FORM, typename TILE> struct ints_lane {
    const int8_t *x;
    const uint32_t *w;
    const float *scales;
    const float *x_scales;
    uint32_t chunk;  /* xor of 2 * part: where that part's chunks lie */
    int32_t to_next; /* from this stage to the other, in words */

    __device__ __forceinline__ void turn() {
        x += to_next * 4;
        w += to_next;
        scales += to_next;
        x_scales += to_next;
        to_next = -to_next;
    }

    __device__ __forceinline__ ints_lane(const ints_stage<FORM, TILE> &s) {
        uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        uint32_t m_warp = warp / TILE::warps_n * TILE::warp_rows;
        uint32_t n_warp = warp % TILE::warps_n * TILE::warp_columns;
        x = s.x[m_warp + lane % 8 * 2 + lane / 8 % 2];
        w = &s.w[0][n_warp * 4 + lane];
        scales = s.scales[0][n_warp / 2 + lane % 4];
        x_scales = s.x_scales[0][m_warp / 2 + lane / 4];
        chunk = lane / 16 ^ lane % 8;
        to_next = sizeof s / 4;
    }
};

/* The warp's outputs, over the first n groups of the stage. */
template <typename FORM, typename TILE>
__device__ __forceinline__ void take_stage(const ints_lane<FORM, TILE> &lane, uint32_t n,
                                           float acc[TILE::blocks][TILE::across][4]) {
    const uint32_t *w = lane.w;
    const float *scales = lane.scales, *x_scales = lane.x_scales;
#pragma unroll 1
    for (uint32_t part = 0; part < n; part++) {
#pragma unroll
        for (uint32_t pair = 0; pair < TILE::across; pair += 2) {
            uint32_t b[2][2];
            float4 scale[2];
#pragma unroll
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t word = w[(pair + j) * 32];
                b[j][0] = FORM::four ? word & 0x0f0f0f0fu : word;
                b[j][1] =
                    FORM::four ? word >> 4 & 0x0f0f0f0fu : w[TILE::columns * 4 + (pair + j) * 32];
                scale[j] = *(const float4 *)(scales + (pair + j) * 16);
            }
#pragma unroll
            for (uint32_t i = 0; i < TILE::blocks; i++) {
                uint32_t a[4];
                ldmatrix_x4(a, lane.x + i * 16 * CHUNKS * 16 + (lane.chunk ^ part * 2) * 16);
                float4 of_rows = *(const float4 *)(x_scales + i * 8 * 4);
#pragma unroll
                for (uint32_t j = 0; j < 2; j++)
                    take_block<FORM>(acc[i][pair + j], a, b[j], scale[j], of_rows);
            }
        }
        w += FORM::planes * TILE::columns * 4;
        x_scales += TILE::rows * 2;
        if (!FORM::same)
            scales += TILE::columns * 2;
    }
}

template <typename FORM, typename TILE>
__global__ void __launch_bounds__(TILE::threads, TILE::resident)
    ints_kernel(gpu_linear what, ints_counts counts) {
    typedef ints_shared<FORM, TILE> shared;
    SHARED(shared, s);
    const gpu_matrix &w = what.choice.matrix;
    ints_source<FORM, TILE> source = {w,
                                      what.ints,
                                      counts,
                                      w.k_stored / GROUP,
                                      blockIdx.x * TILE::rows,
                                      blockIdx.y * TILE::columns,
                                      NULL,
                                      NULL,
                                      0};
    source.begin_copies();
    ints_lane<FORM, TILE> of_lane(s.stages[0]);
    float acc[TILE::blocks][TILE::across][4] = {};
    source.copy_scales(s.raw[0], 0);
    source.copy_ints(s.stages[0], 0);
    if (source.n_groups > STEP)
        source.copy_scales(s.raw[1], STEP);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    source.prepare(s.stages[0], s.raw[0], 0);
    uint32_t now = 0; /* the stage that is multiplied */
    for (uint32_t begin = 0; begin < source.n_groups; begin += STEP, now ^= 1) {
        uint32_t left = source.n_groups - begin;
        cp_async_wait<0>();
        __syncthreads(); /* all of this stage is there, and no thread reads the one before */
        if (left > STEP)
            source.copy_ints(s.stages[now ^ 1], begin + STEP);
        if (left > 2 * STEP)
            source.copy_scales(s.raw[now], begin + 2 * STEP);
        if (left > STEP) {
            cp_async_commit();
            source.prepare(s.stages[now ^ 1], s.raw[now ^ 1], begin + STEP);
        }
        take_stage(of_lane, min(left, STEP), acc);
        of_lane.turn();
    }
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t m0 = source.m + warp / TILE::warps_n * TILE::warp_rows + lane / 4 * 2;
    uint32_t n0 = source.n + warp % TILE::warps_n * TILE::warp_columns + lane % 4 * 2;
#pragma unroll
    for (uint32_t i = 0; i < TILE::blocks; i++)
#pragma unroll
        for (uint32_t j = 0; j < TILE::across; j++)
            store_block(what, m0 + i * 16, n0 + j * 8, acc[i][j]);
}

/* Neighbouring blocks have the same outputs: the matrix is read from memory once, the activations stay in L2. */
template <typename FORM, typename TILE>
static void ints_launch_of(struct device_stream *stream, const gpu_linear *what,
                           ints_counts counts) {
    gpu_launch(stream,
               dim3(pieces_of(counts.n_rows, TILE::rows),
                    pieces_of(what->choice.matrix.n_padded, TILE::columns)),
               dim3(TILE::threads), sizeof(ints_shared<FORM, TILE>), ints_kernel<FORM, TILE>, *what,
               counts);
}

typedef ints_tile<2, 2, 4, 8, 255> large_tile;
typedef ints_tile<2, 2, 2, 4, 128> small_tile;
#define LARGE_TILES_MIN 200 /* fewer leave multiprocessors idle */

template <typename FORM>
static void ints_launch(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    uint32_t each = w->groups_per_scale > 0 ? w->groups_per_scale : 1;
    ints_counts counts = {what->n_rows * (what->fine ? 2 : 1), pieces_of((size_t)1 << 31, each)};
    uint32_t n_large =
        pieces_of(counts.n_rows, large_tile::rows) * pieces_of(w->n_padded, large_tile::columns);
    if (n_large < LARGE_TILES_MIN)
        ints_launch_of<FORM, small_tile>(stream, what, counts);
    else
        ints_launch_of<FORM, large_tile>(stream, what, counts);
}

void ints_tiles(struct device_stream *stream, const gpu_linear *what) {
    const gpu_matrix *w = &what->choice.matrix;
    bool four = w->format == WEIGHT_I4G, same = w->groups_per_scale % STEP == 0;
    if (w->groups_per_scale == 0)
        ints_launch<ints_form<false, true, false, false>>(stream, what);
    else if (four && same)
        ints_launch<ints_form<true, false, true, true>>(stream, what);
    else if (four)
        ints_launch<ints_form<true, false, true, false>>(stream, what);
    else if (w->mins)
        ints_launch<ints_form<false, false, true, false>>(stream, what);
    else
        ints_launch<ints_form<false, false, false, false>>(stream, what);
}

} // namespace GPU_NAMESPACE
