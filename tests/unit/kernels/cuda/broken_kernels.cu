#include "tests/unit/kernels/cuda/broken_kernels.h"

#include "kernels/cuda/gpu/gpu.h"

#include <math.h>

using namespace GPU_NAMESPACE;

#define FULL 0xffffffffu

struct broken_shared {
    float a[64];
    float b[32][33];
    alignas(16) uint16_t tile[16][16];
};
typedef void kernel(float *out, const float *in);

static __global__ void missing_barrier(float *out, const float *in) {
    SHARED(broken_shared, s);
    s.a[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = s.a[63 - threadIdx.x];
}

static __global__ void missing_syncwarp(float *out, const float *in) {
    SHARED(broken_shared, s);
    s.a[threadIdx.x] = in[threadIdx.x];
    float x = __shfl_xor_sync(FULL, in[threadIdx.x], 1); /* meets, but orders no memory */
    out[threadIdx.x] = x + s.a[threadIdx.x ^ 1];
}

static __global__ void write_after_read(float *out, const float *in) {
    SHARED(broken_shared, s);
    s.a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float x = s.a[63 - threadIdx.x];
    s.a[threadIdx.x] = x + 1.0f;
    __syncthreads();
    out[threadIdx.x] = s.a[threadIdx.x];
}

/* All lanes read; one of them writes after a barrier of the other warp alone. */
static __global__ void write_after_many_reads(float *out, const float *in) {
    SHARED(broken_shared, s);
    if (threadIdx.x == 0)
        s.a[0] = in[0];
    __syncthreads();
    float x = s.a[0];
    __syncwarp();
    if (threadIdx.x == 63)
        s.a[0] = 1.0f;
    out[threadIdx.x] = x;
}

static __global__ void copy_not_waited(float *out, const float *in) {
    SHARED(broken_shared, s);
    if (threadIdx.x < 16)
        cp_async_16(&s.a[threadIdx.x * 4], in + threadIdx.x * 4);
    cp_async_commit();
    __syncthreads();
    out[threadIdx.x] = s.a[threadIdx.x];
}

/* The group that is read is the one that wait<1> leaves under way. */
static __global__ void waits_for_too_few(float *out, const float *in) {
    SHARED(broken_shared, s);
    if (threadIdx.x < 16)
        cp_async_16(&s.a[threadIdx.x * 4], in + threadIdx.x * 4);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    out[threadIdx.x] = s.a[threadIdx.x];
    cp_async_wait<0>();
}

static __global__ void copied_without_barrier(float *out, const float *in) {
    SHARED(broken_shared, s);
    if (threadIdx.x < 16)
        cp_async_16(&s.a[threadIdx.x * 4], in + threadIdx.x * 4);
    cp_async_commit();
    cp_async_wait<0>(); /* of this thread's copies */
    out[threadIdx.x] = s.a[threadIdx.x];
}

static __global__ void lane_left(float *out, const float *in) {
    if (threadIdx.x == 32)
        return;
    out[threadIdx.x] = __shfl_xor_sync(FULL, in[threadIdx.x], 1);
}

static __global__ void warp_diverges(float *out, const float *in) {
    float x = in[threadIdx.x];
    if (threadIdx.x % 2)
        x = __shfl_xor_sync(FULL, x, 1);
    else
        x += (float)__ballot_sync(FULL, x > 0.0f);
    out[threadIdx.x] = x;
}

static __global__ void not_in_its_mask(float *out, const float *in) {
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, in[threadIdx.x], 1);
}

