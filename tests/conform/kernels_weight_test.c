/* Groups, orders of inputs, cuts and merges of quantized matrices: every backend and instruction
 * set keeps each weight exactly as its format's formula says, and gives the reference's bits. */
#include "kernels/numbers.h"
#include "kernels/quant/quant.h"
#include "tests/support/dequantize.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_weight";
const double suite_timeout_s = 600;

#define ROWS  9
#define K_MAX 768
#define N_MAX 48

static const struct kernels_limits limits = {
    .max_tokens = 64,
    .max_seqs = 64,
    .max_context = 16,
    .max_dim = 608, /* less than some matrices store */
    .n_vocab = 64,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 16,
    .kv_format = KV_F16,
};

struct matrix_case {
    const char *format;
    uint32_t k; /* of the tensor */
    uint32_t group;
    bool has_order;
    uint32_t k_begin; /* the cut */
    uint32_t k_cut;
    uint32_t stride; /* expected in struct weight */
    uint32_t k_stored;
};

static struct weight_tensor tensor_of(struct random *random, const struct matrix_case *test) {
    struct weight_tensor tensor =
        random_grouped_tensor(random, test->format, N_MAX, test->k, test->group);
    if (test->has_order)
        random_order(random, &tensor);
    return tensor;
}

/* The row of the source that each output is, in double. */
static void expected_weights(const struct weight_source *source, uint32_t n, float *w) {
    for (uint32_t i = 0; i < source->n_parts; i++)
        for (uint32_t row = 0; row < source->parts[i].n_rows; row++) {
            const struct weight_part *part = &source->parts[i];
            uint32_t out = part->out_begin + row * part->out_step;
            ck_assert_uint_lt(out, n);
            for (uint32_t j = 0; j < source->k; j++)
                w[(size_t)out * source->k + j] =
                    (float)dequantize(part->tensor, part->row_begin + row, source->k_begin + j);
        }
}

/* A row read back is the formula's value, rounded once to float32. */
static void check_weights(struct subject *subject, const struct weight *weight,
                          const float *expected) {
    uint32_t ids[N_MAX];
    size_t n = (size_t)weight->n * weight->k;
    float *rows = malloc(n * sizeof *rows), *at_rows = subject_floats(subject, NULL, n);
    for (uint32_t i = 0; i < weight->n; i++)
        ids[i] = i;
    struct kernels_step step = subject_begin_ids(subject, ids, weight->n);
    subject->kernels->embed(subject->ctx, at_rows, weight, &step.batch, 0);
    subject_end(subject);
    subject_read(subject, rows, at_rows, n * sizeof *rows);
    for (uint32_t i = 0; i < weight->n; i++)
        for (uint32_t j = 0; j < weight->k; j++) {
            size_t at = (size_t)i * weight->k + j;
            if (rows[at] != expected[at]) /* an assertion for each would take most of the time */
                ck_abort_msg("%s %s: weight %u of output %u: %a, not %a", subject->kernels->name,
                             subject->isa ? subject->isa : "", j, i, (double)rows[at],
                             (double)expected[at]);
        }
    free(rows);
}

#define STRIDE    (N_MAX + 5)
#define N_RESULTS (3 * ROWS * STRIDE) /* of three epilogues */

static const enum epilogue epilogues[] = {EPILOGUE_NONE, EPILOGUE_ADD, EPILOGUE_SILU_MUL};

/* Products with a scale and a bias, rows apart; one by one, or 3 and the others. */
static void multiply(struct subject *subject, struct weight weight, const float *x, bool one_by_one,
                     float out[N_RESULTS]) {
    float scale[N_MAX];
    float bias[N_MAX];
    struct random random = {weight.k};
    fill_random(&random, scale, N_MAX);
    fill_random(&random, bias, N_MAX);
    const float *at_scale = subject_floats(subject, scale, N_MAX);
    const float *at_bias = subject_floats(subject, bias, N_MAX);
    const float *at_x = subject_floats(subject, x, (size_t)ROWS * weight.k);
    float *at_out = subject_floats(subject, NULL, (size_t)ROWS * STRIDE);
    for (uint32_t e = 0; e < 3; e++, out += ROWS * STRIDE) {
        for (uint32_t i = 0; i < ROWS * STRIDE; i++)
            out[i] = (float)(i % 13);
        if (epilogues[e] == EPILOGUE_SILU_MUL && weight.n % 2 != 0)
            continue;
        weight.scale = e == 0 ? NULL : at_scale;
        weight.bias = e == 1 ? NULL : at_bias;
        subject_write(subject, at_out, out, sizeof(float[ROWS * STRIDE]));
        for (uint32_t row = 0, m; row < ROWS; row += m) {
            m = one_by_one ? 1 : (row == 0 ? 3 : ROWS - row);
            subject->kernels->linear(subject->ctx, at_out + (size_t)row * STRIDE, STRIDE,
                                     at_x + (size_t)row * weight.k, &weight, m, epilogues[e]);
        }
        subject_read(subject, out, at_out, sizeof(float[ROWS * STRIDE]));
    }
}

