/* Backends with fast numerics multiply integers as binary16: weights rounded to it once (of formats whose scales have no
 * binary16, these first), and activations to the nearest number of a row scaled by a power of two. What they then add
 * up is the reference's sum of the rounded numbers, in another order, which is the same wherever a row stands. */
#include "kernels/half.h"
#include "kernels/quant/quant.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_rounded_ints";
const double suite_timeout_s = 600;

static const struct kernels_limits limits = {
    .max_tokens = 128,
    .max_seqs = 64,
    .max_context = 16,
    .max_dim = 1100,
    .n_vocab = 64,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 8,
    .kv_format = KV_F16,
};

struct product {
    uint32_t n;
    uint32_t k; /* or the next that the format can have */
    uint32_t rows;
    enum epilogue epilogue;
};

/* Each for one of the tiles of kernels/cuda/gpu/tensor_many_ints.cu, with inputs that end within a stage of it; the last is
 * as large as fills a GPU. */
static const struct product products[] = {
    {70, 800, 5, EPILOGUE_SILU_MUL},
    {67, 608, 19, EPILOGUE_ADD},
    {131, 416, 45, EPILOGUE_NONE},
    {16390, 96, 70, EPILOGUE_NONE},
};
#define LARGE 3 /* the last */

/* Inputs that share a scale, where the format leaves it open: whole stages of a tile, parts of them, and neither. */
static struct weight_tensor tensor_for(struct random *random, const struct quant_format *format,
                                       const struct product *product, int which) {
    static const uint32_t groups[] = {32, 64, 96, 128, 224};
    uint32_t n = (product->n + 7) / 8 * 8;
    uint32_t k = (product->k + format->block - 1) / format->block * format->block;
    uint32_t group = groups[which % 5] < k ? groups[which % 5] : k;
    struct weight_tensor tensor =
        random_grouped_tensor(random, format->name, n, k, format->sizes ? group : 0);
    if (format->takes_order && which % 2 == 0)
        random_order(random, &tensor);
    return tensor;
}

/* Rows as they are, and beyond what binary16 has numbers for on both sides. */
static void scale_rows(float *x, uint32_t rows, uint32_t k) {
    static const int exponents[] = {0, 20, -40};
    for (size_t i = 0; i < (size_t)rows * k; i++)
        x[i] = ldexpf(x[i], exponents[i / k % 3]);
}

/* A row rounded to binary16 while its largest number lies in [2^14, 2^15). */
static void round_row(float *to, const float *x, uint32_t k) {
    float max = 0.0f;
    int exponent;
    for (uint32_t i = 0; i < k; i++)
        max = fmaxf(max, fabsf(x[i]));
    (void)frexpf(max, &exponent);
    for (uint32_t i = 0; i < k; i++)
        to[i] = ldexpf(half_to_float(float_to_half(ldexpf(x[i], 15 - exponent))), exponent - 15);
}

/* Rows of out are `stride` apart; what lies there before is `old`. */
static void multiply(struct subject *subject, const struct weight *weight,
                     const struct product *product, uint32_t rows, const float *x, const float *old,
                     float *out) {
    size_t stride = product->n + 1, n_out = rows * stride;
    float *at_out = subject_floats(subject, old, n_out);
    subject->kernels->linear(subject->ctx, at_out, stride,
                             subject_floats(subject, x, (size_t)rows * weight->k), weight, rows,
                             product->epilogue);
    subject_read(subject, out, at_out, n_out * sizeof *out);
}

/* The reference's product of rounded numbers. */
static void reference(const struct weight_source *source, const struct product *product,
                      const float *x, const float *old, float *out) {
    struct subject ref = subject_ref(&limits);
    size_t n_bytes;
    struct weight weight = subject_pack(&ref, source, &n_bytes);
    struct weight_tensor tensor = subject_tensor_f32(&ref, &weight);
    subject_unpack(&ref, &weight, n_bytes);
    float *values = (float *)(uintptr_t)tensor.values;
    for (size_t i = 0; i < (size_t)tensor.n * tensor.k; i++)
        values[i] = half_to_float(float_to_half(values[i]));
    weight = subject_pack_tensor(&ref, &tensor, &n_bytes);
    float *rounded = malloc((size_t)product->rows * tensor.k * sizeof *rounded);
    for (uint32_t row = 0; row < product->rows; row++)
        round_row(rounded + (size_t)row * tensor.k, x + (size_t)row * tensor.k, tensor.k);
    multiply(&ref, &weight, product, product->rows, rounded, old, out);
    subject_unpack(&ref, &weight, n_bytes);
    subject_close(&ref);
    tensor_free(&tensor);
    free(rounded);
}

#define NEAR      2e-4 /* of a row's numbers: several times what the order of the additions makes */
#define NEAR_WIDE 2e-2 /* where scales and minima, which nearly cancel, are rounded first */

