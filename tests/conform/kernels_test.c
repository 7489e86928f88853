/* Every backend of kernels_table, every instruction set this machine has and one to three threads give the bits of the reference,
 * wherever a row is and however a prompt is cut. One with other numerics is near it, and gives a row its own bits anywhere. */
#include "kernels/numbers.h"
#include "kernels/quant/quant.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels";
const double suite_timeout_s = 600;

#define ROWS_MAX 33
static const uint32_t batch_sizes[] = {1, 2, 3, 4, 8, 15, 16, 17, 33};
#define N_BATCH_SIZES (sizeof batch_sizes / sizeof batch_sizes[0])

static const struct kernels_limits small = {
    .max_tokens = 64,
    .max_seqs = 64,
    .max_context = 1024,
    .max_dim = 1024,
    .n_vocab = 8192,
    .n_heads = 4,
    .n_kv_heads = 2,
    .head_dim = 32,
};

static void compare(const struct subject *subject, const char *what, const float *got,
                    const float *expected, size_t n) {
    if (memcmp(got, expected, n * sizeof *got) == 0)
        return;
    size_t i = 0;
    while (memcmp(&got[i], &expected[i], sizeof *got) == 0)
        i++;
    ck_abort_msg("%s %s, %u threads: %s differs at %zu: %a, reference %a", subject->kernels->name,
                 subject->isa ? subject->isa : "", subject->n_threads, what, i, (double)got[i],
                 (double)expected[i]);
}

struct linear_case {
    const char *format;
    uint32_t n;
    uint32_t k;
    bool has_bias;
    enum epilogue epilogue;
};

/* The rows' results, one after the other or all at once. `residual` is what ADD adds to. */
static void multiply_rows(struct subject *subject, const struct linear_case *test,
                          const struct weight *weight, const float *x, const float *residual,
                          uint32_t at_once, float *out) {
    size_t width = test->epilogue == EPILOGUE_SILU_MUL ? test->n / 2 : test->n;
    float *at_x = subject_floats(subject, x, ROWS_MAX * (size_t)test->k);
    float *at_out = subject_floats(subject, residual, ROWS_MAX * width);
    for (uint32_t row = 0; row < ROWS_MAX; row += at_once)
        subject->kernels->linear(subject->ctx, at_out + row * width, width,
                                 at_x + (size_t)row * test->k, weight, at_once, test->epilogue);
    subject_read(subject, out, at_out, ROWS_MAX * width * sizeof *out);
}

/* The reference's results, or what those of subjects that are not exact are near to. */
static void reference_rows(const struct linear_case *test, const struct weight_source *source,
                           bool exact, const float *bias, const float *x, const float *residual,
                           float *out) {
    struct subject ref = subject_ref(&small);
    size_t n_bytes;
    struct weight weight =
        exact ? subject_pack(&ref, source, &n_bytes) : subject_pack_near(&ref, source, &n_bytes);
    weight.bias = bias ? subject_floats(&ref, bias, test->n) : NULL;
    multiply_rows(&ref, test, &weight, x, residual, 1, out);
    subject_unpack(&ref, &weight, n_bytes);
    subject_close(&ref);
}

/* Batches of m rows that begin at `shift` and wrap around: every row at several places. A slow subject's
 * begins at one of them, which differs from size to size and from case to case. */
static void check_batches(struct subject *subject, const struct linear_case *test,
                          const struct weight *weight, const float *x, const float *residual,
                          const float *expected) {
    size_t width = test->epilogue == EPILOGUE_SILU_MUL ? test->n / 2 : test->n;
    float *batch = malloc(ROWS_MAX * (size_t)test->k * sizeof *batch);
    float *out = malloc(ROWS_MAX * width * sizeof *out);
    float *at_x = subject_floats(subject, NULL, ROWS_MAX * (size_t)test->k);
    float *at_out = subject_floats(subject, NULL, ROWS_MAX * width);
    for (size_t b = 0; b < N_BATCH_SIZES; b++)
        for (uint32_t shift = 0; shift < ROWS_MAX; shift += 9) {
            uint32_t m = batch_sizes[b];
            if (subject_is_slow(subject) && shift / 9 != (b + test->n) % 4)
                continue;
            for (uint32_t i = 0; i < m; i++) {
                size_t row = (i + shift) % ROWS_MAX;
                memcpy(batch + (size_t)i * test->k, x + row * test->k, test->k * sizeof *x);
                memcpy(out + i * width, residual + row * width, width * sizeof *out);
            }
            subject_write(subject, at_x, batch, m * (size_t)test->k * sizeof *batch);
            subject_write(subject, at_out, out, m * width * sizeof *out);
            subject->kernels->linear(subject->ctx, at_out, width, at_x, weight, m, test->epilogue);
            subject_read(subject, out, at_out, m * width * sizeof *out);
            for (uint32_t i = 0; i < m; i++)
                compare(subject, test->format, out + i * width,
                        expected + (i + shift) % ROWS_MAX * width, width);
        }
    free(batch);
    free(out);
}

