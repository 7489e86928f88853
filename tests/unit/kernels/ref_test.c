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
};

START_TEST(products_are_as_exact_as_their_activations) {
    const struct quant_format *format = quant_table[_i];
    enum { n = 24, k = 512 };
    struct random random = {(uint64_t)_i + 9};
    struct weight_tensor tensor = random_tensor(&random, format->name, n, k);
    static double w[n * k];
    static float x[k];
    float out[n];
    for (uint32_t i = 0; i < n * k; i++)
        w[i] = dequantize(&tensor, i / k, i % k);
    fill_random(&random, x, k);
    struct subject ref = subject_ref(&limits);
    size_t packed;
    struct weight weight = subject_pack_tensor(&ref, &tensor, &packed);
    ref.kernels->linear(ref.ctx, out, n, x, &weight, 1, EPILOGUE_NONE);
    for (int i = 0; i < n; i++) {
        double exact = 0.0;
        double allowed = 1e-30;
        for (int j = 0; j < k; j++) {
            double max = 0.0; /* of the group: activations are off by half a step at most */
            for (int g = j / GROUP * GROUP; g < (j / GROUP + 1) * GROUP; g++)
                max = fabs((double)x[g]) > max ? fabs((double)x[g]) : max;
            double step = format->unpack_group            ? max / 127.0 * 0.501
                          : format->packed == WEIGHT_BF16 ? fabs((double)x[j]) * 0x1p-8
                                                          : fabs((double)x[j]) * 1e-6;
            exact += w[(size_t)i * k + j] * (double)x[j];
            allowed += fabs(w[(size_t)i * k + j]) * (step + fabs((double)x[j]) * 1e-5);
        }
        ck_assert_msg(fabs((double)out[i] - exact) <= allowed, "%s: %g, exactly %g, allowed %g",
                      format->name, (double)out[i], exact, allowed);
        /* The worst case is far off: the usual error is a small part of it. */
        ck_assert(fabs((double)out[i] - exact) <= 0.25 * allowed);
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

#define TOKENS 300
#define WIDTH  ((6 + 2 * 2) * 32)

struct attention_case {
    enum rope_layout layout;
    uint32_t dims;
    uint32_t window;
    bool has_alibi;
};

/* Rotation in double of one head. */
static void rotate_head(const struct attention_case *test, double *x, uint32_t position) {
    double before[32];
    memcpy(before, x, sizeof before);
    uint32_t half = test->dims / 2;
    for (uint32_t i = 0; i < half && test->layout != ROPE_NONE; i++) {
        double angle = position * pow(10000.0, -2.0 * i / test->dims);
        uint32_t a = test->layout == ROPE_HALF_SPLIT ? i : 2 * i;
        uint32_t b = test->layout == ROPE_HALF_SPLIT ? i + half : 2 * i + 1;
        x[a] = before[a] * cos(angle) - before[b] * sin(angle);
        x[b] = before[b] * cos(angle) + before[a] * sin(angle);
    }
}

static void exact_head(const struct attention_case *test, const double *rows, uint32_t token,
                       uint32_t head, const float *alibi, double out[32]) {
    static double weights[TOKENS];
    double max = -INFINITY;
    double total = 0.0;
    uint32_t begin = test->window && token + 1 > test->window ? token + 1 - test->window : 0;
    const double *q = rows + (size_t)token * WIDTH + (size_t)head * 32;
    for (uint32_t j = begin; j <= token; j++) {
        const double *k = rows + (size_t)j * WIDTH + (size_t)(6 + head / 3) * 32;
        weights[j] = 0.0;
        for (int d = 0; d < 32; d++)
            weights[j] += q[d] * k[d] * 0.2;
        if (test->has_alibi)
            weights[j] += (double)alibi[head] * ((double)j - token);
        max = weights[j] > max ? weights[j] : max;
    }
    memset(out, 0, 32 * sizeof *out);
    for (uint32_t j = begin; j <= token; j++) {
        const double *v = rows + (size_t)j * WIDTH + (size_t)(8 + head / 3) * 32;
        double p = exp(weights[j] - max);
        total += p;
        for (int d = 0; d < 32; d++)
            out[d] += p * v[d];
    }
    for (int d = 0; d < 32; d++)
        out[d] /= total;
}

START_TEST(attention_is_softmax_over_rotated_keys) {
    static const struct attention_case cases[] = {{ROPE_HALF_SPLIT, 32, 0, false},
                                                  {ROPE_INTERLEAVED, 16, 50, false},
                                                  {ROPE_NONE, 0, 0, true}};
    const struct attention_case *test = &cases[_i];
    struct random random = {8};
    static float qkv[TOKENS * WIDTH];
    static double exact[TOKENS * WIDTH];
    static float out[TOKENS * 6 * 32];
    static float cosines[TOKENS * 16];
    static float sines[TOKENS * 16];
    uint32_t positions[TOKENS];
    uint32_t blocks[19];
    const float alibi[6] = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03f, 0.01f};
    for (size_t i = 0; i < sizeof qkv / sizeof *qkv; i++) {
        qkv[i] = random_unit(random_next(&random)) * 4.0f - 2.0f;
        exact[i] = (double)qkv[i];
    }
    for (uint32_t t = 0; t < TOKENS; t++) {
        positions[t] = t;
        for (uint32_t i = 0; i < test->dims / 2; i++) {
            double angle = t * pow(10000.0, -2.0 * i / test->dims);
            cosines[t * (test->dims / 2) + i] = (float)cos(angle);
            sines[t * (test->dims / 2) + i] = (float)sin(angle);
        }
        for (uint32_t h = 0; h < 8; h++)
            rotate_head(test, exact + (size_t)t * WIDTH + (size_t)h * 32, t);
    }
    for (uint32_t i = 0; i < 19; i++)
        blocks[i] = 18 - i;
    struct kernels_batch batch = {.n_tokens = TOKENS,
                                  .n_seqs = 1,
                                  .positions = positions,
                                  .seq_begin = (const uint32_t[]){0, TOKENS},
                                  .block_tables = blocks,
                                  .block_table_stride = 19};
    size_t block_bytes = (size_t)2 * 2 * 32 * KV_BLOCK_TOKENS * 2;
    struct subject ref = subject_ref(&limits);
    void *cache = ref.kernels->alloc(ref.ctx, 19 * block_bytes);
    struct kernels_kv kv = {
        .base = cache, .block_bytes = block_bytes, .n_kv_heads = 2, .head_dim = 32};
    struct rope rope = {
        .layout = test->layout, .dims = test->dims, .n_variants = 1, .cos = cosines, .sin = sines};
    ref.kernels->rope_kv(ref.ctx, qkv, &batch, &rope, &kv);
    ref.kernels->attend(ref.ctx, out, qkv, &batch, &kv, 0.2f, test->has_alibi ? alibi : NULL,
                        test->window);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t h = 0; h < 6; h++) {
            double expected[32];
            exact_head(test, exact, t, h, alibi, expected);
            for (uint32_t d = 0; d < 32; d++) /* keys and values are binary16 */
                ck_assert_double_eq_tol((double)out[(t * 6 + h) * 32 + d], expected[d], 8e-3);
        }
    ref.kernels->dealloc(ref.ctx, cache, 19 * block_bytes);
    subject_close(&ref);
}
END_TEST

void suite_add(TCase *tests) {
    int n_formats = 0;
    while (quant_table[n_formats])
        n_formats++;
    tcase_add_loop_test(tests, products_are_as_exact_as_their_activations, 0, n_formats);
    tcase_add_test(tests, epilogues_add_and_gate);
    tcase_add_test(tests, norm_is_x_over_its_root_mean_square);
    tcase_add_loop_test(tests, attention_is_softmax_over_rotated_keys, 0, 3);
}
