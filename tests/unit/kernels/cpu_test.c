/* What is particular to the cpu backend: its threads, its memory, what it refuses. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/path.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/limits.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern const struct kernels kernels_cpu;

const char *const suite_name = "kernels_cpu";
const double suite_timeout_s = 120;

static const struct kernels_limits limits = {.max_tokens = 4,
                                             .max_seqs = 4,
                                             .max_context = 16,
                                             .max_dim = 64,
                                             .n_vocab = 64,
                                             .n_heads = 2,
                                             .n_kv_heads = 1,
                                             .head_dim = 16,
                                             .kv_format = KV_F16};

#define ITEMS 97

struct counts {
    _Atomic uint32_t done[ITEMS];
    _Atomic uint32_t threads_above;
    uint32_t n_threads;
};

static void count_item(void *arg, uint32_t item, uint32_t thread) {
    struct counts *counts = arg;
    atomic_fetch_add(&counts->done[item], 1);
    if (thread >= counts->n_threads)
        atomic_fetch_add(&counts->threads_above, 1);
}

/* More threads than cores, jobs of all lengths back to back. */
static void run_jobs(uint32_t n_threads, uint32_t n_jobs) {
    struct error error;
    struct thread_pool *pool;
    struct counts counts = {.n_threads = n_threads};
    uint32_t expected[ITEMS] = {0};
    ck_assert_int_eq(thread_pool_new(n_threads, &pool, &error), STATUS_OK);
    for (uint32_t job = 0; job < n_jobs; job++) {
        uint32_t n = job % (ITEMS + 1);
        thread_pool_run(pool, n, count_item, &counts);
        for (uint32_t i = 0; i < n; i++)
            expected[i]++;
        ck_assert_uint_eq(atomic_load(&counts.done[job % ITEMS]), expected[job % ITEMS]);
    }
    thread_pool_free(pool);
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(atomic_load(&counts.done[i]), expected[i]);
    ck_assert_uint_eq(atomic_load(&counts.threads_above), 0);
}

START_TEST(every_item_is_done_once_before_run_returns) {
    static const uint32_t n_threads[] = {1, 2, 3, 8};
    run_jobs(n_threads[_i], 3000);
}
END_TEST

static void *run_jobs_of_a_neighbour(void *arg) {
    (void)arg;
    run_jobs(3, 2000);
    return NULL;
}

START_TEST(thread_pools_do_not_disturb_each_other) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_jobs_of_a_neighbour, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(a_thread_pool_that_never_worked_ends) {
    struct error error;
    struct thread_pool *pool;
    ck_assert_int_eq(thread_pool_new(5, &pool, &error), STATUS_OK);
    thread_pool_free(pool);
    thread_pool_free(NULL);
}
END_TEST

START_TEST(impossible_options_are_refused) {
    struct kernels_ctx *ctx = NULL;
    struct error error;
    struct kernels_options options = {.n_threads = 1, .isa = "avx9000", .limits = limits};
    ck_assert_int_eq(kernels_cpu.open(&options, &ctx, &error), STATUS_UNSUPPORTED);
    options.isa = NULL;
    options.n_threads = 100000;
    ck_assert_int_eq(kernels_cpu.open(&options, &ctx, &error), STATUS_INVALID);
    options.n_threads = 1;
    static const uint32_t heads[] = {0, 1, 6, 9, 21, 255, 257, 258};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        options.limits.head_dim = heads[i];
        bool is_bounded = heads[i] > 0 && heads[i] <= HEAD_DIM_MAX;
        ck_assert_int_eq(kernels_cpu.open(&options, &ctx, &error),
                         is_bounded ? STATUS_UNSUPPORTED : STATUS_INVALID);
        ck_assert_ptr_nonnull(strstr(error.text, "head_dim is"));
    }
    options.limits = limits;
    options.limits.n_heads = 3;
    options.limits.n_kv_heads = 2;
    ck_assert_int_eq(kernels_cpu.open(&options, &ctx, &error), STATUS_INVALID);
    ck_assert_ptr_null(ctx);
    kernels_cpu.close(NULL);
}
END_TEST

