/* Products of a few dozen rows of integers with a matrix of integers, on tensor cores: too many rows for a matrix
 * to be read once a row, too few to fill the tiles of ints_tiles.cu.
 *
 * The matrix is the A operand of mma.m16n8k32: 16 outputs and 32 inputs; the activations are the B
 * operand: 8 rows. A warp has OUTS tiles of 16 outputs by ROWS blocks of 8 rows and walks all groups
 * of 32 inputs: the dots are exact and join the chains of FMAs of kernels/ref in rising k. The warps
 * of a block, as many beside and below each other as the launch says, share what they read: it comes
 * through a ring of stages in shared memory that cp.async fills, and a stage costs one barrier.
 *
 * Row i of a tile is output 2 i, row i + 8 output 2 i + 1: a lane has two neighbouring outputs of two
 * neighbouring rows of integers, which are the two terms of a row where both are multiplied. */
#include "kernels/cuda/gpu/ints_mid_stage.h"

namespace GPU_NAMESPACE {

#define MID_THREADS 448
#define MID_QUAD    4 /* groups whose numbers are loaded at once */

/* What a warp has: OUTS tiles of outputs by ROWS blocks of rows. */
template <uint32_t OUTS, uint32_t ROWS> struct mid_part {
    static const uint32_t outs = OUTS, rows = ROWS;
};

/* Where a lane finds what it multiplies, in the stage that is taken. */
struct mid_lane {
    const unsigned char *a, *b, *x, *scales, *mins;

    template <typename PART, typename FORM>
    __device__ __forceinline__ void begin(const unsigned char *stage, const mid_shape &shape,
                                          const mid_layout<FORM> &at, uint32_t tile, uint32_t row) {
        uint32_t lane = threadIdx.x % WARP;
        uint32_t slot = (tile << shape.slot_bits) * MID_TILE + lane / 4 * 2;
        a = stage + (tile * MID_GROUPS * FORM::planes * MID_TILE + lane) * 16;
        b = stage + at.x + (row + lane % 8) * MID_X_BYTES + lane / 8 * 16;
        x = stage + at.x_scales + (row + lane % 4 * 2) * MID_SCALES_BYTES;
        scales = stage + at.scales + slot * sizeof(typename FORM::scale);
        mins = stage + at.mins + slot * sizeof(typename FORM::min);
    }
    __device__ __forceinline__ void go(int32_t bytes) {
        a += bytes, b += bytes, x += bytes, scales += bytes, mins += bytes;
    }
};

/* The numbers of two neighbouring outputs. */
__device__ __forceinline__ void mid_two(float to[2], const float *from) {
    float2 two = *(const float2 *)from;
    to[0] = two.x, to[1] = two.y;
}
__device__ __forceinline__ void mid_two(float to[2], const uint16_t *from) {
    uint32_t two = *(const uint32_t *)from;
    to[0] = half_float((uint16_t)two), to[1] = half_float((uint16_t)(two >> 16));
}

/* Their minima, from what is stored for them and the scales beside them. */
template <typename T>
__device__ __forceinline__ void mid_mins(float to[2], const T *from, const float *, int32_t) {
    mid_two(to, from);
}
__device__ __forceinline__ void mid_mins(float to[2], const uint8_t *from, const float *scale,
                                         int32_t zero_base) {
    uint32_t two = *(const uint16_t *)from;
    to[0] = zero_min(scale[0], zero_base, (uint8_t)two);
    to[1] = zero_min(scale[1], zero_base, (uint8_t)(two >> 8));
}

/* A warp's numbers of the matrix in one group: of each tile two outputs, each half of a group. */
template <typename FORM, uint32_t OUTS> struct mid_factors {
    float scale[OUTS][2];
    float second[OUTS][2]; /* of the second half, where it has its own */
    float min[OUTS][2];

    __device__ __forceinline__ void load(const mid_lane &lane, uint32_t slot_bits, uint32_t slot,
                                         bool has_min, int32_t zero_base) {
#pragma unroll
        for (uint32_t o = 0; o < OUTS; o++) {
            uint32_t from = ((o << slot_bits) + slot) * MID_TILE;
            const typename FORM::scale *scales = (const typename FORM::scale *)lane.scales + from;
            mid_two(scale[o], scales);
            if (FORM::halves)
                mid_two(second[o], scales + MID_TILE);
            else if (has_min)
                mid_mins(min[o], (const typename FORM::min *)lane.mins + from, scale[o], zero_base);
        }
    }
};

/* f += (scale * x_scale) * dot for the four results of an mma: outputs by rows. */
__device__ __forceinline__ void mid_add(float f[4], const int32_t dot[4], const float scale[2],
                                        const float x_scale[2]) {
#pragma unroll
    for (uint32_t e = 0; e < 4; e++)
        f[e] = fmaf(scale[e / 2] * x_scale[e % 2], dot_value(dot[e]), f[e]);
}

/* One group of a tile of outputs and a block of rows. */
template <typename FORM>
__device__ __forceinline__ void mid_group(float f[4], const uint32_t a[4], const uint32_t b[2],
                                          const float scale[2], const float second[2],
                                          const float min[2], bool has_min, const float x_scale[2],
                                          const float x_sum[2]) {
    int32_t dot[4];
    if (FORM::halves) {
        uint32_t a_low[4] = {a[0], a[1], 0, 0}, a_high[4] = {0, 0, a[2], a[3]};
        int32_t high[4];
        dot_block(dot, a_low, b);
        dot_block(high, a_high, b);
        mid_add(f, dot, scale, x_scale);
        mid_add(f, high, second, x_scale);
        return;
    }
    dot_block(dot, a, b);
    mid_add(f, dot, scale, x_scale);
    if (has_min)
#pragma unroll
        for (uint32_t e = 0; e < 4; e++)
            f[e] = fmaf(min[e / 2], x_sum[e % 2], f[e]);
}

/* The weights of a tile as they lie in a stage, for two groups: A operands. */
template <typename FORM>
__device__ __forceinline__ void mid_load_a(uint32_t a[2][4], const unsigned char *from) {
    uint32_t raw[4];
    if (!FORM::four) {
        ldmatrix_x4(a[0], from);
        ldmatrix_x4(a[1], from + WARP * 16);
        return;
    }
    ldmatrix_x4(raw, from);
#pragma unroll
    for (uint32_t g = 0; g < 2; g++)
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            a[g][i] = raw[2 * g + i] & 0x0f0f0f0fu;
            a[g][i + 2] = raw[2 * g + i] >> 4 & 0x0f0f0f0fu;
        }
}