/* By accuracy, and then batch by batch against its own bits. */
static void check_near(struct subject *subject, const struct linear_case *test,
                       const struct weight *weight, const float *x, const float *residual,
                       const float *expected) {
    size_t n = ROWS_MAX * (size_t)(test->epilogue == EPILOGUE_SILU_MUL ? test->n / 2 : test->n);
    float *own = malloc(n * sizeof *own);
    multiply_rows(subject, test, weight, x, residual, ROWS_MAX, own);
    subject_expect_near(subject, test->format, own, expected, n);
    check_batches(subject, test, weight, x, residual, own);
    free(own);
}

/* The last n rows of a tensor whose shape is the next one that the format can have. `group`: inputs that share a
 * scale, where the format leaves it open; 0: random_tensor's. */
static struct weight_tensor tensor_for(struct random *random, struct linear_case *test,
                                       uint32_t group, struct weight_part *part) {
    const struct quant_format *format = quant_find(test->format);
    uint32_t n = (test->n + 7) / 8 * 8;
    test->k = (test->k + format->block - 1) / format->block * format->block;
    struct weight_tensor tensor =
        format->sizes && group > 0 ? random_grouped_tensor(random, test->format, n, test->k, group)
                                   : random_tensor(random, test->format, n, test->k);
    *part = (struct weight_part){.row_begin = n - test->n, .n_rows = test->n, .out_step = 1};
    return tensor;
}

static void check_linear(struct linear_case *test) {
    struct random random = {test->n * 1000 + test->k};
    struct weight_part part;
    struct weight_tensor tensor = tensor_for(&random, test, 0, &part);
    part.tensor = &tensor;
    const struct weight_source source = {.parts = &part, .n_parts = 1, .k = test->k};
    size_t outputs = ROWS_MAX * (size_t)test->n;
    float *x = malloc(ROWS_MAX * (size_t)test->k * sizeof *x);
    float *residual = malloc(outputs * sizeof *residual);
    float *expected = malloc(outputs * sizeof *expected), *near_to = NULL;
    float *bias = malloc(test->n * sizeof *bias);
    fill_random(&random, x, ROWS_MAX * (size_t)test->k);
    memset(x, 0, (test->k < GROUP ? test->k : GROUP) * sizeof *x); /* a group of zeros */
    if (test->k > GROUP)
        x[GROUP] = 1e-35f; /* one below QUANT_TINY, beside larger ones */
    fill_random(&random, residual, outputs);
    fill_random(&random, bias, test->n);
    reference_rows(test, &source, true, test->has_bias ? bias : NULL, x, residual, expected);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &small);) {
        size_t packed_bytes;
        if (!subject_is_exact(&subject) && !near_to)
            reference_rows(test, &source, false, test->has_bias ? bias : NULL, x, residual,
                           near_to = malloc(outputs * sizeof *near_to));
        struct weight weight = subject_pack(&subject, &source, &packed_bytes);
        weight.bias = test->has_bias ? subject_floats(&subject, bias, test->n) : NULL;
        if (subject_is_exact(&subject))
            check_batches(&subject, test, &weight, x, residual, expected);
        else
            check_near(&subject, test, &weight, x, residual, near_to);
        subject_unpack(&subject, &weight, packed_bytes);
        subject_close(&subject);
    }
    tensor_free(&tensor);
    free(x);
    free(residual);
    free(expected);
    free(near_to);
    free(bias);
}

