#include "tests/unit/kernels/cuda/emu_kernels.h"

#include "kernels/cuda/gpu/gpu.h"

using namespace GPU_NAMESPACE;

#define FULL 0xffffffffu

static __global__ void __launch_bounds__(64)
    add(float *__restrict__ out, const float *a, const float *b, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] + b[i];
}

void emu_add(struct device_stream *stream, float *out, const float *a, const float *b, uint32_t n) {
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
        out[0] = sum;
}

void emu_block_sum(struct device_stream *stream, uint32_t *out, const uint32_t *in,
                   uint32_t n_warps) {
    gpu_launch(stream, dim3(1), dim3(32 * n_warps), sizeof(sum_shared), block_sum, out, in);
}

static __global__ void count(uint32_t *out) {
    atomicAdd(out, threadIdx.x == blockDim.x - 1 ? 1u : 0u);
}

void emu_count(struct device_stream *stream, uint32_t *out, uint32_t n_blocks) {
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

void emu_product_s8(struct device_stream *stream, int32_t *y, const int8_t *x, const int8_t *w) {
    gpu_launch(stream, dim3(1), dim3(32), sizeof(s8_shared), product_s8, y, x, w);
}

struct f16_shared {
    alignas(16) uint16_t x[16][16 + 8];
    alignas(16) uint16_t w[16][8];
};

static __global__ void product_f16(float *y, const uint16_t *x, const uint16_t *w) {
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
    mma_m16n8k16_f16_f32(d, a, b);
    for (uint32_t i = 0; i < 4; i++)
        y[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

void emu_product_f16(struct device_stream *stream, float *y, const uint16_t *x, const uint16_t *w) {
    gpu_launch(stream, dim3(1), dim3(32), sizeof(f16_shared), product_f16, y, x, w);
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

void emu_shuffles(struct device_stream *stream, uint32_t *out, const uint32_t *in) {
    gpu_launch(stream, dim3(1), dim3(32), 0, shuffles, out, in);
}

static __global__ void floats(float *out, float a, float b) {
    out[0] = a * b;
    out[1] = a + b;
}

void emu_floats(struct device_stream *stream, float *out, float a, float b) {
    gpu_launch(stream, dim3(1), dim3(1), 0, floats, out, a, b);
}