/* The reference's results, and what others are near to. */
static void multiply_reference(struct subject *ref, const struct weight_source *source,
                               const struct weight *weight, const float *x,
                               float expected[N_RESULTS], float near_to[N_RESULTS]) {
    size_t n_bytes;
    struct weight near_weight = subject_pack_near(ref, source, &n_bytes);
    multiply(ref, *weight, x, true, expected);
    multiply(ref, near_weight, x, true, near_to);
    subject_unpack(ref, &near_weight, n_bytes);
}

static void check_products(struct subject *subject, const struct weight *weight, const float *x,
                           const float expected[N_RESULTS], const float near_to[N_RESULTS]) {
    static float out[N_RESULTS];
    multiply(subject, *weight, x, false, out);
    for (uint32_t at = 0; !subject_is_exact(subject) && at < N_RESULTS; at += ROWS * STRIDE)
        subject_expect_near(subject, "a product", out + at, near_to + at, ROWS * STRIDE);
    for (uint32_t i = 0; subject_is_exact(subject) && i < N_RESULTS; i++)
        if (memcmp(&out[i], &expected[i], sizeof *out) != 0)
            ck_abort_msg("%s %s, %u threads: epilogue %u: row %u, output %u: %a, not %a",
                         subject->kernels->name, subject->isa ? subject->isa : "",
                         subject->n_threads, i / (ROWS * STRIDE), i / STRIDE % ROWS, i % STRIDE,
                         (double)out[i], (double)expected[i]);
}

/* Under sanitizers, where each takes seconds, one number of threads a width. */
static bool is_checked(const struct subject *subject, uint32_t k) {
#ifdef TANDEM_SANITIZED
    return !subject->isa || subject->n_threads == k % 3 + 1;
#else
    (void)subject, (void)k;
    return true;
#endif
}

/* All subjects against the formula and the first of them, which is the reference. */
static struct weight check_source(const struct weight_source *source, uint32_t n) {
    struct random random = {source->k};
    float *w = malloc((size_t)n * source->k * sizeof *w);
    float *x = malloc((size_t)ROWS * source->k * sizeof *x);
    static float expected[N_RESULTS], near_to[N_RESULTS];
    expected_weights(source, n, w);
    fill_random(&random, x, (size_t)ROWS * source->k);
    struct weight shape = {0};
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); subject_close(&subject)) {
        size_t n_bytes;
        if (!is_checked(&subject, source->k))
            continue;
        struct weight weight = subject_pack(&subject, source, &n_bytes);
        bool is_first = shape.n == 0;
        ck_assert_uint_eq(weight.n, n);
        ck_assert_uint_eq(weight.k, source->k);
        ck_assert(is_first || (weight.k_stored == shape.k_stored && weight.group == shape.group &&
                               weight.wide == shape.wide && weight.has_min == shape.has_min &&
                               weight.format == shape.format));
        shape = weight;
        check_weights(&subject, &weight, w);
        if (is_first)
            multiply_reference(&subject, source, &weight, x, expected, near_to);
        else
            check_products(&subject, &weight, x, expected, near_to);
        subject_unpack(&subject, &weight, n_bytes);
    }
    free(w);
    free(x);
    return shape;
}