START_TEST(a_product_has_the_same_bits_on_every_path) {
    const char *format = quant_table[_i]->name;
    struct linear_case cases[] = {
        {format, 16, 32, false, EPILOGUE_NONE},      {format, 1, 64, true, EPILOGUE_NONE},
        {format, 33, 96, true, EPILOGUE_ADD},        {format, 50, 160, true, EPILOGUE_SILU_MUL},
        {format, 131, 576, false, EPILOGUE_NONE},    {format, 7, 1024, false, EPILOGUE_ADD},
        {format, 66, 320, false, EPILOGUE_SILU_MUL}, {format, 21, 45, true, EPILOGUE_NONE},
        {format, 86, 200, true, EPILOGUE_SILU_MUL},  {format, 34, 172, true, EPILOGUE_ADD},
        {format, 65, 136, false, EPILOGUE_NONE},     {format, 16, 1, false, EPILOGUE_ADD}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_linear(&cases[i]);
}
END_TEST

/* Rows of bfloat16 end in zeros, not in what others left there: NaNs, or integers that are NaNs as floats. */
START_TEST(a_rest_of_a_group_does_not_see_earlier_products) {
    enum { rows = ROWS_MAX, wide = 256, narrow = 45, n = 8 };
    struct random random = {46};
    struct weight_tensor ints = random_tensor(&random, "q8_0", n, wide);
    struct weight_tensor nans = random_tensor(&random, "bf16", n, wide);
    struct weight_tensor floats = random_tensor(&random, "bf16", n, narrow);
    static float x[rows * wide], nan_x[rows * wide], narrow_x[rows * narrow];
    float expected[rows * n], out[rows * n];
    struct subject subject;
    for (int i = 0; i < rows * wide; i++)
        x[i] = i % 2 ? 1.0f : -1.0f, nan_x[i] = NAN;
    fill_random(&random, narrow_x, rows * narrow);
    for (uint32_t i = 0; subject_next(&subject, &i, &small);) {
        float *to = i == 1 ? expected : out; /* the reference is listed first */
        size_t n_bytes, n_other, n_nan;
        struct weight other = subject_pack_tensor(&subject, &ints, &n_other);
        struct weight nan = subject_pack_tensor(&subject, &nans, &n_nan);
        struct weight weight = subject_pack_tensor(&subject, &floats, &n_bytes);
        float *at_x = subject_floats(&subject, x, (size_t)rows * wide);
        float *at_nans = subject_floats(&subject, nan_x, (size_t)rows * wide);
        float *at_narrow = subject_floats(&subject, narrow_x, (size_t)rows * narrow);
        float *at_out = subject_floats(&subject, NULL, (size_t)rows * n);
        subject.kernels->linear(subject.ctx, at_out, n, at_nans, &nan, rows, EPILOGUE_NONE);
        subject.kernels->linear(subject.ctx, at_out, n, at_x, &other, rows, EPILOGUE_NONE);
        subject.kernels->linear(subject.ctx, at_out, n, at_narrow, &weight, rows, EPILOGUE_NONE);
        subject_read(&subject, to, at_out, sizeof out);
        for (int j = 0; j < rows * n; j++)
            ck_assert(to[j] == to[j]);
        if (subject_is_exact(&subject))
            compare(&subject, "bf16 behind q8_0", to, expected, rows * n);
        else
            subject_expect_near(&subject, "bf16 behind q8_0", to, expected, rows * n);
        subject_unpack(&subject, &weight, n_bytes);
        subject_unpack(&subject, &nan, n_nan);
        subject_unpack(&subject, &other, n_other);
        subject_close(&subject);
    }
    tensor_free(&ints);
    tensor_free(&nans);
    tensor_free(&floats);
}
END_TEST

/* A device has room for the integers of some rows: 4,096 of two terms each, or for as many rounded ones. */
START_TEST(rows_beyond_those_that_are_integers_at_a_time_are_theirs) {
    enum { rows = 4099, n = 4, k = 32 };
    struct kernels_limits large = small;
    large.max_tokens = rows;
    large.n_heads = large.n_kv_heads = 1;
    large.head_dim = 8;
    large.max_context = 16;
    struct random random = {4099};
    const char *format = _i ? "f16" : "awq";
    struct weight_tensor tensor = random_tensor(&random, format, 8, k);
    struct weight_part part = {.tensor = &tensor, .n_rows = n, .out_step = 1};
    const struct weight_source source = {.parts = &part, .n_parts = 1, .k = k};
    static float x[rows * k], expected[rows * n], out[rows * n];
    struct subject subject;
    fill_random(&random, x, (size_t)rows * k);
    for (uint32_t i = 0; subject_next(&subject, &i, &large);) {
        float *to = i == 1 ? expected : out; /* the reference is listed first */
        size_t n_bytes;
        struct weight weight = subject_pack(&subject, &source, &n_bytes);
        float *at_x = subject_floats(&subject, x, (size_t)rows * k);
        float *at_out = subject_floats(&subject, NULL, (size_t)rows * n);
        ck_assert(weight.fine || _i > 0);
        subject.kernels->linear(subject.ctx, at_out, n, at_x, &weight, rows, EPILOGUE_NONE);
        subject_read(&subject, to, at_out, sizeof out);
        if (subject_is_exact(&subject))
            compare(&subject, "many rows", to, expected, (size_t)rows * n);
        else
            subject_expect_near(&subject, "many rows", to, expected, (size_t)rows * n);
        subject_unpack(&subject, &weight, n_bytes);
        subject_close(&subject);
    }
    tensor_free(&tensor);
}
END_TEST

/* Rows that are multiplied at once. */
static void check_many(struct linear_case *test, uint32_t group, uint32_t rows) {
    struct kernels_limits large = small;
    struct random random = {rows + test->n};
    struct weight_part part;
    struct weight_tensor tensor = tensor_for(&random, test, group, &part);
    part.tensor = &tensor;
    const struct weight_source source = {.parts = &part, .n_parts = 1, .k = test->k};
    size_t width = test->epilogue == EPILOGUE_SILU_MUL ? test->n / 2 : test->n;
    size_t inputs = (size_t)rows * test->k, outputs = rows * width;
    float *x = malloc(inputs * sizeof *x), *residual = malloc(outputs * sizeof *residual);
    float *expected = malloc(outputs * sizeof *expected), *out = malloc(outputs * sizeof *out);
    struct subject subject;
    large.max_tokens = rows;
    large.max_dim = test->k > small.max_dim ? test->k : small.max_dim;
    fill_random(&random, x, inputs);
    fill_random(&random, residual, outputs);
    for (uint32_t i = 0; subject_next(&subject, &i, &large);) {
        if (subject_is_exact(&subject)) {
            float *to = i == 1 ? expected : out; /* the reference is listed first */
            size_t n_bytes;
            struct weight weight = subject_pack(&subject, &source, &n_bytes);
            float *at_out = subject_floats(&subject, residual, outputs);
            subject.kernels->linear(subject.ctx, at_out, width, subject_floats(&subject, x, inputs),
                                    &weight, rows, test->epilogue);
            subject_read(&subject, to, at_out, outputs * sizeof *to);
            compare(&subject, test->format, to, expected, outputs);
            subject_unpack(&subject, &weight, n_bytes);
        }
        subject_close(&subject);
    }
    tensor_free(&tensor);
    free(x);
    free(residual);
    free(expected);
    free(out);
}

START_TEST(many_rows_at_once_have_the_same_bits) {
    const char *format = quant_table[_i]->name;
    enum epilogue epilogue = (enum epilogue)(_i % 3);
    struct linear_case odd = {format, epilogue == EPILOGUE_SILU_MUL ? 132 : 131, 416, false,
                              epilogue};
    struct linear_case sum = {format, 70, 160, false, EPILOGUE_ADD};
    check_many(&odd, 0, 150);
    check_many(&sum, 0, 161);
}
END_TEST

/* A few sequences' decode: more inputs than are in a GPU's shared memory at a time. */
START_TEST(one_and_two_rows_of_many_inputs_have_the_same_bits) {
    const char *format = quant_table[_i]->name;
    static const uint32_t groups[] = {0, 128, 384};
    for (int i = 0; i < (quant_table[_i]->sizes ? 3 : 1); i++) {
        enum epilogue epilogue = (enum epilogue)((_i + i) % 3);
        struct linear_case one = {format, 40, 4608, false, epilogue};
        struct linear_case two = {format, 24, 3456, false, epilogue};
        check_many(&one, groups[i], 1);
        check_many(&two, groups[i], 2);
    }
    /* Scales of five groups: eight groups in a row may have three. */
    struct linear_case dozen = {format, 24, 960, false, EPILOGUE_NONE};
    if (quant_table[_i]->sizes)
        check_many(&dozen, 160, 12);
}
END_TEST

/* And more than it has room for at all: two rows of 8 bits, and one of two terms. */
START_TEST(one_and_two_rows_that_no_shared_memory_holds_have_the_same_bits) {
    struct linear_case rows = {"q6_k", 24, 45056, false, EPILOGUE_SILU_MUL};
    struct linear_case terms = {"awq", 24, 66048, false, EPILOGUE_ADD};
    check_many(&rows, 0, 2);
    check_many(&terms, 0, 1);
}
END_TEST

/* As many outputs and rows as fill a GPU with its largest tiles; and stages of some dozens of rows that would not fit. */
START_TEST(a_large_product_has_the_same_bits) {
    struct linear_case fine = {"awq", 5140, 160, false, EPILOGUE_ADD};
    struct linear_case pairs = {"q5_1", 8580, 96, false, EPILOGUE_SILU_MUL};
    struct linear_case stages = {"q6_k", 10600, 256, false, EPILOGUE_NONE};
    check_many(&fine, 0, 300);
    check_many(&pairs, 0, 300);
    check_many(&stages, 0, 32);
}
END_TEST

static void multiply_row(struct subject *subject, float *out, const float *x,
                         const struct weight *weight) {
    float *at_out = subject_floats(subject, NULL, weight->n);
    subject->kernels->linear(subject->ctx, at_out, weight->n, subject_floats(subject, x, weight->k),
                             weight, 1, EPILOGUE_NONE);
    subject_read(subject, out, at_out, weight->n * sizeof *out);
}

START_TEST(merged_and_alternating_parts_equal_their_rows) {
    struct random random = {77};
    struct weight_tensor q = random_tensor(&random, "q4_1", 40, 96);
    struct weight_tensor v = random_tensor(&random, "q4_0", 12, 96);
    const struct weight_part parts[] = {
        {.tensor = &q, .row_begin = 5, .n_rows = 9, .out_begin = 0, .out_step = 2},
        {.tensor = &v, .row_begin = 2, .n_rows = 9, .out_begin = 1, .out_step = 2},
        {.tensor = &q, .row_begin = 36, .n_rows = 4, .out_begin = 18, .out_step = 1},
        {.tensor = &v, .row_begin = 11, .n_rows = 1, .out_begin = 22}};
    const struct weight_source source = {.parts = parts, .n_parts = 4, .k = 96};
    float x[96];
    float all_q[40];
    float all_v[12];
    float expected[23], near_to[23];
    fill_random(&random, x, 96);
    struct subject ref = subject_ref(&small);
    size_t n_bytes;
    struct weight weight = subject_pack_tensor(&ref, &q, &n_bytes);
    multiply_row(&ref, all_q, x, &weight);
    subject_unpack(&ref, &weight, n_bytes);
    weight = subject_pack_tensor(&ref, &v, &n_bytes);
    multiply_row(&ref, all_v, x, &weight);
    subject_unpack(&ref, &weight, n_bytes);
    weight = subject_pack_near(&ref, &source, &n_bytes);
    multiply_row(&ref, near_to, x, &weight);
    subject_unpack(&ref, &weight, n_bytes);
    subject_close(&ref);
    for (int i = 0; i < 9; i++) {
        expected[2 * i] = all_q[5 + i];
        expected[2 * i + 1] = all_v[2 + i];
    }
    memcpy(expected + 18, all_q + 36, 4 * sizeof *expected);
    expected[22] = all_v[11];

    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &small);) {
        float out[23];
        weight = subject_pack(&subject, &source, &n_bytes);
        ck_assert_uint_eq(weight.n, 23);
        multiply_row(&subject, out, x, &weight);
        if (subject_is_exact(&subject))
            compare(&subject, "merged parts", out, expected, 23);
        else
            subject_expect_near(&subject, "merged parts", out, near_to, 23);
        subject_unpack(&subject, &weight, n_bytes);
        subject_close(&subject);
    }
    tensor_free(&q);
    tensor_free(&v);
}
END_TEST

