/* Products with matrices of floats at sizes for which a backend may have other code: from a row to more than a
 * thousand, with few outputs or many, rows that end within a piece or begin at any address. Every
 * backend gives the bits of the reference. */
#include "kernels/numbers.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

const char *const suite_name = "conform_kernels_floats";
const double suite_timeout_s = 600;

static const struct kernels_limits limits = {
    .max_tokens = 1100,
    .max_seqs = 4,
    .max_context = 16,
    .max_dim = 512,
    .n_vocab = 64,
    .n_heads = 1,
    .n_kv_heads = 1,
    .head_dim = 8,
    .kv_format = KV_F16,
};

struct size {
    uint32_t n;
    uint32_t k;
    uint32_t rows;
    enum epilogue epilogue;
};

static const struct size sizes[] = {
    {40, 400, 1, EPILOGUE_SILU_MUL},   {33, 331, 2, EPILOGUE_NONE},
    {65, 260, 6, EPILOGUE_ADD},        {36, 100, 4, EPILOGUE_SILU_MUL},
    {8200, 40, 7, EPILOGUE_NONE},      {65, 132, 30, EPILOGUE_NONE},
    {70, 203, 16, EPILOGUE_SILU_MUL},  {67, 212, 39, EPILOGUE_ADD},
    {8200, 68, 12, EPILOGUE_SILU_MUL}, {8195, 71, 35, EPILOGUE_NONE},
    {8196, 40, 64, EPILOGUE_ADD},      {140, 132, 70, EPILOGUE_SILU_MUL},
    {67, 45, 130, EPILOGUE_ADD},       {132, 76, 1030, EPILOGUE_SILU_MUL},
    {70, 33, 1100, EPILOGUE_NONE},
};
#define N_SIZES ((int)(sizeof sizes / sizeof sizes[0]))

static void compare(const struct subject *subject, const struct size *size, const float *got,
                    const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &expected[i], sizeof *got) != 0)
            ck_abort_msg("%s %s: %u x %u, %u rows: number %zu is %a, reference %a",
                         subject->kernels->name, subject->isa ? subject->isa : "", size->n, size->k,
                         size->rows, i, (double)got[i], (double)expected[i]);
}

static void check_size(const char *format, const struct size *size) {
    struct random random = {size->n * 1000 + size->rows};
    struct weight_tensor tensor = random_tensor(&random, format, size->n, size->k);
    size_t n_x = (size_t)size->rows * size->k, n_out = (size_t)size->rows * (size->n + 1);
    float *x = malloc((n_x + 1) * sizeof *x), *old = malloc(n_out * sizeof *old);
    float *expected = malloc(n_out * sizeof *expected), *got = malloc(n_out * sizeof *got);
    fill_random(&random, x, n_x + 1);
    fill_random(&random, old, n_out);
    struct subject subject;
    for (uint32_t i = 0; subject_next(&subject, &i, &limits);) {
        float *to = i == 1 ? expected : got; /* the reference is listed first */
        size_t n_bytes;
        struct weight weight = subject_pack_tensor(&subject, &tensor, &n_bytes);
        /* Rows of four that begin at any address are read as others are. */
        float *at_x = subject_floats(&subject, x, n_x + 1) + (size->rows == 39 ? 1 : 0);
        float *at_out = subject_floats(&subject, old, n_out);
        if (strcmp(subject.kernels->numerics(subject.ctx), NUMERICS_TEXT) == 0) {
            subject.kernels->linear(subject.ctx, at_out, size->n + 1, at_x, &weight, size->rows,
                                    size->epilogue);
            subject_read(&subject, to, at_out, n_out * sizeof *to);
            compare(&subject, size, to, expected, n_out);
        }
        subject_unpack(&subject, &weight, n_bytes);
        subject_close(&subject);
    }
    tensor_free(&tensor);
    free(x);
    free(old);
    free(expected);
    free(got);
}

START_TEST(products_of_floats_have_the_same_bits_at_every_size) {
    static const char *const formats[] = {"f32", "f16", "bf16"};
    check_size(formats[_i % 3], &sizes[_i / 3]);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, products_of_floats_have_the_same_bits_at_every_size, 0, 3 * N_SIZES);
}