static const struct matrix_case cases[] = {
    {"awq", 256, 32, false, 0, 256, 32, 256},
    {"awq", 256, 64, false, 0, 256, 64, 256},
    {"awq", 384, 128, false, 0, 384, 128, 384},
    {"awq", 384, 384, false, 0, 384, 384, 384},
    {"awq", 384, UINT32_MAX, false, 0, 384, 384, 384},
    {"awq", 352, 128, false, 0, 352, 128, 352}, /* the last group is a part of one */
    {"awq", 608, 96, false, 0, 608, 96, 608},   /* a scale's inputs lie in two stages */
    {"gptq8", 320, 96, false, 0, 320, 96, 320}, /* of the CUDA kernel for few rows */
    {"awq", 512, 128, false, 128, 256, 128, 256},
    {"awq", 512, 128, false, 64, 384, 64, 384}, /* cuts inside groups */
    {"awq", 512, 128, false, 160, 192, 32, 192},
    {"awq", 512, 128, false, 160, 96, 96, 96}, /* within one group */
    {"awq", 512, 128, false, 160, 32, 32, 32},
    {"awq", 512, 256, false, 288, 192, 192, 192},
    {"gptq4", 256, 32, false, 0, 256, 32, 256},
    {"gptq4", 384, 128, false, 128, 256, 128, 256},
    {"gptq4_v2", 384, 64, false, 32, 320, 32, 320},
    {"gptq4", 480, UINT32_MAX, false, 0, 480, 480, 480},
    {"gptq8", 384, 128, false, 0, 384, 128, 384},
    {"gptq8", 384, 32, false, 96, 160, 32, 160},
    {"gptq8_v2", 384, 384, false, 64, 192, 192, 192},
    {"gptq4", 256, 32, true, 0, 256, 32, 256},
    {"gptq4_v2", 384, 128, true, 0, 384, 128, 384},
    {"gptq4", 352, 128, true, 0, 352, 128, 352},
    {"gptq8", 384, 128, true, 0, 384, 128, 384},
    {"gptq4", 512, 128, true, 128, 256, 0, 0}, /* cuts of an order: groups are filled up */
    {"gptq4", 768, 32, true, 96, 192, 32, 0},
    {"gptq8", 512, 64, true, 32, 160, 0, 0},
    {"gptq8_v2", 768, 32, true, 384, 384, 32, 0},
    {"gptq4", 384, 384, true, 32, 96, 96, 96},
    {"gptq4_sym", 512, 128, false, 64, 384, 64, 384},
    {"gptq8_sym", 512, 64, true, 32, 160, 0, 0},
    {"q4_0", 192, 0, false, 64, 96, 32, 96},
    {"q5_1", 192, 0, false, 160, 32, 32, 32},
    {"q8_0", 192, 0, false, 32, 160, 32, 160},
    {"q4_k", 768, 0, false, 256, 256, 32, 256},
    {"q5_k", 768, 0, false, 256, 512, 32, 512},
    {"q6_k", 768, 0, false, 512, 256, 16, 256},
    {"f16", 192, 0, false, 32, 96, 0, 96},
    {"bf16", 192, 0, false, 64, 128, 0, 128},
    {"awq", 200, 200, false, 0, 200, 224, 224}, /* no whole groups of 32 */
    {"awq", 200, 64, false, 0, 200, 64, 224},
    {"awq", 45, UINT32_MAX, false, 0, 45, 64, 64},
    {"awq", 200, 64, false, 100, 100, 32, 128}, /* cuts that begin within one */
    {"awq", 172, UINT32_MAX, false, 43, 43, 64, 64},
    {"awq", 512, 128, false, 130, 4, 32, 32},
    {"gptq4", 200, 32, false, 100, 100, 32, 128},
    {"gptq4_v2", 136, 136, false, 68, 68, 96, 96},
    {"gptq8", 172, 64, false, 86, 86, 64, 128},
    {"gptq8_v2", 44, 44, false, 43, 1, 32, 32},
    {"gptq4", 200, 32, true, 0, 200, 32, 224},
    {"gptq4_v2", 200, 64, true, 100, 100, 0, 0},
    {"gptq8", 172, 32, true, 43, 43, 0, 0},
    {"gptq8_v2", 172, 172, true, 1, 170, 192, 192},
    {"q4_0", 96, 0, false, 48, 48, 32, 64}, /* and within a block */
    {"q4_1", 96, 0, false, 0, 48, 32, 64},
    {"q5_0", 96, 0, false, 90, 6, 32, 32},
    {"q5_1", 96, 0, false, 24, 24, 32, 64},
    {"q8_0", 192, 0, false, 72, 88, 32, 96},
    {"q4_k", 768, 0, false, 384, 384, 32, 384},
    {"q5_k", 512, 0, false, 32, 224, 32, 224},
    {"q5_k", 512, 0, false, 100, 100, 32, 128},
    {"q6_k", 512, 0, false, 224, 288, 16, 288},
    {"q6_k", 512, 0, false, 100, 100, 16, 128},
    {"q6_k", 512, 0, false, 112, 16, 16, 32}, /* a second half alone */
    {"f32", 45, 0, false, 0, 45, 0, 45},
    {"f32", 172, 0, false, 129, 43, 0, 43},
    {"f16", 172, 0, false, 43, 86, 0, 86},
    {"bf16", 45, 0, false, 0, 45, 0, 64},
    {"bf16", 172, 0, false, 43, 86, 0, 96},
    {"bf16", 33, 0, false, 32, 1, 0, 32},
};

