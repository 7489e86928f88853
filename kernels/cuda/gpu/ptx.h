/* kernels/cuda/gpu/ptx.h: the instructions that CUDA C++ has no word for, one inline function each. The emulator
 * (tests/emulator/warp.cc) does what the PTX ISA says of them. Pairs of binary16 are a uint32_t, the lower
 * half first. "The warp calls": all 32 lanes, converged. Included by gpu.h alone, at its end. */
#pragma once

namespace GPU_NAMESPACE {

#ifdef __CUDACC__

#define PTX static __device__ __forceinline__

PTX uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* The warp calls. d (16, 8) += A (16, 16) B (16, 8): binary16 in, float32 out. */
PTX void mma_m16n8k16_f16_f32(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* The same, bfloat16 in. */
PTX void mma_m16n8k16_bf16_f32(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* The warp calls. d (16, 8) += A (16, 32) B (32, 8): int8 in, int32 out, exact. */
PTX void mma_m16n8k32_s8_s32(int32_t d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* The same, d being c + A B. */
PTX void mma_m16n8k32_s8_s32_from(int32_t d[4], const uint32_t a[4], const uint32_t b[2],
                                  const int32_t c[4]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%10,%11,%12,%13};"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]),
                   "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

/* The warp calls. Four 8 x 8 matrices of 16-bit numbers from shared memory: lanes 8 j to 8 j + 7 name
 * the rows of matrix j, 16 bytes each, 16-byte aligned. */
PTX void ldmatrix_x4(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
PTX void ldmatrix_x4_trans(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* Products of a warpgroup: four warps of which the first is a multiple of four, all converged; devices of compute capability 9.0
 * alone have them, and WGMMA_THERE says that the code is for one. d (64, N) += A (64, 16) B (16, N), N 64 or 128: warp i has rows
 * 16 i to 16 i + 15, in tiles (16, 8) as mma_m16n8k16_f16_f32() has them. They begin in their order and go on by themselves: before
 * the first, and wherever registers of d or a were written, is a wgmma_fence(); until they were waited for no code reads d, or
 * writes a or what descriptors name. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA_THERE 1
#define WGMMA(...)  asm volatile(__VA_ARGS__)
#else
#define WGMMA(...) ((void)0)
#endif

PTX uint64_t wgmma_address(const void *at) {
    return (shared_address(at) & 0x3ffff) >> 4;
}
/* An operand in shared memory: rows of outputs of A, or of B, 128 bytes each, 8 of which lie together at a multiple of 1,024, the 16 bytes u of row
 * r at place u ^ r % 8; `at` is where the 16 inputs begin in the first row. */
PTX uint64_t wgmma_swizzled(const void *at) {
    return wgmma_address(at) | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}
/* 16 bytes of 8 rows lie together, those of the next rows behind them; the next 8 inputs k_bytes further. */
PTX uint64_t wgmma_plain(const void *at, uint32_t k_bytes) {
    return wgmma_address(at) | (uint64_t)(k_bytes >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}
PTX void wgmma_fence() {
    WGMMA("wgmma.fence.sync.aligned;" ::: "memory");
}
PTX void wgmma_commit() {
    WGMMA("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until at most N committed groups of products are under way. */
template <int N> PTX void wgmma_wait() {
    WGMMA("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* What this thread has written to shared memory, by copies that it waited for, can be read by products of others after a
 * barrier. */
PTX void wgmma_publish() {
    WGMMA("fence.proxy.async.shared::cta;" ::: "memory");
}
/* The warpgroup takes registers, until each thread has N, or gives them up. */
template <int N> PTX void registers_more() {
    WGMMA("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> PTX void registers_fewer() {
    WGMMA("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#define D4(i)  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define D16(i) D4(i), D4((i) + 4), D4((i) + 8), D4((i) + 12)
#define D_64   D16(0), D16(16) /* of N 64: a half of them each */
#define D_128  D_64, D16(32), D16(48)
#define NAMES_64                                                                                   \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"  \
    "%25,%26,%27,%28,%29,%30,%31"
#define NAMES_128                                                                                  \
    NAMES_64                                                                                       \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,"    \
    "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_OF(n, type) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " "
#define WGMMA_A(n, type, a)                                                                        \
    WGMMA(WGMMA_OF(n, type) NAMES_##n "}, " a ", 1, 1, 1, 0;"                                      \
          : D_##n                                                                                  \
          : "r"(own[0]), "r"(own[1]), "r"(own[2]), "r"(own[3]), "l"(b)                             \
          : "memory")
#define WGMMA_AB(n, type, ab)                                                                      \
    WGMMA(WGMMA_OF(n, type) NAMES_##n "}, " ab ", 1, 1, 1, 0, 0;"                                  \
          : D_##n                                                                                  \
          : "l"(a), "l"(b)                                                                         \
          : "memory")

/* A from registers, as mma_m16n8k16_f16_f32() takes it of a warp's rows; B by a descriptor. BF16: both bfloat16. */
template <int N, bool BF16>
PTX void wgmma_a(float (&d)[N / 2], const uint32_t (&own)[4], uint64_t b) {
    (void)d, (void)own, (void)b;
    if constexpr (N == 64 && BF16)
        WGMMA_A(64, "bf16", "{%32,%33,%34,%35}, %36");
    else if constexpr (N == 64)
        WGMMA_A(64, "f16", "{%32,%33,%34,%35}, %36");
    else if constexpr (N == 128 && BF16)
        WGMMA_A(128, "bf16", "{%64,%65,%66,%67}, %68");
    else
        WGMMA_A(128, "f16", "{%64,%65,%66,%67}, %68");
}
/* Both by descriptors. */
template <int N, bool BF16> PTX void wgmma_ab(float (&d)[N / 2], uint64_t a, uint64_t b) {
    (void)d, (void)a, (void)b;
    if constexpr (N == 64 && BF16)
        WGMMA_AB(64, "bf16", "%32, %33");
    else if constexpr (N == 64)
        WGMMA_AB(64, "f16", "%32, %33");
    else if constexpr (N == 128 && BF16)
        WGMMA_AB(128, "bf16", "%64, %65");
    else
        WGMMA_AB(128, "f16", "%64, %65");
}

#undef D4
#undef D16
#undef D_64
#undef D_128
#undef NAMES_64
#undef NAMES_128
#undef WGMMA_OF
#undef WGMMA_A
#undef WGMMA_AB
#undef WGMMA

/* 16 bytes into shared memory: the first n copied from global memory, the others zero. They are there
 * for this thread after a wait, for others after a barrier that follows it. */
PTX void cp_async_16(void *to, const void *from, uint32_t n = 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(n)
                 : "memory");
}
PTX void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Until at most N of this thread's groups are under way. */
template <int N> PTX void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* c + the four products of a's and b's signed bytes. */
PTX int32_t dp4a(int32_t c, uint32_t a, uint32_t b) {
    int32_t d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* The same with a's bytes unsigned. */
PTX int32_t dp4a_unsigned(int32_t c, uint32_t a, uint32_t b) {
    int32_t d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* 16 bytes of global memory that no kernel writes, and none reads again soon: not kept in L1. */
PTX uint4 load_stream_16(const void *from) {
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
    return value;
}

/* A word by which blocks, or ranks on other devices, wait for each other: what was written before the
 * release is there after an acquire that reads its value. Who waits for another block is launched with
 * gpu_launch_together(). */
PTX uint32_t load_acquire(const uint32_t *from) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
PTX void store_release(uint32_t *to, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
/* Nanoseconds of a clock that all devices of a machine have, and a moment in which others go on. */
PTX uint64_t clock_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}
PTX void pause_a_moment() {
    asm volatile("nanosleep.u32 40;");
}
/* Ends the launch, and with it all that its device computes: `why` is told where somebody can be told. */
PTX void give_up(const char *why) {
    (void)why;
    asm volatile("trap;");
}

/* Kernels of gpu_launch_ahead(). From here on those behind this one may begin, once all of its blocks have
 * come so far. */
PTX void griddep_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/* Until all kernels before this one have ended, and what they wrote can be read. A thread that ends without
 * it would let the kernels behind begin too early. */
PTX void griddep_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The larger one; NaN where one is. */
PTX float max_nan(float a, float b) {
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
PTX uint32_t half2_sub(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
PTX uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* Both rounded to binary16, to nearest, ties to even. */
PTX uint32_t half2_of(float low, float high) {
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
PTX float half_float(uint16_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

#undef PTX

#else /* the emulator */

void mma_m16n8k16_f16_f32(float d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_m16n8k16_bf16_f32(float d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_m16n8k32_s8_s32(int32_t d[4], const uint32_t a[4], const uint32_t b[2]);
void mma_m16n8k32_s8_s32_from(int32_t d[4], const uint32_t a[4], const uint32_t b[2],
                              const int32_t c[4]);
void ldmatrix_x4(uint32_t r[4], const void *row);
void ldmatrix_x4_trans(uint32_t r[4], const void *row);
#define WGMMA_THERE 1
void wgmma_order(float *d, const uint32_t *own, uint64_t a, uint64_t b, int n, bool bf16);
uint64_t wgmma_swizzled(const void *at);
uint64_t wgmma_plain(const void *at, uint32_t k_bytes);
void wgmma_fence();
void wgmma_commit();
template <int N> static inline void wgmma_wait() {
    emu_product_wait(N);
}
void wgmma_publish();
template <int N> static inline void registers_more() {
}
template <int N> static inline void registers_fewer() {
}
template <int N, bool BF16>
static inline void wgmma_a(float (&d)[N / 2], const uint32_t (&own)[4], uint64_t b) {
    wgmma_order(d, own, 0, b, N, BF16);
}
template <int N, bool BF16> static inline void wgmma_ab(float (&d)[N / 2], uint64_t a, uint64_t b) {
    wgmma_order(d, NULL, a, b, N, BF16);
}
void cp_async_16(void *to, const void *from, uint32_t n = 16);
void cp_async_commit();
template <int N> static inline void cp_async_wait() {
    emu_copy_wait(N);
}
int32_t dp4a(int32_t c, uint32_t a, uint32_t b);
int32_t dp4a_unsigned(int32_t c, uint32_t a, uint32_t b);
uint4 load_stream_16(const void *from);
uint32_t load_acquire(const uint32_t *from);
void store_release(uint32_t *to, uint32_t value);
uint64_t clock_ns();
void pause_a_moment();
void give_up(const char *why);
static inline void griddep_launch() {
}
static inline void griddep_wait() {
    emu_griddep_wait();
}
float max_nan(float a, float b);
uint32_t half2_sub(uint32_t a, uint32_t b);
uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c);
uint32_t half2_of(float low, float high);
float half_float(uint16_t half);

#endif

} // namespace GPU_NAMESPACE
