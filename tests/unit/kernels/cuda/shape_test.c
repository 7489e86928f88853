/* How products on tensor cores are cut into blocks: shapes that the kernels take and the device has room for; slices go to
 * different blocks only where somebody adds up their parts, and these have room. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/tensor.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_shape";
const double suite_timeout_s = 60;

static uint32_t pieces(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

struct question {
    uint32_t n_rows, n, k, n_groups;
    bool parts;
};

static void check_few(const struct kernels_ctx *ctx, const struct question *of,
                      const struct gpu_tensor_shape *shape) {
    uint32_t n_slices = pieces(of->k, TENSOR_SLICE), n_warps = shape->warps_n * shape->warps_k;
    uint32_t n_blocks =
        pieces(of->n, 16 * shape->warps_n) * pieces(of->n_rows, shape->rows) * of->n_groups;
    ck_assert(shape->rows == 8 || shape->rows == 16 || shape->rows == 32 || shape->rows == 64);
    ck_assert(shape->rows >= of->n_rows || shape->rows == TENSOR_FEW);
    ck_assert(shape->rows == 8 || shape->rows / 2 < of->n_rows); /* and no more than there are */
    ck_assert(n_warps >= 1 && n_warps <= 8 && (n_warps & (n_warps - 1)) == 0);
    ck_assert(shape->warps_k / 2 < n_slices || shape->warps_k == 1);
    ck_assert(shape->warps_n == 1 || 8 * shape->warps_n < of->n);
    ck_assert(shape->slices >= 1 &&
              shape->slices <= pieces(n_slices, shape->warps_k) * shape->warps_k);
    if (shape->slices < n_slices) {
        ck_assert(of->parts);
        ck_assert_uint_eq(shape->slices % shape->warps_k, 0);
        ck_assert_uint_lt(n_blocks, ctx->facts.n_sms);
    } else {
        ck_assert(!of->parts || n_blocks >= ctx->facts.n_sms || n_slices <= shape->warps_k);
    }
}

static void check_many(const struct kernels_ctx *ctx, const struct question *of,
                       const struct gpu_tensor_shape *shape, bool floats) {
    ck_assert(shape->rows == 64 || shape->rows == 128);
    ck_assert_uint_gt(of->n_rows, TENSOR_FEW);
    /* two stages of a chunk of outputs and of rows, and where the rows lie */
    uint32_t bytes = 2 * TENSOR_CHUNK * 2 * (shape->rows + (floats ? 128 : 64)) + 8 * shape->rows;
    ck_assert_uint_le(bytes, ctx->facts.shared_bytes);
}

START_TEST(shapes_fit_the_product_and_the_device) {
    static const uint32_t rows[] = {1, 2, 3, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 2048};
    static const uint32_t ns[] = {64, 128, 192, 1088, 4096, 32000};
    static const uint32_t ks[] = {64, 1024, 1056, 3072, 4096, 14336};
    static const uint32_t sms[] = {4, 46, 132}, groups[] = {1, 3, 8};
    static const uint32_t shared[] = {99 << 10, 163 << 10, 227 << 10};
    static const enum weight_format formats[] = {WEIGHT_F16, WEIGHT_BF16, WEIGHT_I4G};
    static struct kernels_ctx ctx;
    uint32_t n_many = 0, n_parted = 0;
    for (uint32_t i = 0; i < 14 * 6 * 6 * 3 * 3 * 3 * 2; i++) {
        uint32_t j = i;
        struct question of = {.n_rows = rows[j % 14]};
        of.n = ns[(j /= 14) % 6];
        of.k = ks[(j /= 6) % 6];
        of.n_groups = groups[(j /= 6) % 3];
        enum weight_format format = formats[(j /= 3) % 3];
        ctx.facts.n_sms = sms[(j /= 3) % 3];
        of.parts = (j / 3) % 2;
        ctx.facts.shared_bytes = shared[i % 3];
        struct gpu_linear linear = {
            .choice.matrix = {
                .format = format, .n = of.n, .n_padded = of.n, .k = of.k, .k_stored = of.k}};
        struct gpu_tensor_shape shape =
            cuda_tensor_shape(&ctx, &linear, of.n_rows, of.n_groups, of.parts);
        n_many += shape.many;
        n_parted += !shape.many && shape.slices < pieces(of.k, TENSOR_SLICE);
        if (shape.many)
            check_many(&ctx, &of, &shape, format != WEIGHT_I4G);
        else
            check_few(&ctx, &of, &shape);
    }
    ck_assert_uint_gt(n_many, 1000);
    ck_assert_uint_gt(n_parted, 1000);
}
END_TEST

