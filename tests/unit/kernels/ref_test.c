/* The reference backend against the same mathematics in double. */
#include "kernels/numbers.h"
#include "kernels/quant/quant.h"
#include "tests/support/dequantize.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "kernels_ref";
const double suite_timeout_s = 120;

static const struct kernels_limits limits = {
    .max_tokens = 512,
    .max_seqs = 4,
    .max_context = 512,
    .max_dim = 512,
    .n_vocab = 512,
    .n_heads = 6,
    .n_kv_heads = 2,
    .head_dim = 32,
    .kv_format = KV_F16,
};

/* How far off an activation may be: half a step of its group's largest value, and where it comes in
 * two terms half a step of what the first one leaves. */
static double activation_error(const struct quant_format *format, const float *x, uint32_t i,
                               uint32_t k) {
    double max = 0.0;
    for (uint32_t g = i / GROUP * GROUP; g < k && g < (i / GROUP + 1) * GROUP; g++)
        max = fabs((double)x[g]) > max ? fabs((double)x[g]) : max;
    if (!format->unpack_group)
        return fabs((double)x[i]) * (format->packed == WEIGHT_BF16 ? 0x1p-8 : 1e-6);
    bool two_terms = format->fine || format->packed == WEIGHT_I8G;
    return max / 127.0 * 0.501 * (two_terms ? 0.501 / 127.0 : 1.0);
}

static const uint32_t widths[] = {512, 172, 45};
#define N_WIDTHS 3

START_TEST(products_are_as_exact_as_their_activations) {
    const struct quant_format *format = quant_table[_i / N_WIDTHS];
    enum { n = 24, k_max = 512 };
    const uint32_t k = (widths[_i % N_WIDTHS] + format->block - 1) / format->block * format->block;
    struct random random = {(uint64_t)_i + 9};
    struct weight_tensor tensor = random_tensor(&random, format->name, n, k);
    static double w[n * k_max];
    static float x[k_max];
    float out[n];
    for (uint32_t i = 0; i < n * k; i++)
        w[i] = dequantize(&tensor, i / k, i % k);
    fill_random(&random, x, k);
    struct subject ref = subject_ref(&limits);
    size_t packed;
    struct weight weight = subject_pack_tensor(&ref, &tensor, &packed);
    ref.kernels->linear(ref.ctx, out, n, x, &weight, 1, EPILOGUE_NONE);
    for (uint32_t i = 0; i < n; i++) {
        double exact = 0.0;
        double allowed = 1e-30;
        for (uint32_t j = 0; j < k; j++) {
            double step = activation_error(format, x, j, k);
            exact += w[(size_t)i * k + j] * (double)x[j];
            allowed += fabs(w[(size_t)i * k + j]) * (step + fabs((double)x[j]) * 1e-5);
        }
        ck_assert_msg(fabs((double)out[i] - exact) <= allowed, "%s: %g, exactly %g, allowed %g",
                      format->name, (double)out[i], exact, allowed);
        /* The worst case is far off: the usual error is a small part of it. */
        ck_assert(fabs((double)out[i] - exact) <= (k < 512 ? 0.5 : 0.35) * allowed);
    }
    subject_unpack(&ref, &weight, packed);
    subject_close(&ref);
    tensor_free(&tensor);
}
END_TEST

START_TEST(epilogues_add_and_gate) {
    enum { n = 8, k = 32 };
    struct random random = {3};
    struct weight_tensor tensor = random_tensor(&random, "f32", n, k);
    float x[2 * k];
    float bias[n];
    float y[2 * n];
    float plain[2 * n];
    fill_random(&random, x, (size_t)2 * k);
    fill_random(&random, bias, n);
    struct subject ref = subject_ref(&limits);
    size_t packed;
    struct weight weight = subject_pack_tensor(&ref, &tensor, &packed);
    ref.kernels->linear(ref.ctx, plain, n, x, &weight, 2, EPILOGUE_NONE);
    weight.bias = bias;
    for (int i = 0; i < 2 * n; i++)
        y[i] = (float)i;
    ref.kernels->linear(ref.ctx, y, n, x, &weight, 2, EPILOGUE_ADD);
    for (int i = 0; i < 2 * n; i++)
        ck_assert_float_eq(y[i], (float)i + (plain[i] + bias[i % n]));
    ref.kernels->linear(ref.ctx, y, n / 2, x, &weight, 2, EPILOGUE_SILU_MUL);
    for (int row = 0; row < 2; row++)
        for (int i = 0; i < n / 2; i++) {
            double gate = (double)(plain[row * n + 2 * i] + bias[2 * i]);
            double up = (double)(plain[row * n + 2 * i + 1] + bias[2 * i + 1]);
            ck_assert_double_eq_tol((double)y[row * n / 2 + i], gate / (1.0 + exp(-gate)) * up,
                                    1e-5 * (1.0 + fabs(gate * up)));
        }
    subject_unpack(&ref, &weight, packed);
    subject_close(&ref);
    tensor_free(&tensor);
}
END_TEST

START_TEST(norm_is_x_over_its_root_mean_square) {
    enum { rows = 3, dim = 100 };
    struct random random = {4};
    float x[rows * dim];
    float gain[dim];
    float out[rows * dim];
    fill_random(&random, x, rows * dim);
    fill_random(&random, gain, dim);
    struct subject ref = subject_ref(&limits);
    ref.kernels->norm(ref.ctx, out, x, gain, 1e-5f, rows, dim);
    for (int r = 0; r < rows; r++) {
        double squares = 0.0;
        for (int i = 0; i < dim; i++)
            squares += (double)x[r * dim + i] * (double)x[r * dim + i];
        for (int i = 0; i < dim; i++) {
            double exact = (double)x[r * dim + i] / sqrt(squares / dim + 1e-5) * (double)gain[i];
            ck_assert_double_eq_tol((double)out[r * dim + i], exact, 1e-6 * (1.0 + fabs(exact)));
        }
    }
    subject_close(&ref);
}
END_TEST

void suite_add(TCase *tests) {
    int n_formats = 0;
    while (quant_table[n_formats])
        n_formats++;
    tcase_add_loop_test(tests, products_are_as_exact_as_their_activations, 0, n_formats * N_WIDTHS);
    tcase_add_test(tests, epilogues_add_and_gate);
    tcase_add_test(tests, norm_is_x_over_its_root_mean_square);
}