START_TEST(all_paths_claim_the_numbers_of_the_reference) {
    struct subject ref = subject_ref(&limits);
    struct subject subject;
    uint32_t n = 0;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); n++) {
        if (subject.kernels == &kernels_cpu)
            ck_assert_str_eq(subject.kernels->numerics(subject.ctx),
                             ref.kernels->numerics(ref.ctx));
        subject_close(&subject);
    }
    ck_assert_uint_ge(n, 4); /* the reference, and scalar with 1, 2, 3 threads */
    ck_assert_ptr_eq(path_find("scalar"), &path_scalar);
    for (const struct path *const *path = path_available(); *path; path++) {
        bool is_listed = false;
        for (uint32_t i = 0; kernels_cpu.isas[i]; i++)
            is_listed = is_listed || strcmp(kernels_cpu.isas[i], (*path)->name) == 0;
        ck_assert_msg(is_listed, "%s is not among the cpu backend's isas", (*path)->name);
    }
    ck_assert_ptr_eq(kernels_find("cpu"), &kernels_cpu);
    ck_assert_ptr_eq(kernels_find("cpu:exact"), &kernels_cpu);
    ck_assert_ptr_null(kernels_find("cpu:fast"));
    ck_assert_ptr_null(kernels_find("cp"));
    ck_assert_ptr_null(kernels_find("cpus"));
    ck_assert_ptr_null(kernels_find(""));
    ck_assert_ptr_null(kernels_find("gpu"));
    subject_close(&ref);
}
END_TEST

START_TEST(memory_is_aligned_and_zero) {
    static const size_t sizes[] = {1, 4095, 100000, (2u << 20) - 1, 2u << 20, (5u << 20) + 3};
    unsigned char *bytes = malloc((5u << 20) + 3);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            unsigned char *memory = subject.kernels->alloc(subject.ctx, sizes[j]);
            ck_assert_ptr_nonnull(memory);
            ck_assert_uint_eq((uintptr_t)memory % 64, 0);
            memset(bytes, 1, sizes[j]);
            subject_read(&subject, bytes, memory, sizes[j]);
            size_t n_zero = 0;
            for (size_t at = 0; at < sizes[j]; at++)
                n_zero += bytes[at] == 0;
            ck_assert_uint_eq(n_zero, sizes[j]);
            memset(bytes, 1, sizes[j]);
            subject_write(&subject, memory, bytes, sizes[j]);
            subject.kernels->dealloc(subject.ctx, memory, sizes[j]);
        }
        ck_assert_ptr_null(subject.kernels->alloc(subject.ctx, SIZE_MAX - 5));
        subject.kernels->dealloc(subject.ctx, NULL, 5);
        subject_close(&subject);
    }
    free(bytes);
}
END_TEST

/* A broken row must be seen as broken, and must not touch its neighbours. */
START_TEST(nan_in_one_row_stays_there_and_is_reported) {
    struct random random = {12};
    struct weight_tensor tensor = random_tensor(&random, "q4_1", 64, 64);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float x[3 * 64];
        size_t packed;
        struct weight weight = subject_pack_tensor(&subject, &tensor, &packed);
        fill_random(&random, x, 3 * 64);
        x[64 + 40] = NAN;
        float *logits = subject_floats(&subject, NULL, 3 * 64);
        subject.kernels->linear(subject.ctx, logits, 64, subject_floats(&subject, x, 3 * 64),
                                &weight, 3, EPILOGUE_NONE);
        struct sample_params params[3];
        struct sample_result results[3];
        for (int r = 0; r < 3; r++)
            params[r] =
                (struct sample_params){.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f};
        subject.kernels->sample(subject.ctx, logits, 3, 64, params, results);
        ck_assert(results[0].valid && !results[1].valid && results[2].valid);
        subject_unpack(&subject, &weight, packed);
        subject_close(&subject);
    }
    tensor_free(&tensor);
}
END_TEST

/* What lies on the stack when a product begins. */
__attribute__((noinline)) static void leave_behind(int byte) {
    volatile unsigned char stack[32768];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = (unsigned char)byte;
}

enum { WIDTH = 64 };