static __global__ void shuffles_from_outside(float *out, const float *in) {
    float x = in[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        x = __shfl_sync(0x0000ffffu, x, 20);
    out[threadIdx.x] = x;
}

static __global__ void two_barriers(float *out, const float *in) {
    SHARED(broken_shared, s);
    s.a[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = s.a[63 - threadIdx.x];
}

static __global__ void barrier_against_shuffle(float *out, const float *in) {
    float x = in[threadIdx.x];
    if (threadIdx.x % 32 == 3)
        __syncthreads();
    else
        x = __shfl_xor_sync(FULL, x, 1);
    out[threadIdx.x] = x;
}

static __global__ void past_the_end(float *out, const float *in) {
    out[threadIdx.x + (threadIdx.x == 63)] = in[threadIdx.x];
}

static __global__ void past_shared(float *out, const float *in) {
    SHARED(broken_shared, s);
    float *behind = reinterpret_cast<float *>(&s + 1);
    if (threadIdx.x == 5)
        *behind = in[0];
    out[threadIdx.x] = in[threadIdx.x];
}

static __global__ void before_the_begin(float *out, const float *in) {
    const float *from = in + threadIdx.x;
    out[threadIdx.x] = from[-1];
}

static __global__ void index_in_struct(float *out, const float *in) {
    SHARED(broken_shared, s);
    s.b[0][threadIdx.x % 32 + 2] = in[threadIdx.x]; /* 33 columns */
    out[threadIdx.x] = 0.0f;
}

static __global__ void poison_read(float *out, const float *) {
    SHARED(broken_shared, s);
    out[threadIdx.x] = s.a[threadIdx.x];
}

static __global__ void misaligned_matrix(float *out, const float *) {
    SHARED(broken_shared, s);
    uint32_t r[4];
    ldmatrix_x4(r, &s.tile[threadIdx.x % 16][1]);
    out[threadIdx.x] = (float)r[0];
}

static __global__ void matrix_of_the_device(float *out, const float *in) {
    uint32_t r[4];
    ldmatrix_x4(r, in);
    out[threadIdx.x] = (float)r[0];
}

static __global__ void misaligned_copy(float *out, const float *in) {
    SHARED(broken_shared, s);
    cp_async_16(&s.a[0], in + 1);
    cp_async_commit();
    cp_async_wait<0>();
    out[threadIdx.x] = s.a[0];
}

static __global__ void misaligned_load(float *out, const float *in) {
    out[threadIdx.x] = (float)load_stream_16(in + threadIdx.x).x;
}

static __global__ void too_little_shared(float *out, const float *in) {
    SHARED(broken_shared, s);
    s.a[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = s.a[threadIdx.x];
}

/* Both blocks write the whole of `out`. */
static __global__ void blocks_overlap(float *out, const float *in) {
    out[threadIdx.x] = in[threadIdx.x] + (float)blockIdx.x;
}

/* The second block reads what the first one writes. */
static __global__ void block_reads_block(float *out, const float *) {
    if (blockIdx.x == 0)
        out[threadIdx.x] = 1.0f;
    else if (out[63 - threadIdx.x] > 2.0f)
        out[0] = 0.0f;
}

static __global__ void adds_without_atomics(float *out, const float *) {
    if (threadIdx.x == 0)
        out[0] += 1.0f;
}

static __global__ void reads_beside_atomics(float *out, const float *) {
    if (threadIdx.x == 0)
        atomicAdd(&out[0], 1.0f);
    else if (threadIdx.x == 1)
        out[1] = out[0];
}

/* One thread ends before the kernels before its own. */
static __global__ void ends_without_wait(float *out, const float *in) {
    if (threadIdx.x == 63)
        return;
    griddep_wait();
    out[threadIdx.x] = in[threadIdx.x];
}

static __global__ void writes_before_wait(float *out, const float *in) {
    out[threadIdx.x] = in[threadIdx.x];
    griddep_wait();
}

static __global__ void reads_before_wait(float *out, const float *in) {
    float x = in[threadIdx.x] + out[63 - threadIdx.x]; /* `in` is a constant */
    griddep_wait();
    out[threadIdx.x] = x;
}

static __global__ void copies_before_wait(float *out, const float *in) {
    SHARED(broken_shared, s);
    if (threadIdx.x < 16)
        cp_async_16(&s.a[threadIdx.x * 4], out + threadIdx.x * 4);
    griddep_wait();
    cp_async_wait<0>();
    __syncthreads();
    out[threadIdx.x] = s.a[threadIdx.x] + in[0];
}

static __global__ void waits(float *out, const float *in) {
    griddep_wait();
    out[threadIdx.x] = in[threadIdx.x];
}

enum product_mistake { PRODUCT_UNFENCED, PRODUCT_UNWAITED, PRODUCT_EARLY, PRODUCT_OTHERS };

/* 64 by 64 by 16, of the first two warps of a warpgroup. */
struct product_shared {
    alignas(1024) uint4 b[64][8];
    uint4 a[2][64];
};

template <product_mistake MISTAKE> static __global__ void multiplies(float *out, const float *in) {
    SHARED(product_shared, s);
    float d[32] = {};
    for (uint32_t i = threadIdx.x; i < 64 * 10; i += 64)
        cp_async_16(&s.b[0][0] + i, in + i % 16 * 4);
    cp_async_commit();
    cp_async_wait<0>();
    if (MISTAKE != PRODUCT_UNFENCED)
        wgmma_publish();
    __syncthreads();
    uint32_t first = MISTAKE == PRODUCT_OTHERS && threadIdx.x % 32 == 7 ? 8 : 0;
    wgmma_fence();
    wgmma_ab<64, false>(d, wgmma_plain(&s.a[0][0], 64 * 16), wgmma_swizzled(&s.b[first][0]));
    wgmma_commit();
    if (MISTAKE == PRODUCT_EARLY)
        d[0] = NAN; /* which the product is added to */
    if (MISTAKE != PRODUCT_UNWAITED)
        wgmma_wait<0>();
    out[threadIdx.x] = d[0];
}

template <kernel *KERNEL, unsigned N_BLOCKS = 1, size_t SHARED_BYTES = sizeof(broken_shared)>
static void launch(struct device_stream *stream, float *out, const float *in) {
    gpu_launch(stream, dim3(N_BLOCKS), dim3(64), SHARED_BYTES, KERNEL, out, in);
}

template <kernel *KERNEL>
static void launch_ahead(struct device_stream *stream, float *out, const float *in) {
    gpu_launch(stream, dim3(1), dim3(64), sizeof(broken_shared), waits, out, in);
    gpu_launch_ahead(stream, dim3(1), dim3(64), sizeof(broken_shared), KERNEL, out, in);
}

template <product_mistake MISTAKE>
static void launch_product(struct device_stream *stream, float *out, const float *in) {
    launch<multiplies<MISTAKE>, 1, sizeof(product_shared)>(stream, out, in);
}

static void host_memory(struct device_stream *stream, float *out, const float *) {
    static const float of_host[66] = {0};
    launch<past_the_end>(stream, out, of_host);
}

static void many_threads(struct device_stream *stream, float *out, const float *in) {
    gpu_launch(stream, dim3(1), dim3(1056), 0, poison_read, out, in);
}

static void high_grid(struct device_stream *stream, float *out, const float *in) {
    gpu_launch(stream, dim3(1, 65536), dim3(1), 0, past_the_end, out, in);
}

static void much_shared(struct device_stream *stream, float *out, const float *in) {
    launch<poison_read, 1, 228 * 1024>(stream, out, in);
}

#define RACE_SHARED "race in shared memory"
#define RACE_DEVICE "race in memory of the device"
#define FOREIGN     "not memory of the device"

const struct broken_kernel broken_kernels[] = {
    {"missing_barrier", launch<missing_barrier>, RACE_SHARED, "", NULL},
    {"missing_syncwarp", launch<missing_syncwarp>, RACE_SHARED, NULL, NULL},
    {"write_after_read", launch<write_after_read>, RACE_SHARED, NULL, NULL},
    {"write_after_many_reads", launch<write_after_many_reads>, RACE_SHARED, NULL, NULL},
    {"copy_not_waited", launch<copy_not_waited>, "did not wait for", "did not wait for", NULL},
    {"waits_for_too_few", launch<waits_for_too_few>, RACE_SHARED, "", NULL},
    {"copied_without_barrier", launch<copied_without_barrier>, RACE_SHARED, NULL, NULL},
    {"lane_left", launch<lane_left>, "of which 00000001 have ended", "of which 00000001 have ended",
     NULL},
    {"warp_diverges", launch<warp_diverges>, "warp 0 diverges: lane", "warp 0 diverges: lane",
     NULL},
    {"not_in_its_mask", launch<not_in_its_mask>, "is not in the mask", "is not in the mask", NULL},
    {"shuffles_from_outside", launch<shuffles_from_outside>, "shuffles from lane 20",
     "shuffles from lane 20", NULL},
    {"two_barriers", launch<two_barriers>, "at the barrier of line", "at the barrier of line",
     NULL},
    {"barrier_against_shuffle", launch<barrier_against_shuffle>, "wait in shfl for lanes 00000008",
     "wait in shfl for lanes 00000008", NULL},
    {"past_the_end", launch<past_the_end>, FOREIGN, NULL, "behind a piece"},
    {"before_the_begin", launch<before_the_begin>, FOREIGN, NULL, NULL},
    {"past_shared", launch<past_shared>, FOREIGN, NULL,
     "wrote behind its shared memory, at byte 4992"},
    {"index_in_struct", launch<index_in_struct>, "index 33 is out of bounds", NULL, NULL},
    {"poison_read", launch<poison_read>, "", "", NULL},
    {"misaligned_matrix", launch<misaligned_matrix>, "not a multiple of 16", "not a multiple of 16",
     NULL},
    {"matrix_of_the_device", launch<matrix_of_the_device>, "outside of shared memory",
     "outside of shared memory", NULL},
    {"misaligned_copy", launch<misaligned_copy>, "cp.async of 16 bytes", "cp.async of 16 bytes",
     NULL},
    {"misaligned_load", launch<misaligned_load>, "a load of 16 bytes", "a load of 16 bytes", NULL},
    {"too_little_shared", launch<too_little_shared, 1, 64>, "the launch gave 64",
     "the launch gave 64", NULL},
    {"blocks_overlap", launch<blocks_overlap, 2>, RACE_DEVICE, NULL, NULL},
    {"block_reads_block", launch<block_reads_block, 2>, RACE_DEVICE, NULL, NULL},
    {"adds_without_atomics", launch<adds_without_atomics, 2>, RACE_DEVICE, NULL, NULL},
    {"reads_beside_atomics", launch<reads_beside_atomics>, RACE_DEVICE, NULL, NULL},
    {"ends_without_wait", launch_ahead<ends_without_wait>, "ends without griddep_wait()",
     "ends without griddep_wait()", NULL},
    {"writes_before_wait", launch_ahead<writes_before_wait>, "writes before griddep_wait()", NULL,
     NULL},
    {"reads_before_wait", launch_ahead<reads_before_wait>, "reads before griddep_wait()", NULL,
     NULL},
    {"copies_before_wait", launch_ahead<copies_before_wait>, "reads before griddep_wait()", NULL,
     NULL},
    {"product_unfenced", launch_product<PRODUCT_UNFENCED>, "are not fenced", "are not fenced",
     NULL},
    {"product_unwaited", launch_product<PRODUCT_UNWAITED>, "products that it did not wait for",
     "products that it did not wait for", NULL},
    {"product_early", launch_product<PRODUCT_EARLY>, "", "", NULL},
    {"product_others", launch_product<PRODUCT_OTHERS>, "different products", "different products",
     NULL},
    {"host_memory", host_memory, FOREIGN, NULL, NULL},
    {"many_threads", many_threads, "more than 1024", "more than 1024", NULL},
    {"high_grid", high_grid, "too large", "too large", NULL},
    {"much_shared", much_shared, "more shared memory", "more shared memory", NULL},
};
const unsigned n_broken_kernels = sizeof broken_kernels / sizeof broken_kernels[0];