START_TEST(groups_cuts_and_orders_keep_every_weight) {
    const struct matrix_case *test = &cases[_i];
    struct random random = {(uint64_t)_i + 100};
    struct weight_tensor tensor = tensor_of(&random, test);
    const struct weight_part part = {
        .tensor = &tensor, .row_begin = 3, .n_rows = 37 + _i % 2, .out_step = 1};
    const struct weight_source source = {&part, 1, test->k_begin, test->k_cut, false};
    struct weight shape = check_source(&source, part.n_rows);
    if (test->stride)
        ck_assert_uint_eq(shape.group, test->stride);
    if (test->k_stored)
        ck_assert_uint_eq(shape.k_stored, test->k_stored);
    ck_assert_uint_ge(shape.k_stored, test->k_cut);
    if (test->has_order && !test->k_stored)
        ck_assert_uint_gt(shape.k_stored, test->k_cut);
    tensor_free(&tensor);
}
END_TEST

START_TEST(merged_and_alternating_formats_keep_every_weight) {
    static const struct {
        const char *formats[3];
        uint32_t groups[3];
        uint32_t stride;
        bool wide;
        bool has_min;
    } mixes[] = {{{"q4_0", "q4_k", "q4_1"}, {0}, 32, true, true},
                 {{"awq", "q4_k", "gptq4"}, {128, 0, 64}, 32, true, true},
                 {{"awq", "gptq4_v2", "awq"}, {128, 64, 256}, 64, true, true},
                 {{"q5_0", "q8_0", "q5_0"}, {0}, 32, false, false},
                 {{"q5_0", "q5_1", "q8_0"}, {0}, 32, false, true},
                 {{"q8_0", "q5_k", "gptq8"}, {0, 0, 128}, 32, true, true},
                 {{"q6_k", "q8_0", "q5_0"}, {0}, 16, true, false}};
    struct random random = {(uint64_t)_i + 7};
    struct weight_tensor tensors[3];
    for (int i = 0; i < 3; i++)
        tensors[i] =
            random_grouped_tensor(&random, mixes[_i].formats[i], 24, 512, mixes[_i].groups[i]);
    const struct weight_part parts[] = {
        {.tensor = &tensors[0], .row_begin = 2, .n_rows = 9, .out_begin = 0, .out_step = 2},
        {.tensor = &tensors[1], .row_begin = 13, .n_rows = 9, .out_begin = 1, .out_step = 2},
        {.tensor = &tensors[2], .row_begin = 1, .n_rows = 8, .out_begin = 18, .out_step = 1}};
    const struct weight_source source = {parts, 3, 256, 256, false};
    struct weight shape = check_source(&source, 26);
    ck_assert_uint_eq(shape.group, mixes[_i].stride);
    ck_assert(shape.wide == mixes[_i].wide && shape.has_min == mixes[_i].has_min);
    for (int i = 0; i < 3; i++)
        tensor_free(&tensors[i]);
}
END_TEST

START_TEST(parts_of_one_order_merge_and_of_two_do_not) {
    struct random random = {5};
    struct weight_tensor tensors[3];
    for (int i = 0; i < 3; i++) {
        tensors[i] = random_grouped_tensor(&random, i == 1 ? "gptq4_v2" : "gptq4", 16, 256, 64);
        random_order(&random, &tensors[i]);
    }
    struct weight_tensor plain = random_grouped_tensor(&random, "gptq4", 16, 256, 64);
    memcpy((void *)(uintptr_t)tensors[1].group_of, tensors[0].group_of, 256 * sizeof(int32_t));
    struct weight_part parts[] = {
        {.tensor = &tensors[0], .n_rows = 16, .out_step = 2},
        {.tensor = &tensors[1], .n_rows = 15, .out_begin = 1, .out_step = 2},
        {.tensor = &tensors[1], .row_begin = 15, .n_rows = 1, .out_begin = 31}};
    const struct weight_source source = {parts, 3, 0, 256, false};
    struct weight shape = check_source(&source, 32);
    ck_assert_uint_eq(shape.group, 64);
    const struct weight_tensor *strangers[] = {&tensors[2], &plain};
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        for (int j = 0; j < 2; j++) {
            struct error error = {0};
            parts[2].tensor = strangers[j];
            ck_assert_uint_eq(subject.kernels->weight_size(&source, &error), 0);
            ck_assert_ptr_nonnull(strstr(error.text, "act-order differs"));
        }
        subject_close(&subject);
    }
    for (int i = 0; i < 3; i++)
        tensor_free(&tensors[i]);
    tensor_free(&plain);
}
END_TEST

