/* Backends with fast numerics round the activations of products with 16-bit floats: to the nearest number of the
 * weights' type, those of binary16 scaled by a power of two a row. What they then add up is the reference's
 * sum of the rounded numbers, in another order, which is the same wherever a row stands. */
#include "kernels/half.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_rounded";
const double suite_timeout_s = 600;

static const struct kernels_limits limits = {
    .max_tokens = 128,
    .max_seqs = 4,
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
    uint32_t k;
    uint32_t rows;
    enum epilogue epilogue;
};

/* Each for one of the tiles of kernels/cuda/gpu/tensor_many.h; the last is as large as fills a GPU. */
static const struct product products[] = {
    {70, 1100, 5, EPILOGUE_SILU_MUL},
    {67, 808, 19, EPILOGUE_ADD},
    {131, 403, 45, EPILOGUE_NONE},
    {16390, 72, 66, EPILOGUE_NONE},
};
#define N_PRODUCTS ((int)(sizeof products / sizeof products[0]))

/* Rows as they are, beyond what binary16 has numbers for on both sides, and so small that the power of two which their
 * largest would ask for is none. */
static void scale_rows(float *x, uint32_t rows, uint32_t k) {
    static const int exponents[] = {0, 20, -40, -113};
    for (size_t i = 0; i < (size_t)rows * k; i++) {
        int exponent = exponents[i / k % 4];
        if (exponent == -113 && fabsf(x[i]) > 1.0f)
            x[i] /= 128.0f;
        x[i] = ldexpf(x[i], exponent);
        x[i] = fabsf(x[i]) < 0x1p-126f ? 0.0f : x[i];
    }
}

/* A row rounded to binary16 while its largest number lies in [2^14, 2^15); the reference itself rounds to bfloat16. */
static void round_row(float *to, const float *x, uint32_t k) {
    float max = 0.0f;
    int exponent;
    for (uint32_t i = 0; i < k; i++)
        max = fmaxf(max, fabsf(x[i]));
    (void)frexpf(max, &exponent);
    int up = 15 - exponent < 126 ? 15 - exponent : 126;
    for (uint32_t i = 0; i < k; i++)
        to[i] = ldexpf(half_to_float(float_to_half(ldexpf(x[i], up))), -up);
}

/* The first outputs of a matrix, `n + 1` to a row of out, with a scale and a bias of each. */
static void multiply(struct subject *subject, const struct weight_tensor *tensor,
                     const struct product *product, const float *x, const float *bias,
                     const float *scale, const float *old, float *out) {
    struct weight_part part = {.tensor = tensor, .n_rows = product->n, .out_step = 1};
    struct weight_source source = {.parts = &part, .n_parts = 1, .k = product->k};
    size_t n_out = (size_t)product->rows * (product->n + 1), n_bytes;
    struct weight weight = subject_pack(subject, &source, &n_bytes);
    float *at_out = subject_floats(subject, old, n_out);
    if (product->epilogue != EPILOGUE_NONE) /* there very small rows tell something */
        weight.bias = subject_floats(subject, bias, product->n);
    weight.scale = subject_floats(subject, scale, product->n);
    subject->kernels->linear(subject->ctx, at_out, product->n + 1,
                             subject_floats(subject, x, (size_t)product->rows * product->k),
                             &weight, product->rows, product->epilogue);
    subject_read(subject, out, at_out, n_out * sizeof *out);
    subject_unpack(subject, &weight, n_bytes);
}

#define NEAR    1e-4 /* of a row's numbers: several times what the order of the additions makes */
#define FLUSHED 0x1p-122 /* numbers this small are not all there */