/* N floats of each of two rows, MID_SCALES_BYTES apart. */
template <uint32_t N>
__device__ __forceinline__ void mid_load_x(float to[N][2], const unsigned char *from) {
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        const unsigned char *row = from + r * MID_SCALES_BYTES;
        if (N == 4) {
            float4 four = *(const float4 *)row;
            to[0][r] = four.x, to[1][r] = four.y, to[N - 2][r] = four.z, to[N - 1][r] = four.w;
        } else {
            float2 two = *(const float2 *)row;
            to[0][r] = two.x, to[1][r] = two.y;
        }
    }
}

/* N groups of a stage from group g, of which `here` are there: with one scale, or each with its own. */
template <typename PART, typename FORM, uint32_t N, bool EACH>
__device__ __forceinline__ void
mid_groups(float (*acc)[PART::rows][4], const mid_factors<FORM, PART::outs> *factors,
           const mid_lane &lane, uint32_t sums, uint32_t g, uint32_t here, bool has_min) {
    const uint32_t tile_bytes = MID_GROUPS * FORM::planes * MID_TILE * 16;
    uint32_t a[PART::outs][N][4];
#pragma unroll
    for (uint32_t o = 0; o < PART::outs; o++)
#pragma unroll
        for (uint32_t i = 0; i < N; i += 2)
            mid_load_a<FORM>(&a[o][i],
                             lane.a + o * tile_bytes + (g + i) * FORM::planes * MID_TILE * 16);
#pragma unroll
    for (uint32_t r = 0; r < PART::rows; r++) {
        const unsigned char *x = lane.x + r * MID_BLOCK * MID_SCALES_BYTES + g * 4;
        uint32_t b[N / 2][4];
        float x_scale[N][2], x_sum[N][2];
#pragma unroll
        for (uint32_t i = 0; i < N; i += 2)
            ldmatrix_x4(b[i / 2], lane.b + r * MID_BLOCK * MID_X_BYTES + (g + i) * GROUP);
        mid_load_x<N>(x_scale, x);
        mid_load_x<N>(x_sum, x + sums);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            const mid_factors<FORM, PART::outs> &of = factors[EACH ? i : 0];
            if (EACH && i >= here)
                continue;
#pragma unroll
            for (uint32_t o = 0; o < PART::outs; o++)
                mid_group<FORM>(acc[o][r], a[o][i], &b[i / 2][i % 2 * 2], of.scale[o], of.second[o],
                                of.min[o], has_min, x_scale[i], x_sum[i]);
        }
    }
}

