#include "tests/support/device_kernels.h"

#include "kernels/cuda/gpu/gpu.h"

using namespace GPU_NAMESPACE;

#define FULL 0xffffffffu

static __global__ void __launch_bounds__(64)
    add(float *__restrict__ out, const float *a, const float *b, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] + b[i];
}

static void launch_add(struct device_stream *stream, float *out, const float *a, const float *b,
                       uint32_t n) {
    gpu_launch(stream, dim3((n + 63) / 64), dim3(64), 0, add, out, a, b, n);
}

struct sum_shared {
    uint32_t of_warp[32];
};

static __global__ void block_sum(uint32_t *out, const uint32_t *in) {
    SHARED(sum_shared, s);
    uint32_t sum = in[threadIdx.x], n_warps = blockDim.x / 32;
    for (int width = 16; width > 0; width /= 2)
        sum += __shfl_xor_sync(FULL, sum, width);
    if (threadIdx.x % 32 == 0)
        s.of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    sum = threadIdx.x < n_warps ? s.of_warp[threadIdx.x] : 0;
    for (int width = 16; width > 0; width /= 2)
        sum += __shfl_down_sync(FULL, sum, width);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

static void launch_block_sum(struct device_stream *stream, uint32_t *out, const uint32_t *in,
                             uint32_t n_warps) {
    gpu_launch(stream, dim3(3), dim3(32 * n_warps), sizeof(sum_shared), block_sum, out, in);
}

static __global__ void count(uint32_t *out) {
    atomicAdd(out, threadIdx.x == blockDim.x - 1 ? 1u : 0u);
}

static void launch_count(struct device_stream *stream, uint32_t *out, uint32_t n_blocks) {
    gpu_launch(stream, dim3(n_blocks), dim3(64), 0, count, out);
}

struct s8_shared {
    alignas(16) int8_t x[16][32 + 16];
    alignas(16) int8_t w[8][32];
};

static __global__ void product_s8(int32_t *y, const int8_t *x, const int8_t *w) {
    SHARED(s8_shared, s);
    uint32_t lane = threadIdx.x, row = lane / 2, column = lane % 2 * 16;
    cp_async_16(&s.x[row][column], x + row * 32 + column);
    cp_async_commit();
    if (row < 8)
        cp_async_16(&s.w[row][column], w + row * 32 + column);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp();
    uint32_t a[4], b[2];
    int32_t d[4] = {};
    ldmatrix_x4(a, &s.x[lane % 16][lane / 16 * 16]);
    for (uint32_t half = 0; half < 2; half++)
        b[half] = *(const uint32_t *)&s.w[lane / 4][half * 16 + lane % 4 * 4];
    mma_m16n8k32_s8_s32(d, a, b);
    for (uint32_t i = 0; i < 4; i++)
        y[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

static void launch_product_s8(struct device_stream *stream, int32_t *y, const int8_t *x,
                              const int8_t *w) {
    gpu_launch(stream, dim3(1), dim3(32), sizeof(s8_shared), product_s8, y, x, w);
}

struct f16_shared {
    alignas(16) uint16_t x[16][16 + 8];
    alignas(16) uint16_t w[16][8];
};

template <bool BF16>
static __global__ void product_16(float *y, const uint16_t *x, const uint16_t *w) {
    SHARED(f16_shared, s);
    uint32_t lane = threadIdx.x, a[4], b[4];
    for (uint32_t i = lane; i < 256; i += 32)
        s.x[i / 16][i % 16] = x[i];
    for (uint32_t i = lane; i < 128; i += 32)
        s.w[i / 8][i % 8] = w[i];
    __syncwarp();
    float d[4] = {};
    ldmatrix_x4(a, &s.x[lane % 16][lane / 16 * 8]);
    ldmatrix_x4_trans(b, &s.w[lane % 16][0]); /* matrices 2 and 3 are 0 and 1 again */
    if (BF16)
        mma_m16n8k16_bf16_f32(d, a, b);
    else
        mma_m16n8k16_f16_f32(d, a, b);
    for (uint32_t i = 0; i < 4; i++)
        y[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

static void launch_product_f16(struct device_stream *stream, float *y, const uint16_t *x,
                               const uint16_t *w) {
    gpu_launch(stream, dim3(1), dim3(32), sizeof(f16_shared), product_16<false>, y, x, w);
}

static void launch_product_bf16(struct device_stream *stream, float *y, const uint16_t *x,
                                const uint16_t *w) {
    gpu_launch(stream, dim3(1), dim3(32), sizeof(f16_shared), product_16<true>, y, x, w);
}

static __global__ void shuffles(uint32_t *out, const uint32_t *in) {
    uint32_t lane = threadIdx.x, x = in[lane], row = 0;
    out[row++ * 32 + lane] = __shfl_sync(FULL, x, (int)((lane * 7 + 3) % 32));
    out[row++ * 32 + lane] = __shfl_sync(FULL, x, 5, 8);
    out[row++ * 32 + lane] = __shfl_up_sync(FULL, x, 3);
    out[row++ * 32 + lane] = __shfl_up_sync(FULL, x, 3, 8);
    out[row++ * 32 + lane] = __shfl_down_sync(FULL, x, 5);
    out[row++ * 32 + lane] = __shfl_down_sync(FULL, x, 5, 16);
    out[row++ * 32 + lane] = __shfl_xor_sync(FULL, x, 9);
    out[row++ * 32 + lane] = __shfl_xor_sync(FULL, x, 12, 8);
    out[row++ * 32 + lane] = __ballot_sync(FULL, x % 3 == 0);
    out[row++ * 32 + lane] = lane < 16 ? (uint32_t)__any_sync(0x0000ffffu, x == in[7])
                                       : (uint32_t)__any_sync(0xffff0000u, x == in[7]);
    out[row++ * 32 + lane] = (uint32_t)__all_sync(FULL, x != in[32]);
    out[row++ * 32 + lane] = lane < 8 ? __shfl_xor_sync(0xffu, x, 1) : 0;
}

static void launch_shuffles(struct device_stream *stream, uint32_t *out, const uint32_t *in) {
    gpu_launch(stream, dim3(1), dim3(32), 0, shuffles, out, in);
}

static __global__ void floats(float *out, float a, float b) {
    out[0] = a * b;
    out[1] = a + b;
    out[2] = a / b;
    out[3] = sqrtf(a);
    out[4] = fmaf(a, b, a);
}

static void launch_floats(struct device_stream *stream, float *out, float a, float b) {
    gpu_launch(stream, dim3(1), dim3(1), 0, floats, out, a, b);
}

static __global__ void atomics(uint32_t *out) {
    int i = (int)threadIdx.x - 40;
    atomicAdd((int *)&out[0], i);
    atomicMax((int *)&out[1], i);
    atomicMin((int *)&out[2], i);
    atomicAdd(&out[3], (uint32_t)i);
    atomicMax(&out[4], (uint32_t)i);
    atomicMin(&out[5], (uint32_t)i);
    atomicAdd((float *)&out[6], (float)i);
}

static void launch_atomics(struct device_stream *stream, uint32_t *out) {
    gpu_launch(stream, dim3(1), dim3(96), 0, atomics, out);
}

static __global__ void order(uint32_t *order, uint32_t *next) {
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0)
        order[atomicAdd(next, 1u)] = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

static void launch_order(struct device_stream *stream, uint32_t *to, uint32_t *next,
                         uint32_t n_blocks) {
    dim3 grid = n_blocks % 6 == 0 ? dim3(n_blocks / 6, 2, 3) : dim3(n_blocks);
    gpu_launch(stream, grid, dim3(2, 3, 4), 0, order, to, next);
}

struct matrices_shared {
    alignas(128) uint16_t rows[32][64];
};

static __global__ void matrices(uint32_t *out, uint32_t stride) {
    SHARED(matrices_shared, s);
    uint16_t *all = &s.rows[0][0];
    for (uint32_t i = threadIdx.x; i < 32 * 64; i += 32)
        all[i] = (uint16_t)i;
    __syncwarp();
    uint32_t r[4];
    ldmatrix_x4(r, all + threadIdx.x * stride / 2);
    for (uint32_t j = 0; j < 4; j++)
        out[threadIdx.x * 4 + j] = r[j];
}

static void launch_matrices(struct device_stream *stream, uint32_t *out, uint32_t stride) {
    gpu_launch(stream, dim3(1), dim3(32), sizeof(matrices_shared), matrices, out, stride);
}

static __global__ void dots(int32_t *out, const uint32_t *a, const uint32_t *b, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = dp4a((int32_t)i, __ldg(a + i), __ldg(b + i));
}

static void launch_dots(struct device_stream *stream, int32_t *out, const uint32_t *a,
                        const uint32_t *b, uint32_t n) {
    gpu_launch(stream, dim3((n + 31) / 32), dim3(32), 0, dots, out, a, b, n);
}

static __global__ void halves(uint32_t *out, const uint32_t *a, const uint32_t *b,
                              const uint32_t *c, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[4 * i] = half2_sub(a[i], b[i]);
    out[4 * i + 1] = half2_fma(a[i], b[i], c[i]);
    out[4 * i + 2] = __float_as_uint(half_float((uint16_t)a[i]));
    out[4 * i + 3] = half2_of(__uint_as_float(b[i]), __uint_as_float(c[i]));
}

static void launch_halves(struct device_stream *stream, uint32_t *out, const uint32_t *a,
                          const uint32_t *b, const uint32_t *c, uint32_t n) {
    gpu_launch(stream, dim3((n + 255) / 256), dim3(256), 0, halves, out, a, b, c, n);
}

static __global__ void load_16(uint32_t *out, const uint32_t *from) {
    uint4 all = load_stream_16(from);
    out[0] = all.x, out[1] = all.y, out[2] = all.z, out[3] = all.w;
}

static void launch_load_16(struct device_stream *stream, uint32_t *out, const uint32_t *from) {
    gpu_launch(stream, dim3(1), dim3(1), 0, load_16, out, from);
}

struct late_shared {
    alignas(16) uint32_t words[4];
};

static __global__ void late(uint32_t *out, const uint32_t *from) {
    SHARED(late_shared, s);
    cp_async_16(s.words, from, 12);
    cp_async_commit();
    out[0] = s.words[2];
    cp_async_wait<0>();
    out[1] = s.words[2];
    out[2] = s.words[3];
}

static void launch_late(struct device_stream *stream, uint32_t *out, const uint32_t *from) {
    gpu_launch(stream, dim3(1), dim3(1), sizeof(late_shared), late, out, from);
}

/* Block i waits for flag i and raises flag i - 1: the last block begins, so that blocks that are run
 * one after another stand still. */
static __global__ void relay(uint32_t *out, uint32_t *flags) {
    uint32_t own = blockIdx.x;
    if (threadIdx.x == 0) {
        while (own + 1 < gridDim.x && load_acquire(&flags[own]) == 0)
            ;
        *out += own;
        if (own > 0)
            store_release(&flags[own - 1], 1);
    }
    __syncthreads();
}

static void launch_relay(struct device_stream *stream, uint32_t *out, uint32_t *flags,
                         uint32_t n_blocks, bool together) {
    if (together)
        gpu_launch_together(stream, dim3(n_blocks), dim3(64), 0, relay, out, flags);
    else
        gpu_launch(stream, dim3(n_blocks), dim3(64), 0, relay, out, flags);
}

static void launch_too_many_threads(struct device_stream *stream, float *out) {
    gpu_launch(stream, dim3(1), dim3(1056), 0, floats, out, 1.0f, 1.0f);
}

static __global__ void read_at(float *out, const float *from) {
    out[0] = *from;
}

static void launch_null_read(struct device_stream *stream, float *out) {
    gpu_launch(stream, dim3(1), dim3(1), 0, read_at, out, (const float *)nullptr);
}

static __device__ float go_down(volatile float *above, uint32_t depth) {
    volatile float here[64];
    here[depth % 64] = above[depth % 7] + 1.0f;
    return depth == 0 ? here[0] : go_down(here, depth - 1) + here[depth % 64];
}

static __global__ void deep(float *out, uint32_t depth) {
    volatile float first[64] = {};
    out[0] = go_down(first, depth);
}

static void launch_deep(struct device_stream *stream, float *out, uint32_t depth) {
    gpu_launch(stream, dim3(1), dim3(1), 0, deep, out, depth);
}

#ifdef __CUDACC__
#define TABLE device_kernels_cuda
#else
#define TABLE device_kernels_emu
#endif
const struct device_kernels TABLE = {
    launch_add,
    launch_block_sum,
    launch_count,
    launch_atomics,
    launch_order,
    launch_product_s8,
    launch_product_f16,
    launch_product_bf16,
    launch_matrices,
    launch_shuffles,
    launch_floats,
    launch_dots,
    launch_halves,
    launch_load_16,
    launch_late,
    launch_relay,
    launch_too_many_threads,
    launch_null_read,
    launch_deep,
};