static void expect_refusal(const struct subject *subject, const struct weight_source *source) {
    struct error error = {0};
    ck_assert_uint_eq(subject->kernels->weight_size(source, &error), 0);
    ck_assert_int_ne(error.text[0], 0);
}

START_TEST(impossible_parts_are_refused_with_a_reason) {
    uint8_t bytes[40] = {0xff, 0x7b}; /* q4_0: a scale of 65504, whose minimum has no binary16 */
    const struct weight_tensor bad[] = {
        {.format = "q9_9", .values = bytes, .n_value_bytes = 20, .k = 32, .n = 1},
        {.format = NULL, .values = bytes, .n_value_bytes = 20, .k = 32, .n = 1},
        {.format = "q4_1", .values = bytes, .n_value_bytes = 19, .k = 32, .n = 1},
        {.format = "q4_1", .values = bytes, .n_value_bytes = 21, .k = 32, .n = 1},
        {.format = "q4_1", .values = bytes, .n_value_bytes = 20, .k = 31, .n = 1},
        {.format = "q4_1", .values = bytes, .n_value_bytes = 20, .k = 0, .n = 1},
        {.format = "q4_1", .values = bytes, .n_value_bytes = 20, .k = 32, .n = 0},
        {.format = "q4_1", .values = bytes, .n_value_bytes = 20, .k = 32, .n = 2},
        {.format = "q4_1", .values = NULL, .n_value_bytes = 20, .k = 32, .n = 1}};
    const struct weight_tensor good = {
        .format = "q4_1", .values = bytes, .n_value_bytes = 40, .k = 64, .n = 1};
    const struct weight_tensor other = {
        .format = "q8_0", .values = bytes, .n_value_bytes = 34, .k = 32, .n = 1};
    const struct weight_tensor huge = {
        .format = "q4_0", .values = bytes, .n_value_bytes = 18, .k = 32, .n = 1};
    const struct weight_part bad_rows[][2] = {
        {{.tensor = &good, .n_rows = 0}},
        {{.tensor = &good, .n_rows = 2, .out_step = 1}},
        {{.tensor = &good, .row_begin = UINT32_MAX, .n_rows = 1}},
        {{.tensor = &good, .n_rows = 1, .out_begin = 1}},
        {{.tensor = &good, .n_rows = 1}, {.tensor = &good, .n_rows = 1}},
        {{.tensor = &good, .n_rows = 1}, {.tensor = &good, .n_rows = 1, .out_begin = UINT32_MAX}},
        {{.tensor = &good, .n_rows = 1}, {.tensor = &other, .n_rows = 1, .out_begin = 1}}};
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &small);) {
        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            struct weight_part part = {.tensor = &bad[j], .n_rows = bad[j].n, .out_step = 1};
            expect_refusal(&subject, &(struct weight_source){&part, 1, 0, bad[j].k, false});
        }
        for (size_t j = 0; j < sizeof bad_rows / sizeof bad_rows[0]; j++) {
            uint32_t n_parts = bad_rows[j][1].tensor ? 2 : 1;
            expect_refusal(&subject, &(struct weight_source){bad_rows[j], n_parts, 0, 32, false});
        }
        struct weight_part part = {.tensor = &good, .n_rows = 1};
        expect_refusal(&subject, &(struct weight_source){&part, 0, 0, 64, false});
        expect_refusal(&subject, &(struct weight_source){&part, 1, 0, 0, false});
        expect_refusal(&subject, &(struct weight_source){&part, 1, 0, 65, false});
        expect_refusal(&subject, &(struct weight_source){&part, 1, 63, 2, false});
        expect_refusal(&subject, &(struct weight_source){&part, 1, 32, 64, false});
        expect_refusal(&subject, &(struct weight_source){&part, 1, UINT32_MAX - 31, 32, false});

        struct error error;
        part.tensor = &huge;
        const struct weight_source source = {&part, 1, 0, 32, false};
        size_t size = subject.kernels->weight_size(&source, &error);
        void *memory = subject.kernels->alloc(subject.ctx, size);
        struct weight weight;
        ck_assert_int_eq(
            subject.kernels->weight_pack(subject.ctx, &source, memory, &weight, &error),
            STATUS_UNSUPPORTED);
        subject.kernels->dealloc(subject.ctx, memory, size);
        subject_close(&subject);
    }
}
END_TEST

