#include "tools/kbench/machine.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cores.h"
#include "tools/kbench/tensor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define READ_BYTES   (128u << 20) /* of each thread and pass: far more than the caches */
#define HUGE_PAGE    (2u << 20)
#define THREADS_MAX  256
#define COPIES_BYTES (160u << 20)
#define TIMES        15
#define PASSES       4 /* of all threads together; the quickest counts */

/* One limit of the machine, measured by all threads at once. */
struct probe {
    uint64_t (*run)(const struct probe *probe, uint32_t thread);
    double amount; /* what one run() of one thread does: bytes, or products */
    const uint8_t *memory;
    uint32_t n_threads;
    pthread_barrier_t barrier;
    uint64_t sum; /* under `mutex`: keeps the loops alive */
    pthread_mutex_t mutex;
};

struct prober {
    struct probe *probe;
    uint32_t index;
};

static double kbench_seconds_since(uint64_t begin) {
    return (double)(clock_now_ns() - begin) * 1e-9;
}

static uint64_t kbench_read_plain(const struct probe *probe, uint32_t thread) {
    const uint8_t *begin = probe->memory + (size_t)thread * READ_BYTES;
    uint64_t sums[8] = {0};
    for (size_t at = 0; at < READ_BYTES; at += sizeof sums) {
        uint64_t words[8];
        memcpy(words, begin + at, sizeof words);
        for (int i = 0; i < 8; i++)
            sums[i] ^= words[i];
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

#if defined(__x86_64__)
#define ROUNDS 4000000u
#define STREAMS                                                                                    \
    4 /* places that a thread reads from in turn: as many as keep its prefetchers busy */

__attribute__((target("avx2"))) static uint64_t kbench_read_avx2(const struct probe *probe,
                                                                 uint32_t thread) {
    enum { PART = READ_BYTES / STREAMS };
    const uint8_t *begin = probe->memory + (size_t)thread * READ_BYTES;
    __m256i sums[2 * STREAMS];
    for (int i = 0; i < 2 * STREAMS; i++)
        sums[i] = _mm256_setzero_si256();
    for (size_t at = 0; at < PART; at += 64) {
#pragma GCC unroll 4
        for (int i = 0; i < STREAMS; i++) {
            const __m256i *from = (const __m256i *)(begin + (size_t)i * PART + at);
            sums[2 * i] = _mm256_xor_si256(sums[2 * i], _mm256_load_si256(from));
            sums[2 * i + 1] = _mm256_xor_si256(sums[2 * i + 1], _mm256_load_si256(from + 1));
        }
    }
    for (int i = 1; i < 2 * STREAMS; i++)
        sums[0] = _mm256_xor_si256(sums[0], sums[i]);
    return (uint64_t)_mm256_extract_epi64(sums[0], 0);
}

__attribute__((target("avx512f,avx512vnni"))) static uint64_t
kbench_multiply_avx512(const struct probe *probe, uint32_t thread) {
    (void)probe, (void)thread;
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

/* The product alone: kernels add several of them before they widen the sums. */
__attribute__((target("avx2"))) static uint64_t kbench_multiply_avx2(const struct probe *probe,
                                                                     uint32_t thread) {
    (void)probe, (void)thread;
    __m256i a = _mm256_set1_epi8(3);
    __m256i products[12];
    for (uint32_t round = 0; round < ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            __asm__ volatile("vpmaddubsw %1, %1, %0" : "=x"(products[i]) : "x"(a));
    }
    return (uint64_t)_mm256_extract_epi16(products[11], 0);
}
#endif

static void *kbench_probe_thread(void *arg) {
    struct prober *prober = arg;
    struct probe *probe = prober->probe;
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(&probe->barrier);
        uint64_t sum = probe->run(probe, prober->index);
        pthread_mutex_lock(&probe->mutex);
        probe->sum += sum;
        pthread_mutex_unlock(&probe->mutex);
        pthread_barrier_wait(&probe->barrier);
    }
    return NULL;
}

/* The most that all threads did together in one second, by the quickest pass from the moment that
 * all begin to the moment that the last ends. */
static double kbench_probe_run(struct probe *probe) {
    pthread_t threads[THREADS_MAX];
    struct prober probers[THREADS_MAX];
    double best = 0.0;
    pthread_mutex_init(&probe->mutex, NULL);
    pthread_barrier_init(&probe->barrier, NULL, probe->n_threads + 1);
    for (uint32_t i = 0; i < probe->n_threads; i++) {
        probers[i] = (struct prober){probe, i};
        if (pthread_create(&threads[i], NULL, kbench_probe_thread, &probers[i]) != 0)
            abort();
    }
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t begin = clock_now_ns(); /* they may begin a little later: never too high */
        pthread_barrier_wait(&probe->barrier);
        pthread_barrier_wait(&probe->barrier);
        double rate = probe->amount * probe->n_threads / kbench_seconds_since(begin);
        best = rate > best ? rate : best;
    }
    for (uint32_t i = 0; i < probe->n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&probe->barrier);
    pthread_mutex_destroy(&probe->mutex);
    if (probe->sum == 1) /* hardly: keeps the loops alive */
        puts("");
    return best;
}

static void kbench_keep_best(double *figure, double value) {
    *figure = value > *figure ? value : *figure;
}

static void kbench_measure_read(struct machine *machine) {
    struct probe probe = {.memory = machine->memory,
                          .n_threads = machine->n_threads,
                          .amount = READ_BYTES,
                          .run = kbench_read_plain};
    kbench_keep_best(&machine->read_gb_s, kbench_probe_run(&probe) * 1e-9);
#if defined(__x86_64__)
    probe.run = kbench_read_avx2;
    if (__builtin_cpu_supports("avx2"))
        kbench_keep_best(&machine->read_gb_s, kbench_probe_run(&probe) * 1e-9);
#endif
}

static void kbench_measure_products(struct machine *machine) {
#if defined(__x86_64__)
    struct probe probe = {.n_threads = machine->n_threads};
    bool any = !machine->isa;
    if (__builtin_cpu_supports("avx512vnni") && (any || strcmp(machine->isa, "avx512") == 0)) {
        probe.run = kbench_multiply_avx512;
        probe.amount = 12.0 * 64.0 * ROUNDS;
    } else if (__builtin_cpu_supports("avx2") && (any || strcmp(machine->isa, "avx2") == 0)) {
        probe.run = kbench_multiply_avx2;
        probe.amount = 12.0 * 32.0 * ROUNDS;
    }
    if (probe.run)
        kbench_keep_best(&machine->int8_gmac_s, kbench_probe_run(&probe) * 1e-9);
#else
    (void)machine;
#endif
}

void machine_measure(struct machine *machine) {
    kbench_measure_read(machine);
    kbench_measure_products(machine);
}

void machine_init(struct machine *machine, uint32_t n_threads, const char *isa) {
    if (n_threads == 0)
        n_threads = cores_usable();
    n_threads = n_threads > THREADS_MAX ? THREADS_MAX : n_threads;
    *machine = (struct machine){.n_threads = n_threads, .isa = isa};
    machine->memory_bytes = (size_t)n_threads * READ_BYTES;
    /* Large pages where the system gives them, as the weights have. */
    machine->memory = aligned_alloc(HUGE_PAGE, machine->memory_bytes);
    if (!machine->memory)
        abort();
    madvise(machine->memory, machine->memory_bytes, MADV_HUGEPAGE);
    memset(machine->memory, 1, machine->memory_bytes);
    machine_measure(machine);
}

void machine_fini(struct machine *machine) {
    free(machine->memory);
    machine->memory = NULL;
}

static int kbench_by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double machine_median(double *values, size_t n) {
    qsort(values, n, sizeof *values, kbench_by_value);
    return values[n / 2];
}

static double kbench_time_copies(const struct kernels *kernels, struct kernels_ctx *ctx,
                                 const struct weight *weight, size_t size, uint32_t m) {
    size_t n_copies = COPIES_BYTES / size + 1;
    ASSERT(n_copies > 0);
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
        seconds[i] = kbench_seconds_since(begin) / (double)n_calls;
    }
    kernels->dealloc(ctx, copies, n_copies * size);
    kernels->dealloc(ctx, x, (size_t)m * weight->k * sizeof *x);
    kernels->dealloc(ctx, out, (size_t)m * weight->n * sizeof *out);
    return machine_median(seconds, TIMES);
}

