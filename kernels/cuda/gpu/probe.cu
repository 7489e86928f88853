/* What a device's tensor cores make of fixed operands: how they align and round the terms of a sum is their own, and may differ
 * from generation to generation. */
#include "kernels/cuda/gpu/tensor.h"

namespace GPU_NAMESPACE {

#define PROBE_CHAIN 12 /* mma of a chain */

enum probe_kind {
    PROBE_WIDE,       /* numbers of all sizes */
    PROBE_TIES,       /* few bits each: sums that lie between two floats */
    PROBE_DENORMALS,  /* the smallest numbers */
    PROBE_CANCELLING, /* nearly equal ones of either sign */
    PROBE_KINDS,
};

static_assert(GPU_PROBES == 2 * PROBE_KINDS * WARP * 4, "both formats, all kinds, a warp's sums");

/* A 16-bit float of this kind: `exponents` bits of exponent, made of random bits. */
__device__ static uint32_t probe_number(uint32_t random, uint32_t kind, uint32_t exponents) {
    uint32_t mantissas = 15 - exponents, bias = (1u << (exponents - 1)) - 1;
    uint32_t mantissa = random & ((1u << mantissas) - 1), sign = random >> 15 & 1;
    uint32_t exponent = bias - 8 + (random >> 16) % 17; /* products, and their sums, are finite */
    if (kind == PROBE_TIES)
        mantissa &= 3u << (mantissas - 2), exponent = bias - 2 + (random >> 16) % 12;
    if (kind == PROBE_DENORMALS)
        exponent = 0;
    if (kind == PROBE_CANCELLING)
        mantissa &= 3, exponent = bias;
    return sign << 15 | exponent << mantissas | mantissa;
}

/* Random bits that are the same everywhere (a finalizer of MurmurHash3, public domain). */
__device__ static uint32_t probe_random(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

__device__ static uint32_t probe_pair(uint32_t at, uint32_t kind, uint32_t exponents) {
    return probe_number(probe_random(2 * at), kind, exponents) |
           probe_number(probe_random(2 * at + 1), kind, exponents) << 16;
}

/* Blocks: kinds, for each format. */
template <weight_format FORMAT>
__device__ static void probe_chain(float *out, uint32_t kind, uint32_t exponents) {
    float acc[4] = {0.0f, 1.0f, -3.0e-5f, 16777216.0f};
    for (uint32_t i = 0; i < PROBE_CHAIN; i++) {
        uint32_t a[4], b[2], at = ((kind * PROBE_CHAIN + i) * WARP + threadIdx.x) * 6 + 1;
        for (uint32_t j = 0; j < 4; j++)
            a[j] = probe_pair(at + j, kind, exponents);
        for (uint32_t j = 0; j < 2; j++)
            b[j] = probe_pair(at + 4 + j, kind, exponents);
        mma_16<FORMAT>(acc, a, b);
    }
    for (uint32_t e = 0; e < 4; e++)
        out[threadIdx.x * 4 + e] = acc[e];
}

__global__ void __launch_bounds__(WARP) probe_kernel(float *out) {
    uint32_t kind = blockIdx.x;
    probe_chain<WEIGHT_F16>(out + kind * WARP * 4, kind, 5);
    probe_chain<WEIGHT_BF16>(out + (PROBE_KINDS + kind) * WARP * 4, kind, 8);
}

void probe(struct device_stream *stream, const gpu_probe *what) {
    gpu_launch(stream, dim3(PROBE_KINDS), dim3(WARP), 0, probe_kernel, what->out);
}

/* The same of a warpgroup: 64 outputs by 64 rows, whose operands lie in shared memory as tensor_many.h has them. */
#define PROBE_ROWS    64
#define PROBE_THREADS 128
#define PROBE_INPUTS  (PROBE_CHAIN * 16)

static_assert(GPU_WARPGROUPS == PROBE_KINDS * PROBE_THREADS, "a number a thread");

struct probe_shared {
    alignas(1024) uint4 b[PROBE_INPUTS / 64][PROBE_ROWS][8];
    uint4 a[PROBE_INPUTS / 8][PROBE_ROWS];
};
enum probe_way { PROBE_MMA, PROBE_A, PROBE_AB }; /* with A from registers, or from shared memory */

#ifdef WGMMA_THERE

__device__ static void probe_fill(probe_shared &s, uint32_t kind, uint32_t exponents) {
    uint4 *to = &s.b[0][0][0];
    for (uint32_t i = threadIdx.x; i < 2 * PROBE_INPUTS / 8 * PROBE_ROWS; i += PROBE_THREADS) {
        uint32_t at = (kind << 16) + 4 * i;
        to[i] =
            make_uint4(probe_pair(at, kind, exponents), probe_pair(at + 1, kind, exponents),
                       probe_pair(at + 2, kind, exponents), probe_pair(at + 3, kind, exponents));
    }
    wgmma_publish();
    __syncthreads();
}

template <weight_format FORMAT, enum probe_way WAY>
__device__ __forceinline__ void probe_sums(float (&sums)[PROBE_ROWS / 2], const probe_shared &s) {
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const bool bf16 = FORMAT == WEIGHT_BF16;
    for (uint32_t e = 0; e < PROBE_ROWS / 2; e++)
        sums[e] = e % 4 == 0 ? 0.0f : e % 4 == 1 ? 1.0f : e % 4 == 2 ? -3.0e-5f : 16777216.0f;
#pragma unroll
    for (uint32_t i = 0; i < PROBE_CHAIN; i++) {
        uint32_t a[4];
        uint64_t b = wgmma_swizzled(&s.b[i / 4][0][i % 4 * 2]);
        ldmatrix_x4(a, &s.a[2 * i + lane / 16][warp * 16 + lane % 16]);
        if constexpr (WAY == PROBE_MMA) {
            for (uint32_t j = 0; j < PROBE_ROWS / 8; j++) {
                uint32_t row = j * 8 + lane / 4, own[2];
                for (uint32_t h = 0; h < 2; h++)
                    own[h] = word_of(s.b[i / 4][row][tensor_swizzle(i % 4 * 2 + h, row)], lane % 4);
                mma_16<FORMAT>(sums + 4 * j, a, own);
            }
        } else {
            wgmma_fence();
            if constexpr (WAY == PROBE_A)
                wgmma_a<PROBE_ROWS, bf16>(sums, a, b);
            else
                wgmma_ab<PROBE_ROWS, bf16>(sums, wgmma_plain(&s.a[2 * i][0], PROBE_ROWS * 16), b);
            wgmma_commit();
            wgmma_wait<0>();
        }
    }
}

template <weight_format FORMAT>
__device__ static uint32_t probe_unlike(probe_shared &s, uint32_t kind, uint32_t exponents) {
    float expected[PROBE_ROWS / 2], got[PROBE_ROWS / 2];
    uint32_t n = 0;
    probe_fill(s, kind, exponents);
    probe_sums<FORMAT, PROBE_MMA>(expected, s);
    probe_sums<FORMAT, PROBE_A>(got, s);
    for (uint32_t e = 0; e < PROBE_ROWS / 2; e++)
        n += float_bits(got[e]) != float_bits(expected[e]);
    probe_sums<FORMAT, PROBE_AB>(got, s);
    for (uint32_t e = 0; e < PROBE_ROWS / 2; e++)
        n += float_bits(got[e]) != float_bits(expected[e]);
    __syncthreads(); /* before others are written there */
    return n;
}

#endif /* WGMMA_THERE */

__global__ void __launch_bounds__(PROBE_THREADS) probe_warpgroup_kernel(uint32_t *n_unlike) {
    uint32_t n = 1; /* where there is no wgmma */
#ifdef WGMMA_THERE
    SHARED(probe_shared, s);
    n = probe_unlike<WEIGHT_F16>(s, blockIdx.x, 5) + probe_unlike<WEIGHT_BF16>(s, blockIdx.x, 8);
#endif
    n_unlike[blockIdx.x * PROBE_THREADS + threadIdx.x] = n;
}

void probe_warpgroup(struct device_stream *stream, const gpu_probe_warpgroup *what) {
    gpu_launch(stream, dim3(PROBE_KINDS), dim3(PROBE_THREADS), sizeof(probe_shared),
               probe_warpgroup_kernel, what->n_unlike);
}

} // namespace GPU_NAMESPACE