static void compare(const struct subject *subject, const char *format,
                    const struct product *product, const float *got, const float *expected) {
    uint32_t n = product->epilogue == EPILOGUE_SILU_MUL ? product->n / 2 : product->n;
    for (uint32_t row = 0; row < product->rows; row++) {
        double square = 0;
        for (uint32_t i = 0; i < n; i++)
            square += (double)expected[i] * (double)expected[i];
        double bound = NEAR * sqrt(square / n) + FLUSHED;
        for (uint32_t i = 0; i < n; i++)
            ck_assert_msg(fabs((double)got[i] - (double)expected[i]) <=
                              bound + NEAR * fabs((double)expected[i]),
                          "%s %s: %u x %u, %u rows: output %u of row %u is %a, reference %a",
                          subject->kernels->name, format, product->n, product->k, product->rows, i,
                          row, (double)got[i], (double)expected[i]);
        for (uint32_t i = n; i <= product->n; i++) /* behind a row */
            ck_assert(memcmp(&got[i], &expected[i], sizeof *got) == 0);
        got += product->n + 1;
        expected += product->n + 1;
    }
}

/* The last rows of a product, whose results are `all`: each number of them takes another tile, and so do a few of the
 * outputs. */
static void check_fewer(struct subject *subject, const struct weight_tensor *tensor,
                        const struct product *product, const float *x, const float *bias,
                        const float *scale, const float *all) {
    enum { n = 67, most = 64 };
    static const uint32_t counts[] = {most, 32, 16, 1};
    static float out[most * (n + 1)];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct product fewer = {n, product->k, counts[c], product->epilogue};
        uint32_t first = product->rows - counts[c];
        multiply(subject, tensor, &fewer, x + (size_t)first * product->k, bias, scale, NULL, out);
        for (uint32_t row = 0; row < counts[c]; row++)
            ck_assert_msg(memcmp(out + (size_t)row * (n + 1),
                                 all + (size_t)(first + row) * (product->n + 1),
                                 n * sizeof *out) == 0,
                          "%s: row %u of the last %u has not the bits that it has among %u",
                          subject->kernels->name, row, counts[c], product->rows);
    }
}

START_TEST(products_are_those_of_the_rounded_activations) {
    const struct product *product = &products[_i / 2];
    const char *format = _i % 2 ? "bf16" : "f16";
    struct random random = {product->rows};
    struct weight_tensor tensor = random_tensor(&random, format, product->n, product->k);
    size_t n_x = (size_t)product->rows * product->k;
    size_t n_out = (size_t)product->rows * (product->n + 1);
    float *x = malloc(n_x * sizeof *x), *rounded = malloc(n_x * sizeof *rounded);
    float *old = malloc(n_out * sizeof *old);
    float *bias = malloc(product->n * sizeof *bias), *scale = malloc(product->n * sizeof *scale);
    float *expected = malloc(n_out * sizeof *expected), *got = malloc(n_out * sizeof *got);
    fill_random(&random, x, n_x);
    fill_random(&random, old, n_out);
    fill_random(&random, bias, product->n);
    for (uint32_t i = 0; i < product->n; i++)
        scale[i] = random_unit(random_next(&random)) + 0.5f;
    scale_rows(x, product->rows, product->k);
    memcpy(rounded, x, n_x * sizeof *x);
    for (uint32_t row = 0; _i % 2 == 0 && row < product->rows; row++)
        round_row(rounded + (size_t)row * product->k, x + (size_t)row * product->k, product->k);
    struct subject ref = subject_ref(&limits), subject;
    multiply(&ref, &tensor, product, rounded, bias, scale, old, expected);
    subject_close(&ref);
    for (uint32_t i = 0; subject_next(&subject, &i, &limits); subject_close(&subject)) {
        if (subject_is_exact(&subject))
            continue;
        multiply(&subject, &tensor, product, x, bias, scale, old, got);
        compare(&subject, format, product, got, expected);
        if (product->rows > 64)
            check_fewer(&subject, &tensor, product, x, bias, scale, got);
    }
    tensor_free(&tensor);
    free(x);
    free(rounded);
    free(old);
    free(bias);
    free(scale);
    free(expected);
    free(got);
}
END_TEST

START_TEST(there_is_a_backend_of_fast_numerics) {
    ck_assert(subject_has_fast());
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, there_is_a_backend_of_fast_numerics);
    tcase_add_loop_test(tests, products_are_those_of_the_rounded_activations, 0, 2 * N_PRODUCTS);
}
