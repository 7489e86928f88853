#include "tools/kbench/machine.h"

#include "base/clock.h"
#include "kernels/kernels.h"
#include "tools/kbench/tensor.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define READ_BYTES   (256u << 20) /* of each thread */
#define THREADS_MAX  256
#define COPIES_BYTES (160u << 20)
#define TIMES        15

struct reader {
    const uint64_t *memory;
    uint64_t sum;
    double operations;
    double seconds;
};

static double seconds_since(uint64_t begin) {
    return (double)(clock_now_ns() - begin) * 1e-9;
}

static void *read_memory(void *arg) {
    struct reader *reader = arg;
    reader->seconds = 1e9;
    for (int pass = 0; pass < 4; pass++) {
        uint64_t begin = clock_now_ns();
        uint64_t sums[8] = {0};
        for (size_t i = 0; i < READ_BYTES / 8; i += 8)
            for (int j = 0; j < 8; j++)
                sums[j] += reader->memory[i + (size_t)j];
        for (int j = 0; j < 8; j++)
            reader->sum += sums[j];
        double seconds = seconds_since(begin);
        reader->seconds = seconds < reader->seconds ? seconds : reader->seconds;
    }
    return NULL;
}

#if defined(__x86_64__)
#define ROUNDS 20000000u

__attribute__((target("avx512f,avx512vnni"))) static uint64_t multiply_avx512(void) {
    __m512i sums[12];
    __m512i a = _mm512_set1_epi8(3);
    for (int i = 0; i < 12; i++)
        sums[i] = _mm512_setzero_si512();
    for (uint32_t round = 0; round < ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            __asm__("vpdpbusd %1, %1, %0" : "+v"(sums[i]) : "v"(a));
    }
    for (int i = 1; i < 12; i++)
        sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    return (uint64_t)_mm512_reduce_add_epi32(sums[0]);
}

__attribute__((target("avx2"))) static uint64_t multiply_avx2(void) {
    __m256i sums[12];
    __m256i a = _mm256_set1_epi8(3);
    for (int i = 0; i < 12; i++)
        sums[i] = _mm256_setzero_si256();
    for (uint32_t round = 0; round < ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            __m256i product;
            __asm__("vpmaddubsw %1, %1, %0" : "=x"(product) : "x"(a));
            sums[i] = _mm256_add_epi16(sums[i], product);
        }
    }
    for (int i = 1; i < 12; i++)
        sums[0] = _mm256_add_epi16(sums[0], sums[i]);
    return (uint64_t)_mm256_extract_epi16(sums[0], 0);
}
#endif

static void *multiply(void *arg) {
    struct reader *reader = arg;
    reader->operations = 0.0;
    uint64_t begin = clock_now_ns();
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vnni")) {
        reader->sum += multiply_avx512();
        reader->operations = 12.0 * 64.0 * ROUNDS;
    } else if (__builtin_cpu_supports("avx2")) {
        reader->sum += multiply_avx2();
        reader->operations = 12.0 * 32.0 * ROUNDS;
    }
#endif
    reader->seconds = seconds_since(begin);
    return NULL;
}

static void run_all(uint32_t n, struct reader *readers, void *(*function)(void *)) {
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;
    for (; started < n; started++)
        if (pthread_create(&threads[started], NULL, function, &readers[started]) != 0)
            abort();
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

struct machine machine_measure(uint32_t n_threads) {
    cpu_set_t cores;
    if (n_threads == 0 && sched_getaffinity(0, sizeof cores, &cores) == 0)
        n_threads = (uint32_t)CPU_COUNT(&cores);
    n_threads = n_threads < 1 ? 1 : (n_threads > THREADS_MAX ? THREADS_MAX : n_threads);
    struct reader *readers = calloc(n_threads, sizeof *readers);
    uint64_t *memory = malloc((size_t)n_threads * READ_BYTES);
    if (!readers || !memory)
        abort();
    memset(memory, 1, (size_t)n_threads * READ_BYTES);
    struct machine machine = {.n_threads = n_threads};
    for (uint32_t i = 0; i < n_threads; i++)
        readers[i].memory = memory + (size_t)i * READ_BYTES / 8;
    run_all(n_threads, readers, read_memory);
    for (uint32_t i = 0; i < n_threads; i++)
        machine.read_gb_s += READ_BYTES / readers[i].seconds * 1e-9;
    run_all(n_threads, readers, multiply);
    for (uint32_t i = 0; i < n_threads; i++)
        machine.int8_gmac_s += readers[i].operations / readers[i].seconds * 1e-9;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n_threads; i++)
        sum += readers[i].sum;
    if (sum == 1) /* never: keeps the loops alive */
        puts("");
    free(readers);
    free(memory);
    return machine;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_copies(const struct kernels *kernels, struct kernels_ctx *ctx,
                          const struct weight *weight, size_t size, uint32_t m) {
    size_t n_copies = COPIES_BYTES / size + 1;
    char *copies = kernels->alloc(ctx, n_copies * size);
    float *x = kernels->alloc(ctx, (size_t)m * weight->k * sizeof *x);
    float *out = kernels->alloc(ctx, (size_t)m * weight->n * sizeof *out);
    if (!copies || !x || !out)
        abort();
    for (size_t i = 0; i < n_copies; i++)
        memcpy(copies + i * size, weight->data, size);
    for (size_t i = 0; i < (size_t)m * weight->k; i++)
        x[i] = (float)(i % 17) - 8.0f;
    double seconds[TIMES];
    size_t n_calls = 1 + (size_t)(2e8 / ((double)weight->n * weight->k * m));
    size_t next = 0;
    for (int i = 0; i < TIMES; i++) {
        uint64_t begin = clock_now_ns();
        for (size_t call = 0; call < n_calls; call++) {
            struct weight copy = *weight;
            copy.data = copies + next++ % n_copies * size;
            kernels->linear(ctx, out, copy.n, x, &copy, m, EPILOGUE_NONE);
        }
        seconds[i] = seconds_since(begin) / (double)n_calls;
    }
    kernels->dealloc(ctx, copies, n_copies * size);
    kernels->dealloc(ctx, x, (size_t)m * weight->k * sizeof *x);
    kernels->dealloc(ctx, out, (size_t)m * weight->n * sizeof *out);
    qsort(seconds, TIMES, sizeof *seconds, by_value);
    return seconds[TIMES / 2];
}

bool machine_time_gemm(const char *backend, const char *isa, uint32_t n_threads, const char *format,
                       uint32_t n, uint32_t k, uint32_t m, struct gemm_figures *figures) {
    const struct kernels *kernels = kernels_find(backend);
    struct kernels_options options = {.n_threads = n_threads,
                                      .isa = isa,
                                      .limits = {.max_tokens = m,
                                                 .max_seqs = m,
                                                 .max_context = 16,
                                                 .max_dim = k,
                                                 .n_vocab = 16,
                                                 .n_heads = 1,
                                                 .n_kv_heads = 1,
                                                 .head_dim = 16}};
    struct kernels_ctx *ctx;
    struct error error = {0};
    if (kernels->open(&options, &ctx, &error) != STATUS_OK) {
        fprintf(stderr, "kbench: %s\n", error.text);
        return false;
    }
    struct weight_tensor tensor = tensor_random(format, n, k);
    size_t size;
    struct weight weight = tensor_pack(kernels, ctx, &tensor, &size);
    tensor_free(&tensor);
    figures->seconds = time_copies(kernels, ctx, &weight, size, m);
    figures->bytes = (double)size;
    kernels->dealloc(ctx, (void *)(uintptr_t)weight.data, size);
    kernels->close(ctx);
    return true;
}
