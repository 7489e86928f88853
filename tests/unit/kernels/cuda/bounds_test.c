/* Bounds of the host around the CUDA kernels, at the last size that fits and at the one behind it, on the emulated device:
 * rows and sequences of a step, its tiles, parameters of the rows that choose a token, marks, pinned memory. */
#include "kernels/cuda/context.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_bounds";
const double suite_timeout_s = 60;

static struct subject open_subject(const char *backend, const struct kernels_limits *limits) {
    struct subject subject = {.kernels = kernels_find(backend), .n_threads = 1};
    struct kernels_options options = {.n_threads = 1, .limits = *limits};
    struct error error = {0};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    return subject;
}

/* The subject's device has seen no rule broken: no kernel wrote behind a piece of memory that was given back. */
static void close_subject(struct subject *subject) {
    subject_drop(subject);
    ck_assert_ptr_null(subject->ctx->kind->failure(subject->ctx->device));
    subject_close(subject);
}

enum { CONTEXT = 4096, SEQS_MAX = 300 };

/* A step of n sequences with one token each at their first position, of which all choose a next one. */
static struct kernels_step begin(const struct subject *subject, uint32_t n, uint32_t stride) {
    uint32_t zeros[SEQS_MAX] = {0}, numbers[SEQS_MAX + 1];
    uint32_t *tables = calloc((size_t)n * stride, sizeof *tables);
    for (uint32_t i = 0; i <= n; i++)
        numbers[i] = i;
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = n,
                                  .ids = numbers,
                                  .positions = zeros,
                                  .seq_begin = numbers,
                                  .block_tables = tables,
                                  .block_table_stride = stride};
    struct kernels_step step = subject_begin(subject, &batch, numbers, n);
    free(tables);
    return step;
}

/* The most tokens and sequences, and what a step of `n` sequences becomes. */
static const struct {
    uint32_t max_tokens, max_seqs, n, n_tokens, n_rows;
} fills[] = {
    {5, 5, 5, 5, 5},       {9, 9, 9, 9, 9},       {9, 9, 8, 8, 8},           {67, 67, 67, 67, 67},
    {67, 67, 65, 67, 67},  {3, 3, 3, 3, 3},       {5, 9, 5, 5, 8},           {9, 5, 5, 5, 5},
    {70, 300, 70, 70, 80}, {300, 70, 66, 70, 70}, {300, 300, 290, 300, 300},
};

START_TEST(a_step_that_is_filled_up_keeps_within_the_limits) {
    const struct kernels_limits limits = {
        fills[_i].max_tokens, fills[_i].max_seqs, CONTEXT, 64, 64, 1, 1, 64, KV_F16};
    struct subject subject = open_subject("cuda-emu:exact", &limits);
    struct kernels_step step = begin(&subject, fills[_i].n, 1);
    ck_assert_uint_eq(step.batch.n_tokens, fills[_i].n_tokens);
    ck_assert_uint_eq(step.batch.n_seqs, fills[_i].n_tokens);
    ck_assert_uint_eq(step.n_rows, fills[_i].n_rows);
    subject_end(&subject);
    close_subject(&subject);
}
END_TEST

/* All arrays of a prompt's step at their full size. */
START_TEST(the_largest_step_has_room) {
    enum { TOKENS = 1001, LONG = 1 << 16, STRIDE = LONG / KV_BLOCK_TOKENS };
    const struct kernels_limits limits = {TOKENS, SEQS_MAX, LONG, 64, 64, 8, 1, 64, KV_F16};
    struct subject subject = open_subject("cuda-emu:exact", &limits);
    uint32_t ids[TOKENS], positions[TOKENS], rows[SEQS_MAX], got[TOKENS];
    uint32_t seq_begin[SEQS_MAX + 1], variants[SEQS_MAX];
    size_t n_table = (size_t)SEQS_MAX * STRIDE;
    uint32_t *table = malloc(2 * n_table * sizeof *table), *got_table = table + n_table;
    for (uint32_t i = 0; i < n_table; i++)
        table[i] = i * 7;
    for (uint32_t i = 0; i < TOKENS; i++) {
        ids[i] = i * 3;
        positions[i] = i * 5;
    }
    for (uint32_t i = 0; i < SEQS_MAX; i++) {
        seq_begin[i] = 3 * i;
        rows[i] = TOKENS - 1 - i;
        variants[i] = i * 11;
    }
    seq_begin[SEQS_MAX] = TOKENS;
    struct kernels_batch batch = {TOKENS,    SEQS_MAX, ids,    positions,
                                  seq_begin, table,    STRIDE, variants};
    struct kernels_step step = subject_begin(&subject, &batch, rows, SEQS_MAX);
    ck_assert_uint_eq(step.batch.n_tokens, TOKENS);
    const struct {
        const uint32_t *there, *here;
        uint32_t n;
    } arrays[] = {{step.batch.ids, ids, TOKENS},
                  {step.batch.positions, positions, TOKENS},
                  {step.batch.seq_begin, seq_begin, SEQS_MAX + 1},
                  {step.batch.variants, variants, SEQS_MAX},
                  {step.rows, rows, SEQS_MAX}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        subject_read(&subject, got, arrays[i].there, arrays[i].n * sizeof *got);
        ck_assert_mem_eq(got, arrays[i].here, arrays[i].n * sizeof *got);
    }
    subject_read(&subject, got_table, step.batch.block_tables, n_table * sizeof *table);
    ck_assert(memcmp(got_table, table, n_table * sizeof *table) == 0);
    subject_end(&subject);
    free(table);
    close_subject(&subject);
}
END_TEST