/* A stage of n groups for one warp; `before`: groups of its first scale that earlier stages had. */
template <typename PART, typename FORM>
__device__ __forceinline__ void mid_stage(float (*acc)[PART::rows][4], const mid_lane &lane,
                                          const mid_shape &shape, const gpu_matrix &w, uint32_t n,
                                          uint32_t share, uint32_t before) {
    bool has_min = FORM::four || (!FORM::halves && w.mins != NULL);
    uint32_t slot = 0, left = share - before, sums = shape.rows * MID_SCALES_BYTES;
    if (!FORM::halves && share % MID_QUAD == 0 && n >= MID_GROUPS) {
#pragma unroll
        for (uint32_t g = 0; g < MID_GROUPS; g += MID_QUAD) {
            mid_factors<FORM, PART::outs> factors;
            factors.load(lane, shape.slot_bits, slot, has_min, w.zero_base);
            mid_groups<PART, FORM, MID_QUAD, false>(acc, &factors, lane, sums, g, MID_QUAD,
                                                    has_min);
            left -= MID_QUAD;
            slot += left == 0;
            left = left == 0 ? share : left;
        }
        return;
    }
    n = n < MID_GROUPS ? n : MID_GROUPS;
    for (uint32_t g = 0; g < n; g += 2) {
        mid_factors<FORM, PART::outs> factors[2];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            factors[i].load(lane, shape.slot_bits, FORM::halves ? 2 * (g + i) : slot, has_min,
                            w.zero_base);
            left--;
            slot += left == 0 && g + i + 1 < n;
            left = left == 0 ? share : left;
        }
        mid_groups<PART, FORM, 2, true>(acc, factors, lane, sums, g, n - g, has_min);
    }
}

template <typename PART, typename FORM>
__global__ void __launch_bounds__(MID_THREADS) mid_kernel(gpu_linear what, mid_shape shape) {
    SHARED(mid_shared, s);
    unsigned char *shared = reinterpret_cast<unsigned char *>(&s);
    const gpu_matrix &w = what.choice.matrix;
    const mid_layout<FORM> at(shape);
    uint32_t terms = what.fine ? 2 : 1, warp = threadIdx.x / WARP;
    uint32_t beside = shape.tiles / PART::outs; /* warps */
    uint32_t tile = warp % beside * PART::outs, row = warp / beside * PART::rows * MID_BLOCK;
    uint32_t first_row = blockIdx.x * shape.rows, first_n = blockIdx.y * shape.tiles * MID_TILE;
    uint32_t rows = what.n_rows * terms - first_row, tiles = (w.n_padded - first_n) / MID_TILE;
    rows = rows < shape.rows ? rows : shape.rows;
    tiles = tiles < shape.tiles ? tiles : shape.tiles;
    bool copies = warp >= shape.warps, idle = copies || row >= rows || tile >= tiles;
    mid_copies<FORM> source(what, threadIdx.x - shape.warps * WARP, blockDim.x - shape.warps * WARP,
                            first_n, tiles, first_row, rows);
    mid_walk walk = source.walk;
    mid_lane lane;
    float acc[PART::outs][PART::rows][4] = {};
    lane.begin<PART, FORM>(shared, shape, at, tile, row);
    if (copies)
        for (uint32_t i = 0; i + 1 < MID_STAGES; i++)
            source.fetch(shared + i * at.end, what, shape, at);
    uint32_t place = 0, left = w.k_stored / GROUP;
    unsigned char *next = shared + (MID_STAGES - 1) * at.end;
    while (left > 0) {
        if (copies)
            cp_async_wait<MID_STAGES - 2>();
        __syncthreads(); /* the stage is there, and no thread reads the one before it */
        if (copies)
            source.fetch(next, what, shape, at);
        if (!idle)
            mid_stage<PART, FORM>(acc, lane, shape, w, left, walk.share, walk.before);
        walk.go();
        left -= left < MID_GROUPS ? left : MID_GROUPS;
        next = place == 0 ? shared : next + at.end;
        place = place + 1 == MID_STAGES ? 0 : place + 1;
        lane.go(place == 0 ? -(int32_t)((MID_STAGES - 1) * at.end) : (int32_t)at.end);
    }
    cp_async_wait<0>();
    if (idle)
        return;
#pragma unroll
    for (uint32_t o = 0; o < PART::outs; o++)
#pragma unroll
        for (uint32_t r = 0; r < PART::rows; r++) {
            const float f[4] = {acc[o][r][0], acc[o][r][2], acc[o][r][1], acc[o][r][3]};
            store_block(what, first_row + row + r * MID_BLOCK + threadIdx.x % 4 * 2,
                        first_n + (tile + o) * MID_TILE + threadIdx.x % WARP / 4 * 2, f);
        }
}

