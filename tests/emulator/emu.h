/* tests/emulator/emu.h: the parts of CUDA C++ that kernels use, for any C++17 compiler. Included by kernels/cuda/
 * gpu/gpu.h alone.
 *
 * The threads of a block are fibers of the thread that runs the launch, and blocks run one after
 * another. A fiber runs until it meets others (a barrier, a shuffle, mma, ldmatrix); the last one to
 * arrive does the work for all. EMU_SEED=n permutes the order of blocks and warps. A kernel that
 * breaks a rule ends its launch with one line of text (machine.h).
 *
 * Numbers: float is IEEE without contraction, flush-to-zero and denormals-are-zero, as nvcc gives
 * it with -fmad=false -ftz=true. mma on integers is exact; mma on binary16 adds in double and rounds
 * once, which no GPU does: compare with a tolerance. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint2 {
    unsigned x, y;
} __attribute__((aligned(8)));
struct uint3 {
    unsigned x, y, z;
};
struct uint4 {
    unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct float2 {
    float x, y;
} __attribute__((aligned(8)));
struct float4 {
    float x, y, z, w;
} __attribute__((aligned(16)));
struct int2 {
    int x, y;
} __attribute__((aligned(8)));
struct int4 {
    int x, y, z, w;
} __attribute__((aligned(16)));
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};

static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
static inline int2 make_int2(int x, int y) {
    return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}

/* Of the CUDA thread that runs. */
struct emu_place {
    uint3 thread, block, block_dim, grid_dim;
};
extern __thread struct emu_place emu_now;
#define threadIdx emu_now.thread
#define blockIdx  emu_now.block
#define blockDim  emu_now.block_dim
#define gridDim   emu_now.grid_dim

/* What is emulated, as CUDA counts: 80, the smallest that the kernels are compiled for, or 90 where $TANDEM_EMU_CAPABILITY says so; and
 * the bytes of shared memory that a block may have there. */
uint32_t emu_capability(void);
size_t emu_shared_max(void);
#define EMU_SHARED_MOST (227 * 1024) /* of all */

/* The block's shared memory; fails when the launch gave less than the struct needs. */
unsigned char *emu_shared(size_t n_bytes);
#define SHARED(type, name) type &name = *reinterpret_cast<type *>(emu_shared(sizeof(type)))
#define SHARED_BYTES(name) unsigned char *name = emu_shared(0)

/* Puts a launch into the stream; `what` (the kernel and its arguments) is copied. With `together` all its
 * blocks are alive at once; with `ahead` each of its threads calls griddep_wait(). */
void emu_enqueue(struct device_stream *stream, dim3 grid, dim3 block, size_t shared_bytes,
                 void (*call)(const void *what), const void *what, size_t what_bytes,
                 bool together = false, void (*kernel)() = nullptr, bool ahead = false);

/* Barriers are told apart by their line: threads that wait at different ones are a mistake. */
void emu_barrier(int line);
#define __syncthreads() emu_barrier(__LINE__)

void emu_warp_sync(uint32_t mask);
static inline void __syncwarp(uint32_t mask = 0xffffffffu) {
    emu_warp_sync(mask);
}

enum emu_shuffle { EMU_IDX, EMU_UP, EMU_DOWN, EMU_XOR };
uint32_t emu_shfl(uint32_t mask, uint32_t value, int lane, int width, enum emu_shuffle how);