enum { DIM = 8, HEADS = 8 };

/* Attention of n sequences of one token, whose 8 query heads share the keys. */
static void attend(const char *backend, uint32_t n, float *out) {
    const struct kernels_limits limits = {n, n, KV_BLOCK_TOKENS, 64, 64, HEADS, 1, DIM, KV_F32};
    struct subject subject = open_subject(backend, &limits);
    size_t n_qkv = (size_t)n * (HEADS + 2) * DIM, n_kv = (size_t)n * 2 * DIM * KV_BLOCK_TOKENS;
    float *qkv = malloc((n_qkv + n_kv) * sizeof *qkv);
    struct random random = {n};
    fill_random(&random, qkv, n_qkv + n_kv);
    uint32_t positions[SEQS_MAX], numbers[SEQS_MAX + 1];
    for (uint32_t i = 0; i <= n; i++)
        numbers[i] = i;
    for (uint32_t i = 0; i < n; i++)
        positions[i] = i % KV_BLOCK_TOKENS;
    struct kernels_batch batch = {.n_tokens = n,
                                  .n_seqs = n,
                                  .ids = numbers,
                                  .positions = positions,
                                  .seq_begin = numbers,
                                  .block_tables = numbers,
                                  .block_table_stride = 1};
    struct kernels_kv kv = {.base = subject_floats(&subject, qkv + n_qkv, n_kv),
                            .block_bytes = sizeof(float[2]) * DIM * KV_BLOCK_TOKENS,
                            .n_kv_heads = 1,
                            .head_dim = DIM,
                            .format = KV_F32};
    float *at_qkv = subject_floats(&subject, qkv, n_qkv);
    float *at_out = subject_floats(&subject, NULL, (size_t)n * HEADS * DIM);
    struct kernels_step step = subject_begin(&subject, &batch, NULL, 0);
    subject.kernels->attend(subject.ctx, at_out, at_qkv, &step.batch, &kv, 0.3f, NULL, 0);
    subject_end(&subject);
    subject_read(&subject, out, at_out, (size_t)n * HEADS * DIM * sizeof *out);
    subject_close(&subject);
    free(qkv);
}

/* Up to 65 blocks of attention each query is a tile of its own, from then on a token is: see BLOCKS_FEW. */
START_TEST(tiles_of_single_queries_have_room) {
    static const uint32_t sizes[] = {1, 9, 65, 66};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = (size_t)sizes[i] * HEADS * DIM;
        float *expected = malloc(2 * n * sizeof *expected), *got = expected + n;
        attend("ref", sizes[i], expected);
        attend("cuda-emu:exact", sizes[i], got);
        ck_assert_msg(memcmp(got, expected, n * sizeof *got) == 0, "%u tokens", sizes[i]);
        free(expected);
    }
}
END_TEST

enum { VOCAB = 64, IDS_MAX = VOCAB + 8, CHOICES = 4, WAVES_MAX = 8 };

static const struct gpu_launches *real;
static uint32_t waves[WAVES_MAX], n_waves; /* rows of each launch that chose tokens */

static void sample_counted(struct device_stream *stream, const struct gpu_sample *what) {
    ck_assert_uint_lt(n_waves, WAVES_MAX);
    waves[n_waves++] = what->n_rows;
    real->sample(stream, what);
}

static void count_waves(struct subject *subject) {
    static struct gpu_launches counted;
    real = subject->ctx->gpu;
    counted = *real;
    counted.sample = sample_counted;
    subject->ctx->gpu = &counted;
    n_waves = 0;
}

/* Ids that a row's parameters name, of each kind. Of the vocabulary's 64 all arrays have room for eight times 64 ids:
 * two of 32 bits for what was seen, biased or allowed each, and an interval for what is barred; and 64 bytes
 * for a mask. */
struct choice {
    uint32_t n_seen, n_bias, n_allowed, n_barred, n_masks;
};