/* y = x W^T of rows one after the other, by the reference. */
static void multiply_plainly(const struct weight_source *source, const float *x, uint32_t n_rows,
                             float *y) {
    const struct kernels *ref = kernels_find("ref");
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct kernels_ctx *ctx;
    struct weight weight;
    struct error error;
    ck_assert_int_eq(ref->open(&options, &ctx, &error), STATUS_OK);
    size_t n_bytes = ref->weight_size(source, &error);
    void *memory = ref->alloc(ctx, n_bytes);
    ck_assert_int_eq(ref->weight_pack(ctx, source, memory, &weight, &error), STATUS_OK);
    for (uint32_t row = 0; row < n_rows; row++)
        ref->linear(ctx, y + row * WIDTH, WIDTH, x + row * WIDTH, &weight, 1, EPILOGUE_NONE);
    ref->dealloc(ctx, memory, n_bytes);
    ref->close(ctx);
}

/* More rows than their activations have room for at once, each piece behind the other: behind that room nothing can be written. */
START_TEST(a_product_of_many_rows_stays_within_its_room) {
    static float matrix[WIDTH * WIDTH], x[(2 * LINEAR_ROWS_MIN + 3) * WIDTH],
        y[(2 * LINEAR_ROWS_MIN + 3) * WIDTH], plain[(2 * LINEAR_ROWS_MIN + 3) * WIDTH];
    static uint16_t halves[WIDTH * WIDTH];
    const uint32_t n_rows = 2 * LINEAR_ROWS_MIN + 3;
    for (uint32_t i = 0; i < n_rows * WIDTH; i++)
        x[i] = (float)(i % 37) - 18;
    for (uint32_t i = 0; i < WIDTH * WIDTH; i++) {
        matrix[i] = (float)(i % 11) - 5;
        uint32_t bits;
        memcpy(&bits, &matrix[i], sizeof bits);
        halves[i] = (uint16_t)(bits >> 16); /* small whole numbers are exact */
    }
    struct weight_tensor tensor = {
        .format = "bf16", .n = WIDTH, .k = WIDTH, .values = halves, .n_value_bytes = sizeof halves};
    struct weight_part part = {.tensor = &tensor, .n_rows = WIDTH, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = WIDTH};
    struct kernels_options options = {.n_threads = 2, .limits = limits};
    struct kernels_ctx *ctx;
    struct weight weight;
    struct error error;
    ck_assert_int_eq(kernels_cpu.open(&options, &ctx, &error), STATUS_OK);
    ck_assert_uint_eq(ctx->tiles_rows, LINEAR_ROWS_MIN);
    size_t n_bytes = kernels_cpu.weight_size(&source, &error);
    void *memory = kernels_cpu.alloc(ctx, n_bytes);
    ck_assert_int_eq(kernels_cpu.weight_pack(ctx, &source, memory, &weight, &error), STATUS_OK);
    /* The room, with a page behind it that nobody may touch. */
    size_t n_room = (size_t)ctx->tiles_rows * ctx->max_stored * sizeof(float);
    ck_assert_uint_eq(n_room % 4096, 0);
    unsigned char *room =
        mmap(NULL, n_room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(room, MAP_FAILED);
    ck_assert_int_eq(mprotect(room + n_room, 4096, PROT_NONE), 0);
    uint8_t *own = ctx->tiles;
    ctx->tiles = room;
    leave_behind(0xff);
    kernels_cpu.linear(ctx, y, WIDTH, x, &weight, n_rows, EPILOGUE_NONE);
    ctx->tiles = own;
    munmap(room, n_room + 4096);
    multiply_plainly(&source, x, n_rows, plain);
    ck_assert_mem_eq(y, plain, sizeof y);
    kernels_cpu.dealloc(ctx, memory, n_bytes);
    kernels_cpu.close(ctx);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, every_item_is_done_once_before_run_returns, 0, 4);
    tcase_add_test(tests, thread_pools_do_not_disturb_each_other);
    tcase_add_test(tests, a_thread_pool_that_never_worked_ends);
    tcase_add_test(tests, impossible_options_are_refused);
    tcase_add_test(tests, all_paths_claim_the_numbers_of_the_reference);
    tcase_add_test(tests, memory_is_aligned_and_zero);
    tcase_add_test(tests, a_product_of_many_rows_stays_within_its_room);
    tcase_add_test(tests, nan_in_one_row_stays_there_and_is_reported);
}