/* Warps of a block: beside each other along the outputs, below each other along the rows. */
struct mid_warps {
    uint32_t beside, below;
};

template <typename PART, typename FORM>
static void mid_launch_of(struct device_stream *stream, const gpu_linear *what, mid_warps warps) {
    const gpu_matrix *w = &what->choice.matrix;
    uint32_t n_groups = w->k_stored / GROUP, share = FORM::halves ? 1 : w->groups_per_scale;
    /* A stage may begin within the groups of a scale, unless these fill it, or it them. */
    bool even = MID_GROUPS % share == 0 || share % MID_GROUPS == 0;
    uint32_t slots = FORM::halves ? 2 * MID_GROUPS
                     : even       ? pieces_of(MID_GROUPS, share)
                                  : (MID_GROUPS + share - 2) / share + 1;
    uint32_t n_warps = warps.beside * warps.below, n_copying = n_warps < 6 ? 1 : 2;
    mid_shape shape = {n_warps, warps.beside * PART::outs, warps.below * PART::rows * MID_BLOCK, 0,
                       FORM::halves ? 2 * n_groups : pieces_of(n_groups, share)};
    while (1u << shape.slot_bits < slots)
        shape.slot_bits++;
    uint32_t rows = what->n_rows * (what->fine ? 2 : 1);
    size_t n_bytes = MID_STAGES * mid_layout<FORM>(shape).end;
    if (n_bytes > gpu_shared_bytes(stream) && warps.beside > 2) /* on sm_80, of 8 bits */
        return mid_launch_of<PART, FORM>(stream, what, {2, warps.below});
    gpu_launch(stream,
               dim3(pieces_of(rows, shape.rows), pieces_of(w->n_padded, shape.tiles * MID_TILE)),
               dim3((n_warps + n_copying) * WARP), n_bytes, mid_kernel<PART, FORM>, *what, shape);
}

template <typename PART>
static void mid_launch(struct device_stream *stream, const gpu_linear *what, mid_warps warps) {
    ints_with(what->choice.matrix,
              [&](auto form) { mid_launch_of<PART, decltype(form)>(stream, what, warps); });
}

#define MID_SMS 132 /* multiprocessors: of an H100 */

/* Blocks of up to 32 rows: one a multiprocessor where the matrix is narrow, with as many of its outputs as are its
 * share; of wide ones several. Tiles of 32 outputs read the activations half as often, but give half the
 * warps: for where there are enough. */
void ints_mid(struct device_stream *stream, const gpu_linear *what) {
    uint32_t blocks = pieces_of(what->n_rows * (what->fine ? 2 : 1), MID_BLOCK);
    uint32_t below = pieces_of(blocks, pieces_of(blocks, 4));
    uint32_t tiles = pieces_of(what->choice.matrix.n_padded / MID_TILE, MID_SMS);
    if (tiles <= 3 && blocks <= 4)
        mid_launch<mid_part<1, 1>>(stream, what, {tiles, below});
    else
        mid_launch<mid_part<2, 1>>(stream, what, {tiles == 6 ? 3u : 2u, below});
}

} // namespace GPU_NAMESPACE