START_TEST(embeddings_norms_and_gathers_have_the_same_bits) {
    const char *format = quant_table[_i]->name;
    struct random random = {(uint64_t)_i};
    enum { n = 64, dim = 256, tokens = 40 }; /* n: rows of nothing behind the last would be zeros */
    struct weight_tensor tensor = random_tensor(&random, format, n, dim);
    uint32_t ids[tokens];
    static float gain[tokens * dim];
    static float expected[5][tokens * dim];
    static float got[5][tokens * dim];
    for (int i = 0; i < tokens; i++)
        ids[i] = (uint32_t)random_below(&random, n + 7);
    fill_random(&random, gain, (size_t)tokens * dim);
    struct subject subject;
    for (uint32_t i = 0; subject_next_exact(&subject, &i, &small);) {
        size_t packed;
        struct weight weight = subject_pack_tensor(&subject, &tensor, &packed);
        float(*to)[tokens * dim] = i == 1 ? expected : got; /* the reference is listed first */
        float *at[5];
        for (int j = 0; j < 5; j++)
            at[j] = subject_floats(&subject, NULL, (size_t)tokens * dim);
        float *at_gain = subject_floats(&subject, gain, (size_t)tokens * dim);
        const uint32_t rows[] = {39, 0, 7, 7};
        const uint32_t *at_rows = subject_ids(&subject, rows, 4);
        struct kernels_step step = subject_begin_ids(&subject, ids, tokens);
        subject.kernels->embed(subject.ctx, at[0], &weight, &step.batch, 3);
        subject.kernels->norm(subject.ctx, at[1], at[0], at_gain, 1e-5f, tokens, dim);
        subject.kernels->norm(subject.ctx, at[2], at[0], at_gain, 1e-6f, 110, 93);
        /* Rows that a GPU takes in parts. */
        subject.kernels->norm(subject.ctx, at[3], at[0], at_gain, 1e-6f, 1, tokens * dim);
        subject.kernels->norm(subject.ctx, at[4], at[0], at_gain, 1e-6f, 1, tokens * dim - 1);
        for (int j = 0; j < 5; j++)
            subject_read(&subject, to[j], at[j], sizeof to[j]);
        float gathered[4 * dim];
        subject.kernels->gather_rows(subject.ctx, at[0], at[1], at_rows, 4, dim);
        subject_end(&subject);
        subject_read(&subject, gathered, at[0], sizeof gathered);
        for (int t = 0; t < tokens; t++)
            for (int j = 0; j < dim; j++)
                ck_assert(to[0][t * dim + j] == 0.0f || (ids[t] >= 3 && ids[t] < n + 3));
        if (i > 1) {
            compare(&subject, "embed", got[0], expected[0], tokens * dim);
            compare(&subject, "norm", got[1], expected[1], tokens * dim);
            compare(&subject, "norm of 93", got[2], expected[2], tokens * dim);
            compare(&subject, "norm of a long row", got[3], expected[3], tokens * dim);
            compare(&subject, "norm of a long row", got[4], expected[4], tokens * dim - 1);
        }
        for (int r = 0; r < 4; r++)
            compare(&subject, "gather", gathered + r * dim, expected[1] + rows[r] * dim, dim);
        subject_unpack(&subject, &weight, packed);
        subject_close(&subject);
    }
    tensor_free(&tensor);
}
END_TEST

