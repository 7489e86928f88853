/* Steps of fast numerics that decode, on the emulated device: a graph for each number of rows that steps are filled up to, made
 * when it is rehearsed, and none later, however far the sequences grow. Heads that have no kernels for it take graphs by context. */
#include "kernels/cuda/context.h"
#include "kernels/half.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_spans";
const double suite_timeout_s = 300;

enum { SEQS = 256, CONTEXT = 8192, WINDOW = 20, BLOCKS = CONTEXT / KV_BLOCK_TOKENS };

static const struct device_kind *real;
static uint32_t n_made, n_launched;

static struct device_graph *end_counted(struct device_stream *stream) {
    n_made++;
    return real->graph_end(stream);
}

static void launch_counted(struct device_graph *graph, struct device_stream *stream) {
    n_launched++;
    real->graph_launch(graph, stream);
}

static struct subject open_subject(const struct kernels_limits *limits, bool no_graphs) {
    static struct device_kind counted;
    struct subject subject = {.kernels = kernels_find("cuda-emu:fast"), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .no_graphs = no_graphs, .limits = *limits};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    real = subject.ctx->kind;
    counted = *real;
    counted.graph_end = end_counted;
    counted.graph_launch = launch_counted;
    subject.ctx->kind = &counted;
    n_made = n_launched = 0;
    return subject;
}

/* Attention of n sequences with one token each at `position`, whose blocks are those of the first window of all. */
static void attend(const struct subject *subject, const struct kernels_kv *kv, uint32_t n,
                   uint32_t position, float *qkv, float *out) {
    static uint32_t ids[SEQS], positions[SEQS], seq_begin[SEQS + 1], tables[SEQS * BLOCKS];
    uint32_t stride = position / KV_BLOCK_TOKENS + 1;
    for (uint32_t i = 0; i < n; i++) {
        positions[i] = position;
        seq_begin[i + 1] = i + 1;
        for (uint32_t b = 0; b < stride; b++) {
            bool is_seen = (b + 1) * KV_BLOCK_TOKENS + WINDOW > position + 1;
            tables[i * stride + b] = is_seen ? b % 3 : UINT32_MAX;
        }
    }
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = n,
                                  .ids = ids,
                                  .positions = positions,
                                  .seq_begin = seq_begin,
                                  .block_tables = tables,
                                  .block_table_stride = stride};
    struct kernels_step step = subject_begin(subject, &batch, ids, n);
    subject->kernels->attend(subject->ctx, out, qkv, &step.batch, kv, 0.3f, NULL, WINDOW);
    subject_end(subject);
}

struct arrays {
    struct kernels_kv kv;
    float *qkv;
    float *out;
};

static struct arrays place(struct subject *subject, uint32_t dim, enum kv_format format,
                           uint32_t n) {
    size_t n_numbers = (size_t)3 * 2 * dim * KV_BLOCK_TOKENS; /* of three blocks */
    size_t block_bytes = n_numbers / 3 * kv_format_bytes(format);
    struct random random = {dim};
    float *qkv = malloc((size_t)n * 4 * dim * sizeof *qkv);
    void *cache = malloc(3 * block_bytes);
    for (size_t i = 0; i < n_numbers; i++) {
        uint16_t half = (uint16_t)(0x3000 + random_below(&random, 0xc00)); /* 1/8 to 1 */
        if (format == KV_F32)
            ((float *)cache)[i] = half_to_float(half);
        else
            ((uint16_t *)cache)[i] = half;
    }
    fill_random(&random, qkv, (size_t)n * 4 * dim);
    struct arrays arrays = {
        .kv = {subject_bytes(subject, cache, 3 * block_bytes), block_bytes, 1, dim, format},
        .qkv = subject_floats(subject, qkv, (size_t)n * 4 * dim),
        .out = subject_floats(subject, NULL, (size_t)n * 2 * dim)};
    free(qkv);
    free(cache);
    return arrays;
}

/* A graph for each number of rows that steps are filled up to; answers how many. */
static uint32_t rehearse(const struct subject *subject, const struct arrays *arrays) {
    uint32_t n_shapes = 0;
    for (uint32_t n = 1; n <= SEQS; n++, n_shapes++) {
        n = subject->kernels->rehearse(subject->ctx, n);
        ck_assert(n > 0 && n <= SEQS);
        attend(subject, &arrays->kv, n, 0, arrays->qkv, arrays->out);
        ck_assert_uint_eq(n_made, n_shapes + 1);
    }
    return n_shapes;
}