enum { N = 64, ROWS = 54, K_MOST = 4160 };

static const struct kernels_limits limits = {ROWS, ROWS, 64, K_MOST, 64, 1, 1, 16, KV_F16};

/* Products of which a warp has two slices, one after the other: of two that it has alone, or of five that it shares with three
 * others. Fewer rows at a time are cut alike. */
static const struct {
    uint32_t k, n_slices, rows, some;
} products[] = {{1088, 2, ROWS, 18}, {K_MOST, 5, 5, 5}};

static const struct gpu_launches *real;
static size_t room;
static uint32_t n_parted; /* products that left parts */

static void tensor_counted(struct device_stream *stream, const struct gpu_tensor *what) {
    const struct gpu_matrix *w = &what->linear.choice.matrix;
    if (what->parts) {
        ck_assert_uint_le((size_t)pieces(w->k, TENSOR_SLICE) * what->linear.n_rows * w->n_padded,
                          room);
        n_parted++;
    }
    real->linear_tensor(stream, what);
}

/* A product, `most` rows at a time, with room for so many floats of parts. */
static void multiply(int product, size_t floats, uint32_t most, float *out) {
    static struct gpu_launches counted;
    static float x[ROWS * K_MOST];
    const uint32_t k = products[product].k, rows = products[product].rows;
    struct subject subject = {.kernels = kernels_find("cuda-emu:fast")};
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct error error = {0};
    struct random random = {3};
    float bias[N];
    size_t n_bytes;
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    struct kernels_ctx *ctx = subject.ctx;
    ck_assert_uint_ge(ctx->parts_floats, floats);
    ctx->parts_floats = room = floats;
    ctx->ints_rows = 2 * most;
    real = ctx->gpu;
    counted = *real;
    counted.linear_tensor = tensor_counted;
    ctx->gpu = &counted;
    n_parted = 0;
    struct weight_tensor tensor = random_tensor(&random, "f16", N, k);
    fill_random(&random, x, (size_t)rows * k);
    fill_random(&random, bias, N);
    struct weight weight = subject_pack_tensor(&subject, &tensor, &n_bytes);
    weight.bias = subject_floats(&subject, bias, N);
    float *at_out = subject_floats(&subject, NULL, rows * N);
    subject.kernels->linear(ctx, at_out, N, subject_floats(&subject, x, (size_t)rows * k), &weight,
                            rows, EPILOGUE_NONE);
    subject_read(&subject, out, at_out, rows * N * sizeof *out);
    subject_unpack(&subject, &weight, n_bytes);
    subject_close(&subject);
    tensor_free(&tensor);
}

/* Room for the parts of all rows, for one number less, and for those of some rows at a time: the bits are the same. */
START_TEST(parts_are_left_where_there_is_room_for_them) {
    const uint32_t rows = products[_i].rows, some = products[_i].some;
    size_t per_row = (size_t)products[_i].n_slices * N;
    float expected[ROWS * N], got[ROWS * N];
    multiply(_i, rows * per_row - 1, rows, expected);
    ck_assert_uint_eq(n_parted, 0);
    multiply(_i, rows * per_row, rows, got);
    ck_assert_uint_eq(n_parted, 1);
    ck_assert_mem_eq(got, expected, rows * N * sizeof *got);
    multiply(_i, some * per_row, some, got);
    ck_assert_uint_eq(n_parted, rows / some);
    ck_assert_mem_eq(got, expected, rows * N * sizeof *got);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, shapes_fit_the_product_and_the_device);
    tcase_add_loop_test(tests, parts_are_left_where_there_is_room_for_them, 0,
                        (int)(sizeof products / sizeof *products));
}
