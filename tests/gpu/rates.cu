/* tests/gpu/rates.cu: kernels that do one thing as fast as a device can: read, multiply on tensor cores, or nothing. */
#include "tests/gpu/rates.h"

#include "kernels/cuda/gpu/gpu.h"

using namespace GPU_NAMESPACE;

#define READ_THREADS 512
#define READ_DEEP    8 /* loads of 16 bytes that a thread has under way */
#define READ_BLOCKS  4 /* of a multiprocessor */
static_assert(RATE_STEP == READ_THREADS * READ_DEEP * sizeof(uint4), "a block's turn");

static __global__ void __launch_bounds__(READ_THREADS)
    read_kernel(uint32_t *out, const uint4 *from, size_t n_steps) {
    uint32_t sum = 0;
    for (size_t step = blockIdx.x; step < n_steps; step += gridDim.x) {
        const uint4 *at = from + step * (RATE_STEP / sizeof(uint4)) + threadIdx.x;
        uint4 x[READ_DEEP];
#pragma unroll
        for (int i = 0; i < READ_DEEP; i++)
            x[i] = at[i * READ_THREADS];
#pragma unroll
        for (int i = 0; i < READ_DEEP; i++)
            sum += x[i].x ^ x[i].y ^ x[i].z ^ x[i].w;
    }
    if (sum == 0x12345678u) /* else nobody needs what was read */
        *out = sum;
}

static void launch_read(struct device_stream *stream, uint32_t *out, const void *from,
                        size_t n_bytes, uint32_t n_sms) {
    gpu_launch(stream, dim3(n_sms * READ_BLOCKS), dim3(READ_THREADS), 0, read_kernel, out,
               (const uint4 *)from, n_bytes / RATE_STEP);
}

static __global__ void __launch_bounds__(RATE_WARPS * 32)
    multiply_kernel(float *out, uint32_t n_turns) {
    float sums[RATE_MMA][4] = {};
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = 0x34123456u + threadIdx.x * 0x00010003u + i; /* numbers of about 1/4 */
    for (int i = 0; i < 2; i++)
        b[i] = 0x33b43521u + threadIdx.x * 0x00020001u + i;
    for (uint32_t turn = 0; turn < n_turns; turn++)
#pragma unroll
        for (int i = 0; i < RATE_MMA; i++)
            mma_m16n8k16_f16_f32(sums[i], a, b);
    float sum = 0;
    for (int i = 0; i < RATE_MMA; i++)
        sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    if (sum == -1.0f)
        *out = sum;
}

static void launch_multiply(struct device_stream *stream, float *out, uint32_t n_turns,
                            uint32_t n_blocks) {
    gpu_launch(stream, dim3(n_blocks), dim3(RATE_WARPS * 32), 0, multiply_kernel, out, n_turns);
}

static __global__ void nothing_kernel() {
}

static __global__ void nothing_ahead_kernel() {
    griddep_launch();
    griddep_wait();
}

static void launch_nothing(struct device_stream *stream, bool ahead) {
    if (ahead)
        gpu_launch_ahead(stream, dim3(1), dim3(32), 0, nothing_ahead_kernel);
    else
        gpu_launch(stream, dim3(1), dim3(32), 0, nothing_kernel);
}

#ifdef __CUDACC__
#define TABLE rate_kernels_cuda
#else
#define TABLE rate_kernels_emu
#endif
extern "C" const struct rate_kernels TABLE;
const struct rate_kernels TABLE = {launch_read, launch_multiply, launch_nothing};