START_TEST(no_graph_is_made_while_sequences_grow) {
    const struct kernels_limits limits = {SEQS, SEQS, CONTEXT, 64, 64, 2, 1, 64, KV_F16};
    static const uint32_t rows[] = {1, 3, 8, 41, SEQS};
    enum { N_ROWS = sizeof rows / sizeof *rows };
    struct subject subject = open_subject(&limits, false);
    struct arrays arrays = place(&subject, 64, KV_F16, SEQS);
    ck_assert_uint_eq(rehearse(&subject, &arrays), 23);
    ck_assert_uint_eq(n_launched, 0);
    n_made = 0;
    uint32_t n = 0;
    for (uint32_t position = 0; position < CONTEXT; position += 273, n++)
        attend(&subject, &arrays.kv, rows[n % N_ROWS], position, arrays.qkv, arrays.out);
    attend(&subject, &arrays.kv, SEQS, CONTEXT - 1, arrays.qkv, arrays.out);
    ck_assert_uint_eq(n_made, 0);
    ck_assert_uint_eq(n_launched, n + 1);
    subject_close(&subject);
}
END_TEST

/* Of heads that go by the exact kernels, whose shapes depend on the context; and where there are no graphs. */
START_TEST(steps_without_graphs_of_rows_are_not_rehearsed) {
    const struct kernels_limits exact = {4, 4, CONTEXT, 64, 64, 2, 1, 72, KV_F16};
    const struct kernels_limits fast = {4, 4, CONTEXT, 64, 64, 2, 1, 64, KV_F16};
    struct subject subject = open_subject(_i ? &fast : &exact, _i);
    ck_assert_uint_eq(subject.kernels->rehearse(subject.ctx, 4), 0);
    subject_close(&subject);
}
END_TEST

/* The first by spans; heads of 72 and keys of 32 bits by the exact kernels. */
static const struct {
    uint32_t dim;
    enum kv_format format;
} kinds[] = {{64, KV_F16}, {72, KV_F16}, {64, KV_F32}};

START_TEST(graphs_have_the_bits_of_launches_at_every_length) {
    enum { N = 3 };
    static const uint32_t positions[] = {0, 17, 255, 256, 300, 511, 512, 2047, 2048, 8191};
    uint32_t dim = kinds[_i].dim;
    enum kv_format format = kinds[_i].format;
    const struct kernels_limits limits = {N, N, CONTEXT, 64, 64, 2, 1, dim, format};
    float out[2][N * 2 * 72];
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        struct subject subject = open_subject(&limits, false);
        struct arrays arrays = place(&subject, dim, format, N);
        for (uint32_t time = 0; time < 4; time++)
            attend(&subject, &arrays.kv, N, positions[i], arrays.qkv, arrays.out);
        ck_assert_uint_eq(n_made, 1);
        subject_read(&subject, out[0], arrays.out, sizeof(float) * N * 2 * dim);
        subject_close(&subject);
        subject = open_subject(&limits, true);
        arrays = place(&subject, dim, format, N);
        attend(&subject, &arrays.kv, N, positions[i], arrays.qkv, arrays.out);
        ck_assert_uint_eq(n_made, 0);
        subject_read(&subject, out[1], arrays.out, sizeof(float) * N * 2 * dim);
        subject_close(&subject);
        ck_assert_mem_eq(out[0], out[1], sizeof(float) * N * 2 * dim);
    }
}
END_TEST

static const struct gpu_launches *launches;
static uint32_t n_attends, n_joins; /* launches */
static bool computes;

static void attend_counted(struct device_stream *stream, const struct gpu_attend *what) {
    n_attends++;
    if (computes)
        launches->attend_tensor(stream, what);
}

static void join_counted(struct device_stream *stream, const struct gpu_attend *what) {
    n_joins++;
    if (computes)
        launches->join_spans(stream, what);
}

static void count_launches(struct subject *subject, bool also_computes) {
    static struct gpu_launches counted;
    launches = subject->ctx->gpu;
    counted = *launches;
    counted.attend_tensor = attend_counted;
    counted.join_spans = join_counted;
    subject->ctx->gpu = &counted;
    n_attends = n_joins = 0;
    computes = also_computes;
}