START_TEST(absent_zero_and_plain_lists_of_groups_are_one) {
    struct random random = {6};
    struct weight_tensor tensor = random_grouped_tensor(&random, "gptq4", 16, 256, 64);
    int32_t *groups = calloc(256, sizeof *groups);
    const struct weight_part part = {.tensor = &tensor, .n_rows = 16, .out_step = 1};
    const struct weight_source source = {&part, 1, 64, 128, false};
    struct weight shape = check_source(&source, 16);
    ck_assert(shape.group == 64 && !shape.order);
    tensor.group_of = groups;
    shape = check_source(&source, 16);
    ck_assert(shape.group == 64 && !shape.order);
    for (int32_t i = 0; i < 256; i++)
        groups[i] = i / 64;
    shape = check_source(&source, 16);
    ck_assert(shape.group == 64 && !shape.order);
    groups[255] = 0; /* one input elsewhere makes an order */
    shape = check_source(&source, 16);
    ck_assert_ptr_nonnull(shape.order);
    tensor_free(&tensor);
}
END_TEST

START_TEST(symmetric_eight_bits_have_no_minima) {
    struct random random = {8};
    struct weight_tensor tensor = random_grouped_tensor(&random, "gptq8", 16, 256, 128);
    const struct weight_part part = {.tensor = &tensor, .n_rows = 16, .out_step = 1};
    const struct weight_source source = {&part, 1, 0, 256, false};
    ck_assert(check_source(&source, 16).has_min);
    memset((void *)(uintptr_t)tensor.zeros, 0x7f, tensor.n_zero_bytes);
    ck_assert(!check_source(&source, 16).has_min);
    tensor.format = "gptq8_v2";
    ck_assert(check_source(&source, 16).has_min);
    memset((void *)(uintptr_t)tensor.zeros, 0x80, tensor.n_zero_bytes);
    ck_assert(!check_source(&source, 16).has_min);
    tensor_free(&tensor);
}
END_TEST

START_TEST(exact_floats_are_float32) {
    struct random random = {9};
    static const char *const formats[] = {"f16", "bf16", "f32"};
    struct weight_tensor tensors[3];
    struct weight_part parts[3];
    for (uint32_t i = 0; i < 3; i++) {
        tensors[i] = random_tensor(&random, formats[i], 8, 96);
        parts[i] = (struct weight_part){
            .tensor = &tensors[i], .n_rows = 8, .out_begin = 8 * i, .out_step = 1};
    }
    ck_assert_int_eq(check_source(&(struct weight_source){parts, 1, 0, 96, false}, 8).format,
                     WEIGHT_F16);
    ck_assert_int_eq(check_source(&(struct weight_source){parts, 1, 0, 96, true}, 8).format,
                     WEIGHT_F32);
    ck_assert_int_eq(check_source(&(struct weight_source){parts, 3, 0, 96, false}, 24).format,
                     WEIGHT_F32);
    for (int i = 0; i < 3; i++)
        tensor_free(&tensors[i]);
}
END_TEST

static void expect_refusal(const struct weight_tensor *tensor, uint32_t k_begin, uint32_t k) {
    const struct weight_part part = {.tensor = tensor, .n_rows = tensor->n, .out_step = 1};
    const struct weight_source source = {&part, 1, k_begin, k, false};
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        struct error error = {0};
        if (subject.n_threads == 1) {
            ck_assert_uint_eq(subject.kernels->weight_size(&source, &error), 0);
            ck_assert_int_ne(error.text[0], 0);
        }
        subject_close(&subject);
    }
}