struct kernels_ctx *subject_open(const struct subject *subject,
                                 const struct kernels_limits *limits) {
    struct kernels_options wanted = {
        .n_threads = subject->n_threads, .isa = subject->isa, .limits = *limits};
    struct kernels_ctx *ctx;
    struct error error = {0};
    if (subject->kernels->open(&wanted, &ctx, &error) == STATUS_OK)
        return ctx;
    fprintf(stderr, "kbench: %s\n", error.text);
    return NULL;
}

bool machine_time_gemm(const struct subject *subject, const char *format, uint32_t n, uint32_t k,
                       uint32_t m, struct gemm_figures *figures) {
    const struct kernels *kernels = subject->kernels;
    const struct kernels_limits limits = {.max_tokens = m,
                                          .max_seqs = m,
                                          .max_context = 16,
                                          .max_dim = k,
                                          .n_vocab = 16,
                                          .n_heads = 1,
                                          .n_kv_heads = 1,
                                          .head_dim = 16,
                                          .kv_format = KV_F16};
    struct kernels_ctx *ctx = subject_open(subject, &limits);
    if (!ctx)
        return false;
    struct weight_tensor tensor = tensor_random(format, n, k);
    size_t size;
    struct weight weight = tensor_pack(kernels, ctx, &tensor, &size);
    tensor_free(&tensor);
    figures->seconds = kbench_time_copies(kernels, ctx, &weight, size, m);
    figures->bytes = (double)size;
    kernels->dealloc(ctx, (void *)(uintptr_t)weight.data, size);
    kernels->close(ctx);
    return true;
}