static const struct {
    struct choice rows[CHOICES];
    uint32_t first; /* rows of the first wave */
} choices[] = {
    {{{64, 64, 64, 64, 1}, {0, 0, 0, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, 0, 0, 0}}, 2},
    {{{64, 64, 72, 64, 1}, {0, 0, 0, 0, 0}, {0, 0, 0, 1, 0}, {0, 0, 0, 0, 0}}, 2},
    {{{64, 64, 64, 0, 1}, {64, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 4},
    {{{64, 64, 64, 1, 1}, {64, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 1},
    {{{64, 64, 64, 0, 1}, {0, 64, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 4},
    {{{64, 64, 64, 1, 1}, {0, 64, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 1},
    {{{64, 64, 64, 0, 1}, {0, 0, 64, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 4},
    {{{64, 64, 64, 1, 1}, {0, 0, 64, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 1},
    {{{64, 64, 64, 0, 1}, {0, 0, 0, 64, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 4},
    {{{64, 64, 64, 8, 1}, {0, 0, 0, 64, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 1},
    {{{0, 0, 64, 0, 1}, {0, 0, 64, 0, 0}, {0, 0, 64, 0, 0}, {0, 0, 64, 0, 0}}, 4},
    {{{0, 0, 48, 8, 1}, {0, 0, 64, 0, 0}, {0, 0, 64, 0, 0}, {0, 0, 64, 16, 0}}, 3},
    {{{64, 64, 64, 64, 0}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 4},
    {{{64, 64, 64, 64, 1}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, 1},
};

static uint32_t all_ids[IDS_MAX], counts[VOCAB]; /* the last ids are none of the vocabulary */
static float biases[VOCAB];
static struct interval barred[VOCAB];
static const uint32_t mask[VOCAB / 32] = {0x0ff0f00f, 0x12345678};

static void fill_params(struct sample_params *params, const struct choice *choice) {
    for (uint32_t i = 0; i < VOCAB; i++) {
        all_ids[i] = VOCAB - 1 - i;
        counts[i] = i % 3;
        biases[i] = (float)(i % 7);
        barred[i] = (struct interval){i, i + 1};
    }
    for (uint32_t i = VOCAB; i < IDS_MAX; i++)
        all_ids[i] = i;
    *params = (struct sample_params){.temperature = 1.0f,
                                     .top_p = 1.0f,
                                     .repetition = 1.1f,
                                     .uniform = 0.5f,
                                     .want_logprob = true,
                                     .n_seen = choice->n_seen,
                                     .seen_ids = all_ids,
                                     .seen_counts = counts,
                                     .n_bias = choice->n_bias,
                                     .bias_ids = all_ids,
                                     .bias = biases,
                                     .n_allowed = choice->n_allowed,
                                     .allowed_ids = all_ids,
                                     .n_barred = choice->n_barred,
                                     .barred = barred,
                                     .allowed_bits = choice->n_masks ? mask : NULL};
}

/* Tokens that the backend chooses; of the emulated one the launches are counted, of at most so many rows. */
static void choose(const char *backend, const struct choice *rows, uint32_t rows_max,
                   struct sample_result *results) {
    const struct kernels_limits limits = {CHOICES, CHOICES, 16, 64, VOCAB, 1, 1, DIM, KV_F16};
    struct subject subject = open_subject(backend, &limits);
    struct sample_params params[CHOICES];
    float logits[CHOICES * VOCAB];
    struct random random = {5};
    fill_random(&random, logits, CHOICES * VOCAB);
    for (uint32_t i = 0; i < CHOICES; i++)
        fill_params(&params[i], &rows[i]);
    if (subject_is_emulated(&subject)) {
        count_waves(&subject);
        if (rows_max > 0)
            subject.ctx->sampler.rows_max = rows_max;
    }
    memset(results, 0, CHOICES * sizeof *results);
    subject.kernels->sample(subject.ctx, subject_floats(&subject, logits, CHOICES * VOCAB), CHOICES,
                            VOCAB, params, results);
    subject_close(&subject);
}

static void check_choices(const struct choice *rows, uint32_t rows_max) {
    struct sample_result expected[CHOICES], got[CHOICES];
    choose("ref", rows, 0, expected);
    choose("cuda-emu:exact", rows, rows_max, got);
    for (uint32_t i = 0; i < CHOICES; i++) {
        ck_assert_int_eq(got[i].valid, expected[i].valid);
        ck_assert_uint_eq(got[i].id, expected[i].id);
        ck_assert_mem_eq(&got[i].logprob, &expected[i].logprob, sizeof(float));
    }
}

START_TEST(parameters_of_rows_go_in_waves_that_fit) {
    check_choices(choices[_i].rows, 0);
    ck_assert_uint_eq(waves[0], choices[_i].first);
    ck_assert_uint_eq(n_waves, choices[_i].first < CHOICES ? 2 : 1);
}
END_TEST

/* A large vocabulary has scratch memory for few rows: here for so many. */
START_TEST(rows_that_choose_go_in_waves_of_the_scratch_memory) {
    static const struct choice rows[CHOICES] = {
        {0, 0, 64, 0, 0}, {64, 0, 0, 0, 1}, {0, 64, 0, 0, 0}, {0, 0, 0, 8, 1}};
    for (uint32_t most = 1; most <= CHOICES; most++) {
        check_choices(rows, most);
        uint32_t n = 0;
        for (uint32_t i = 0; i < n_waves; i++) {
            ck_assert_uint_eq(waves[i], most < CHOICES - n ? most : CHOICES - n);
            n += waves[i];
        }
        ck_assert_uint_eq(n, CHOICES);
    }
}
END_TEST

enum { N = 64 };

/* The ring of marks holds 128: at more, the stream is waited for. */
START_TEST(more_marks_than_the_ring_holds_are_answered_in_their_order) {
    static const uint32_t sizes[] = {MARKS_MAX - 1, MARKS_MAX, MARKS_MAX + 1, 3 * MARKS_MAX + 1};
    const struct kernels_limits limits = {2, 2, 64, 64, 64, 1, 1, DIM, KV_F16};
    struct subject subject = open_subject("cuda-emu:exact", &limits);
    const struct kernels *k = subject.kernels;
    float ones[N], *out = subject_floats(&subject, NULL, N), host[N], expected = 0.0f;
    for (uint32_t i = 0; i < N; i++)
        ones[i] = 1.0f;
    float *x = subject_floats(&subject, ones, N);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t zeros[2] = {0}, pair[] = {0, 2};
        struct kernels_batch batch = {2, 1, zeros, (uint32_t[]){0, 1}, pair, zeros, 1, NULL};
        subject_begin(&subject, &batch, NULL, 0); /* a prompt: launched by itself */
        for (uint32_t layer = 1; layer <= sizes[i]; layer++) {
            k->add_gated(subject.ctx, out, x, NULL, 1, N);
            k->mark(subject.ctx, layer);
        }
        for (uint32_t marked = 0, now; marked < sizes[i]; marked = now) {
            now = k->marked(subject.ctx);
            ck_assert_uint_ge(now, marked);
            ck_assert_uint_ge(now, (sizes[i] - 1) / MARKS_MAX * MARKS_MAX);
            ck_assert_int_eq(k->get_beside(subject.ctx, host, out, sizeof host), STATUS_OK);
            ck_assert(host[0] >= expected + (float)now);
        }
        subject_end(&subject);
        expected += (float)sizes[i];
    }
    close_subject(&subject);
}
END_TEST

/* Sizes at the borders of a lane's pinned memory and of its quarters, through both lanes. */
START_TEST(bytes_at_the_borders_of_pinned_memory_come_whole) {
    static const size_t stages[] = {STAGE_BYTES, BESIDE_BYTES};
    const struct kernels_limits limits = {2, 2, 64, 64, 64, 1, 1, DIM, KV_F16};
    struct subject subject = open_subject("cuda-emu:exact", &limits);
    const struct kernels *k = subject.kernels;
    for (int beside = 0; beside < 2; beside++)
        for (int i = 0; i < 4; i++) {
            size_t n = stages[beside] / (i < 2 ? 1 : 4) + (size_t)(i % 2);
            unsigned char *host = malloc(2 * n), *got = host + n;
            for (size_t j = 0; j < n; j++)
                host[j] = (unsigned char)(j * 0x9e3779b1u >> 13);
            void *memory = k->alloc(subject.ctx, n);
            for (int whole = 0; whole < 2; whole++) /* the first byte alone, for odd places */
                (beside ? k->put_beside : k->put)(subject.ctx, memory, host, whole ? n : 1);
            if (beside)
                ck_assert_int_eq(k->get_beside(subject.ctx, got, memory, n), STATUS_OK);
            else
                k->get(subject.ctx, got, memory, n);
            ck_assert(memcmp(got, host, n) == 0);
            k->dealloc(subject.ctx, memory, n);
            free(host);
        }
    close_subject(&subject);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_step_that_is_filled_up_keeps_within_the_limits, 0,
                        sizeof fills / sizeof *fills);
    tcase_add_test(tests, the_largest_step_has_room);
    tcase_add_test(tests, tiles_of_single_queries_have_room);
    tcase_add_loop_test(tests, parameters_of_rows_go_in_waves_that_fit, 0,
                        sizeof choices / sizeof *choices);
    tcase_add_test(tests, rows_that_choose_go_in_waves_of_the_scratch_memory);
    tcase_add_test(tests, more_marks_than_the_ring_holds_are_answered_in_their_order);
    tcase_add_test(tests, bytes_at_the_borders_of_pinned_memory_come_whole);
}