/* The arrays are of their exact size, so that a read past an end is seen by the sanitizer. */
START_TEST(broken_tensors_are_refused) {
    static const char *const formats[] = {"awq", "gptq4", "gptq8"};
    const char *format = formats[_i];
    struct random random = {10};
    struct weight_tensor good = random_grouped_tensor(&random, format, 16, 256, 64);
    struct weight_tensor bad = good;
    for (int delta = -1; delta <= 1; delta += 2) {
        bad.n_value_bytes = good.n_value_bytes + (size_t)delta;
        expect_refusal(&bad, 0, 256);
        bad = good;
        bad.n_scale_bytes = good.n_scale_bytes + (size_t)(2 * delta);
        expect_refusal(&bad, 0, 256);
        bad = good;
        bad.n_zero_bytes = good.n_zero_bytes + (size_t)(4 * delta);
        expect_refusal(&bad, 0, 256);
        bad = good;
        bad.n = good.n + (uint32_t)(8 * delta);
        expect_refusal(&bad, 0, 256);
        bad = good;
        bad.k = good.k + (uint32_t)(32 * delta);
        expect_refusal(&bad, 0, 224);
        bad = good;
    }
    bad.scales = NULL;
    expect_refusal(&bad, 0, 256);
    bad = good;
    bad.zeros = NULL;
    expect_refusal(&bad, 0, 256);
    bad = good;
    bad.values = NULL;
    expect_refusal(&bad, 0, 256);
    bad = good;
    static const uint32_t groups[] = {0, 48, 32, 128, 16, UINT32_MAX};
    for (int i = 0; i < 6; i++) {
        bad.group = groups[i];
        expect_refusal(&bad, 0, 256);
    }
    bad = good;
    bad.n = 17;
    expect_refusal(&bad, 0, 256);
    bad = good;
    bad.k = 255;
    expect_refusal(&bad, 0, 224);
    tensor_free(&good);
}
END_TEST

START_TEST(groups_out_of_range_are_refused) {
    struct random random = {11};
    struct weight_tensor tensor = random_grouped_tensor(&random, "gptq4", 16, 256, 64);
    random_order(&random, &tensor);
    int32_t *groups = (int32_t *)(uintptr_t)tensor.group_of;
    static const int32_t wrong[] = {4, -1, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        int32_t right = groups[200];
        groups[200] = wrong[i]; /* outside of the cut, too */
        expect_refusal(&tensor, 0, 256);
        expect_refusal(&tensor, 0, 128);
        groups[200] = right;
    }
    tensor_free(&tensor);
}
END_TEST

START_TEST(some_forms_cannot_be_merged) {
    struct random random = {12};
    struct weight_tensor k = random_tensor(&random, "q4_k", 8, 512);
    expect_refusal(&k, 0, 513);
    expect_refusal(&k, 511, 2);
    expect_refusal(&k, 512, 1);
    expect_refusal(&k, 4, 0);
    struct weight_tensor six = random_tensor(&random, "q6_k", 8, 512);
    struct weight_tensor five = random_tensor(&random, "q5_k", 8, 512);
    const struct weight_tensor *pairs[][2] = {{&k, &six}, {&six, &five}};
    struct subject subject = subject_ref(&limits);
    for (int i = 0; i < 2; i++) {
        const struct weight_part parts[] = {
            {.tensor = pairs[i][0], .n_rows = 8, .out_step = 1},
            {.tensor = pairs[i][1], .n_rows = 8, .out_begin = 8, .out_step = 1}};
        const struct weight_source source = {parts, 2, 0, 512, false};
        struct error error = {0};
        ck_assert_uint_eq(subject.kernels->weight_size(&source, &error), 0);
        ck_assert_ptr_nonnull(strstr(error.text, "cannot be merged"));
    }
    subject_close(&subject);
    tensor_free(&k);
    tensor_free(&six);
    tensor_free(&five);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, groups_cuts_and_orders_keep_every_weight, 0,
                        sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(tests, merged_and_alternating_formats_keep_every_weight, 0, 7);
    tcase_add_test(tests, parts_of_one_order_merge_and_of_two_do_not);
    tcase_add_test(tests, absent_zero_and_plain_lists_of_groups_are_one);
    tcase_add_test(tests, symmetric_eight_bits_have_no_minima);
    tcase_add_test(tests, exact_floats_are_float32);
    tcase_add_loop_test(tests, broken_tensors_are_refused, 0, 3);
    tcase_add_test(tests, groups_out_of_range_are_refused);
    tcase_add_test(tests, some_forms_cannot_be_merged);
}