template <typename T>
static inline T emu_shuffled(uint32_t mask, T value, int lane, int width, enum emu_shuffle how) {
    static_assert(sizeof(T) == 4, "a shuffle moves 32 bits");
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = emu_shfl(mask, bits, lane, width, how);
    memcpy(&value, &bits, 4);
    return value;
}
template <typename T>
static inline T __shfl_sync(uint32_t mask, T value, int lane, int width = 32) {
    return emu_shuffled(mask, value, lane, width, EMU_IDX);
}
template <typename T>
static inline T __shfl_up_sync(uint32_t mask, T value, unsigned n, int width = 32) {
    return emu_shuffled(mask, value, (int)n, width, EMU_UP);
}
template <typename T>
static inline T __shfl_down_sync(uint32_t mask, T value, unsigned n, int width = 32) {
    return emu_shuffled(mask, value, (int)n, width, EMU_DOWN);
}
template <typename T>
static inline T __shfl_xor_sync(uint32_t mask, T value, int lane, int width = 32) {
    return emu_shuffled(mask, value, lane, width, EMU_XOR);
}

uint32_t emu_ballot(uint32_t mask, bool bit);
static inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
    return emu_ballot(mask, predicate != 0);
}
static inline int __any_sync(uint32_t mask, int predicate) {
    return emu_ballot(mask, predicate != 0) != 0;
}
static inline int __all_sync(uint32_t mask, int predicate) {
    return emu_ballot(mask, predicate != 0) == mask;
}

void emu_copy_wait(uint32_t n_left);    /* cp.async.wait_group: gpu/ptx.h */
void emu_product_wait(uint32_t n_left); /* wgmma.wait_group */
void emu_griddep_wait(void);

template <typename T> static inline T __ldg(const T *from) {
    return *from;
}
static inline void __threadfence() {
}

/* Atomic operations: fibers change places only where they meet, so plain loads and stores are. The
 * checker of accesses hears of them as what they are, and not of the loads and stores. */
void emu_touch_atomic(void *p, size_t n);
#define EMU_ATOMIC template <typename T> __attribute__((noinline, no_sanitize_thread)) static T
EMU_ATOMIC emu_fetch_add(T *p, T value) {
    emu_touch_atomic(p, sizeof *p);
    T old = *p;
    *p = (T)(old + value);
    return old;
}
EMU_ATOMIC emu_fetch_max(T *p, T value) {
    emu_touch_atomic(p, sizeof *p);
    T old = *p;
    *p = value > old ? value : old;
    return old;
}
EMU_ATOMIC emu_fetch_min(T *p, T value) {
    emu_touch_atomic(p, sizeof *p);
    T old = *p;
    *p = value < old ? value : old;
    return old;
}
#undef EMU_ATOMIC
static inline int atomicAdd(int *p, int value) {
    return (int)emu_fetch_add((unsigned *)p, (unsigned)value); /* wraps, as on the GPU */
}
static inline unsigned atomicAdd(unsigned *p, unsigned value) {
    return emu_fetch_add(p, value);
}
static inline float atomicAdd(float *p, float value) {
    return emu_fetch_add(p, value);
}
static inline int atomicMax(int *p, int value) {
    return emu_fetch_max(p, value);
}
static inline unsigned atomicMax(unsigned *p, unsigned value) {
    return emu_fetch_max(p, value);
}
static inline int atomicMin(int *p, int value) {
    return emu_fetch_min(p, value);
}
static inline unsigned atomicMin(unsigned *p, unsigned value) {
    return emu_fetch_min(p, value);
}

static inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline float __int_as_float(int bits) {
    return __uint_as_float((unsigned)bits);
}
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline int __float_as_int(float value) {
    return (int)__float_as_uint(value);
}
/* Byte i of the answer is byte (selector >> 4 i & 7) of b a, a the lower ones. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned bytes = 0;
    for (unsigned i = 0; i < 4; i++)
        bytes |= (unsigned)(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return bytes;
}
static inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
static inline int __clz(int bits) {
    return bits == 0 ? 32 : __builtin_clz((unsigned)bits);
}
static inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
static inline int min(int a, int b) {
    return b < a ? b : a;
}
static inline unsigned min(unsigned a, unsigned b) {
    return b < a ? b : a;
}
static inline int max(int a, int b) {
    return a < b ? b : a;
}
static inline unsigned max(unsigned a, unsigned b) {
    return a < b ? b : a;
}