/* A backend may quantize the rows of a norm with it: of the product behind it, and where these are its rows. */
START_TEST(a_product_behind_a_norm_is_of_its_own_rows) {
    static const char *const formats[] = {"q4_0", "awq", "gptq4"};
    enum { rows = 4, n = 24, n_out = rows * n, most = 8448 };
    const uint32_t k = _i < 3 ? 256 : most;
    struct random random = {(uint64_t)_i};
    struct weight_tensor tensor = random_tensor(&random, formats[_i % 3], n, k);
    static float x[2][rows * most], gain[most], expected[5][rows * most], got[5][rows * most];
    struct kernels_limits large = small;
    struct subject subject;
    if (_i % 3 == 2)
        random_order(&random, &tensor);
    fill_random(&random, x[0], (size_t)rows * k);
    fill_random(&random, x[1], (size_t)rows * k);
    fill_random(&random, gain, k);
    large.max_dim = most;
    for (uint32_t i = 0; subject_next(&subject, &i, &large); subject_close(&subject)) {
        const struct kernels *kernels = subject.kernels;
        float(*to)[rows * most] = i == 1 ? expected : got; /* the reference is listed first */
        size_t n_bytes;
        struct weight weight = subject_pack_tensor(&subject, &tensor, &n_bytes);
        const float *at_x = subject_floats(&subject, x[0], (size_t)rows * k);
        const float *at_gain = subject_floats(&subject, gain, k);
        float *normed = subject_floats(&subject, x[1], (size_t)rows * k), *out[4];
        float *other = subject_floats(&subject, x[1], (size_t)rows * k);
        for (int j = 0; j < 4; j++)
            out[j] = subject_floats(&subject, NULL, n_out);
        kernels->norm(subject.ctx, normed, at_x, at_gain, 1e-5f, rows - 1, k);
        kernels->linear(subject.ctx, out[0], n, normed, &weight, rows, EPILOGUE_NONE);
        kernels->norm(subject.ctx, normed, at_x, at_gain, 1e-5f, rows, k);
        kernels->linear(subject.ctx, out[1], n, other, &weight, rows, EPILOGUE_NONE);
        kernels->norm(subject.ctx, normed, at_x, at_gain, 1e-6f, rows, k);
        kernels->linear(subject.ctx, out[2], n, normed, &weight, rows, EPILOGUE_NONE);
        kernels->linear(subject.ctx, out[3], n, normed, &weight, 1, EPILOGUE_NONE);
        for (int j = 0; j < 4; j++)
            subject_read(&subject, to[j], out[j], n_out * sizeof(float));
        subject_read(&subject, to[4], normed, sizeof(float) * rows * k);
        for (int j = 0; i > 1 && subject_is_exact(&subject) && j < 5; j++)
            compare(&subject, "behind a norm", got[j], expected[j], j < 4 ? n_out : rows * k);
        if (i > 1 && !subject_is_exact(&subject))
            subject_expect_near(&subject, "a norm", got[4], expected[4], rows * k);
        subject_unpack(&subject, &weight, n_bytes);
    }
    tensor_free(&tensor);
}
END_TEST

void suite_add(TCase *tests) {
    int n_formats = 0;
    while (quant_table[n_formats])
        n_formats++;
    tcase_add_loop_test(tests, a_product_has_the_same_bits_on_every_path, 0, n_formats);
    tcase_add_test(tests, a_rest_of_a_group_does_not_see_earlier_products);
    tcase_add_loop_test(tests, rows_beyond_those_that_are_integers_at_a_time_are_theirs, 0, 2);
    tcase_add_loop_test(tests, many_rows_at_once_have_the_same_bits, 0, n_formats);
    tcase_add_loop_test(tests, one_and_two_rows_of_many_inputs_have_the_same_bits, 0, n_formats);
    tcase_add_test(tests, one_and_two_rows_that_no_shared_memory_holds_have_the_same_bits);
    tcase_add_test(tests, a_large_product_has_the_same_bits);
    tcase_add_test(tests, merged_and_alternating_parts_equal_their_rows);
    tcase_add_test(tests, impossible_parts_are_refused_with_a_reason);
    tcase_add_loop_test(tests, embeddings_norms_and_gathers_have_the_same_bits, 0, n_formats);
    tcase_add_loop_test(tests, a_product_behind_a_norm_is_of_its_own_rows, 0, 4);
}