/* Heads as Qwen-72B with grouped keys has them: 512 spans of one sequence, and room for those of 17. */
START_TEST(a_long_context_costs_short_sequences_no_launch) {
    enum { DIM = 128, LONG = 131072 };
    const struct kernels_limits limits = {SEQS, SEQS, LONG, 64, 64, 64, 8, DIM, KV_F16};
    struct subject subject = open_subject(&limits, true);
    struct kernels_kv kv = {NULL, (size_t)2 * 8 * DIM * KV_BLOCK_TOKENS * 2, 8, DIM, KV_F16};
    float *none = subject_floats(&subject, NULL, 1); /* nothing is computed */
    ck_assert_uint_lt(subject.ctx->attend_floats / 64 / (DIM + 2) / (LONG / GPU_SPAN), 18);
    count_launches(&subject, false);
    attend(&subject, &kv, SEQS, 500, none, none);
    ck_assert_uint_eq(n_attends, 1);
    ck_assert_uint_eq(n_joins, 1);
    subject_close(&subject);
}
END_TEST

/* Two tiles a sequence, of 16 queries and of 4, each with as many spans as the position has. */
START_TEST(spans_that_there_is_no_room_for_come_in_another_wave) {
    enum { N = 3, GROUP = 20, DIM = 64, POSITION = 700, SPANS = POSITION / GPU_SPAN + 1 };
    const struct kernels_limits limits = {N, N, CONTEXT, 64, 64, GROUP, 1, DIM, KV_F16};
    const uint32_t rooms[] = {2 * N * SPANS, 2 * N * SPANS - 1, 2 * SPANS, SPANS};
    float whole[N * GROUP * DIM], out[N * GROUP * DIM];
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        uint32_t together = rooms[i] / SPANS, n_waves = (2 * N + together - 1) / together;
        struct subject subject = open_subject(&limits, false);
        struct arrays arrays = place(&subject, DIM, KV_F16, N * GROUP);
        size_t n_floats = (size_t)rooms[i] * GPU_SPLIT_QUERIES * (DIM + 2);
        ck_assert_uint_le(n_floats, subject.ctx->attend_floats);
        subject.ctx->attend_floats = n_floats;
        count_launches(&subject, true);
        for (uint32_t time = 0; time < 3; time++)
            attend(&subject, &arrays.kv, N, POSITION, arrays.qkv, arrays.out);
        ck_assert_uint_eq(n_made, n_waves == 1); /* its launches would depend on positions */
        ck_assert_uint_eq(n_attends, n_waves * (n_waves == 1 ? 2 : 3));
        ck_assert_uint_eq(n_joins, n_attends);
        subject_read(&subject, i == 0 ? whole : out, arrays.out, sizeof out);
        ck_assert(i == 0 || memcmp(out, whole, sizeof out) == 0);
        subject_close(&subject);
    }
}
END_TEST

START_TEST(less_room_than_the_spans_of_a_tile_ends_the_process) {
    const struct kernels_limits limits = {1, 1, CONTEXT, 64, 64, 2, 1, 64, KV_F16};
    struct subject subject = open_subject(&limits, false);
    struct arrays arrays = place(&subject, 64, KV_F16, 1);
    subject.ctx->attend_floats = (size_t)2 * 2 * (64 + 2);
    attend(&subject, &arrays.kv, 1, 2 * GPU_SPAN - 1, arrays.qkv, arrays.out);
    attend(&subject, &arrays.kv, 1, 2 * GPU_SPAN, arrays.qkv, arrays.out);
}
END_TEST

/* A step's shape follows from what the context was opened for. */
START_TEST(keys_of_another_format_end_the_process) {
    const struct kernels_limits limits = {1, 1, CONTEXT, 64, 64, 2, 1, 64, kinds[_i].format};
    struct subject subject = open_subject(&limits, false);
    struct arrays other = place(&subject, 64, kinds[2 - _i].format, 1);
    attend(&subject, &other.kv, 1, 0, other.qkv, other.out);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, no_graph_is_made_while_sequences_grow);
    tcase_add_loop_test(tests, steps_without_graphs_of_rows_are_not_rehearsed, 0, 2);
    tcase_add_loop_test(tests, graphs_have_the_bits_of_launches_at_every_length, 0, 3);
    tcase_add_test(tests, a_long_context_costs_short_sequences_no_launch);
    tcase_add_test(tests, spans_that_there_is_no_room_for_come_in_another_wave);
    tcase_add_test_raise_signal(tests, less_room_than_the_spans_of_a_tile_ends_the_process,
                                SIGABRT);
    tcase_add_loop_test_raise_signal(tests, keys_of_another_format_end_the_process, SIGABRT, 0, 1);
    tcase_add_loop_test_raise_signal(tests, keys_of_another_format_end_the_process, SIGABRT, 2, 3);
}