static void compare(const struct subject *subject, const struct quant_format *format,
                    const struct product *product, const float *got, const float *expected) {
    uint32_t n = product->epilogue == EPILOGUE_SILU_MUL ? product->n / 2 : product->n;
    double bound = format->wide && !format->zeros ? NEAR_WIDE : NEAR;
    for (uint32_t row = 0; row < product->rows; row++) {
        double square = 0;
        for (uint32_t i = 0; i < n; i++)
            square += (double)expected[i] * (double)expected[i];
        double size = sqrt(square / n);
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(fabs((double)got[i] - (double)expected[i]) <=
                              bound * (size + fabs((double)expected[i])),
                          "%s %s: %u x %u, %u rows: output %u of row %u is %a, reference %a",
                          subject->kernels->name, format->name, product->n, product->k,
                          product->rows, i, row, (double)got[i], (double)expected[i]);
        for (uint32_t i = n; i <= product->n; i++) /* behind a row */
            ck_assert(memcmp(&got[i], &expected[i], sizeof *got) == 0);
        got += product->n + 1;
        expected += product->n + 1;
    }
}

/* The last rows alone, whose numbers take other tiles. */
static void check_counts(struct subject *subject, const char *format, const struct weight *weight,
                         const struct product *product, const float *x, const float *old,
                         const float *all) {
    static const uint32_t counts[] = {1, 2, 9, 16, 17, 32, 33, 64};
    size_t stride = product->n + 1;
    float *some = malloc(product->rows * stride * sizeof *some);
    for (size_t c = 0; c < sizeof counts / sizeof *counts && counts[c] < product->rows; c++) {
        size_t first = product->rows - counts[c];
        if (product == &products[LARGE] && counts[c] < 64) /* smaller products show the others */
            continue;
        multiply(subject, weight, product, counts[c], x + first * weight->k, old + first * stride,
                 some);
        ck_assert_msg(memcmp(some, all + first * stride, counts[c] * stride * sizeof *some) == 0,
                      "%s %s: the last %u of %u rows have other bits", subject->kernels->name,
                      format, counts[c], product->rows);
    }
    free(some);
}

static void check_product(const struct quant_format *format, const struct product *product,
                          int which) {
    struct random random = {(uint64_t)which};
    struct weight_tensor tensor = tensor_for(&random, format, product, which);
    struct weight_part part = {.tensor = &tensor, .n_rows = product->n, .out_step = 1};
    const struct weight_source source = {.parts = &part, .n_parts = 1, .k = tensor.k};
    size_t n_x = (size_t)product->rows * tensor.k;
    size_t n_out = (size_t)product->rows * (product->n + 1);
    float *x = malloc(n_x * sizeof *x), *old = malloc(n_out * sizeof *old);
    float *expected = malloc(n_out * sizeof *expected), *got = malloc(n_out * sizeof *got);
    fill_random(&random, x, n_x);
    fill_random(&random, old, n_out);
    if (product->epilogue != EPILOGUE_ADD)
        scale_rows(x, product->rows, tensor.k);
    reference(&source, product, x, old, expected);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); subject_close(&subject)) {
        size_t n_bytes;
        if (subject_is_exact(&subject))
            continue;
        struct weight weight = subject_pack(&subject, &source, &n_bytes);
        multiply(&subject, &weight, product, product->rows, x, old, got);
        compare(&subject, format, product, got, expected);
        check_counts(&subject, format->name, &weight, product, x, old, got);
        subject_unpack(&subject, &weight, n_bytes);
    }
    tensor_free(&tensor);
    free(x);
    free(old);
    free(expected);
    free(got);
}

static bool is_integers(const struct quant_format *format) {
    return format->packed == WEIGHT_I4G || format->packed == WEIGHT_I8G;
}

START_TEST(products_are_those_of_rounded_weights_and_activations) {
    for (int i = 0; is_integers(quant_table[_i]) && i < LARGE; i++)
        check_product(quant_table[_i], &products[i], 3 * _i + i);
}
END_TEST

/* It takes seconds: of 4 and of 8 bits, with few scales and with many. */
START_TEST(large_products_are_those_of_rounded_weights_and_activations) {
    static const char *const formats[] = {"awq", "q6_k"};
    check_product(quant_find(formats[_i]), &products[LARGE], _i);
}
END_TEST

START_TEST(there_is_a_backend_of_fast_numerics) {
    ck_assert(subject_has_fast());
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, there_is_a_backend_of_fast_numerics);
    int n_formats = 0;
    while (quant_table[n_formats])
        n_formats++;
    tcase_add_loop_test(tests, products_are_those_of_rounded_weights_and_activations, 0, n_formats);
    tcase_add_loop_test(tests, large_products_are_those_of_rounded_weights_and_activations, 0, 2);
}
