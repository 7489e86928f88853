/* The norm of fast numerics, on the emulated device: it is near float64, and the rows that it rounds for a product are those
 * which rounding makes of its results, for rows of one turn of a block and of several. */
#include "kernels/cuda/launches.h"
#include "kernels/cuda/operations.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const suite_name = "cuda_norm";
const double suite_timeout_s = 120;

enum {
    ROWS = 2,
    DIM_MOST = 8260,
    STORED_MOST = DIM_MOST / 32 * 32 + 64,
    CHUNKS = STORED_MOST / TENSOR_CHUNK + 1,
};

/* Inputs as a matrix with an order stores them: whole groups, and one more. */
static uint32_t stored(uint32_t dim) {
    return (dim + 31) / 32 * 32 + 32;
}

static const struct kernels_limits limits = {ROWS, ROWS, 64, DIM_MOST, 64, 1, 1, 16, KV_F16};

/* Of one slice and of several; of a turn of the block that rounds (4,096) and of more; and of more than a thread keeps. */
static const uint32_t dims[] = {96, 1060, 4096, 4130, DIM_MOST};
enum { N_DIMS = sizeof dims / sizeof *dims };

static const struct {
    enum weight_format format;
    bool has_order;
} matrices[] = {{WEIGHT_F16, false}, {WEIGHT_BF16, false}, {WEIGHT_I4G, false}, {WEIGHT_I4G, true}};
enum { N_MATRICES = sizeof matrices / sizeof *matrices };

/* Any order of the inputs, and places between them that have none. */
static uint32_t *order_of(struct subject *subject, uint32_t dim) {
    struct random random = {dim};
    uint32_t order[STORED_MOST], n = stored(dim);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i < dim ? i : WEIGHT_NO_INPUT;
    for (uint32_t i = n; i > 1; i--) {
        uint64_t j = random_below(&random, i);
        uint32_t input = order[j];
        order[j] = order[i - 1];
        order[i - 1] = input;
    }
    return subject_ids(subject, order, n);
}

static struct gpu_ints ints_of(struct subject *subject) {
    return (struct gpu_ints){.q = subject_bytes(subject, NULL, ROWS * CHUNKS * TENSOR_CHUNK * 2),
                             .scales = subject_floats(subject, NULL, ROWS * CHUNKS)};
}

static void expect_same(const struct subject *subject, const struct gpu_ints *a,
                        const struct gpu_ints *b, uint32_t dim, int matrix) {
    static unsigned char rows[2][ROWS * CHUNKS * TENSOR_CHUNK * 2];
    float scales[2][ROWS * CHUNKS];
    subject_read(subject, rows[0], a->q, sizeof rows[0]);
    subject_read(subject, rows[1], b->q, sizeof rows[1]);
    subject_read(subject, scales[0], a->scales, sizeof scales[0]);
    subject_read(subject, scales[1], b->scales, sizeof scales[1]);
    for (size_t i = 0; i < sizeof rows[0]; i++)
        ck_assert_msg(rows[0][i] == rows[1][i], "dim %u, matrix %d: byte %zu of the rows", dim,
                      matrix, i);
    ck_assert_msg(memcmp(scales[0], scales[1], sizeof scales[0]) == 0,
                  "dim %u, matrix %d: the slices' powers", dim, matrix);
}

static void expect_near(const float *got, const float *x, const float *gain, uint32_t dim) {
    double square = 0;
    for (uint32_t i = 0; i < dim; i++)
        square += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < dim; i++) {
        double y = (double)x[i] / sqrt(square / dim + 1e-5) * (double)gain[i];
        ck_assert_msg(fabs((double)got[i] - y) <= 1e-6 * fabs(y), "dim %u: %u is %a, in float64 %a",
                      dim, i, (double)got[i], y);
    }
}

START_TEST(a_norm_rounds_its_rows_as_rounding_does) {
    static float x[ROWS * DIM_MOST], gain[DIM_MOST], got[ROWS * DIM_MOST];
    const uint32_t dim = dims[_i];
    struct kernels_options options = {.n_threads = 1, .limits = limits};
    struct subject subject = {.kernels = kernels_find("cuda-emu:fast")};
    struct error error = {0};
    struct random random = {3};
    ck_assert_int_eq(subject.kernels->open(&options, &subject.ctx, &error), STATUS_OK);
    fill_random(&random, x, ROWS * dim);
    fill_random(&random, gain, dim);
    for (uint32_t i = 0; i < dim; i++) /* slices with powers of two of their own */
        gain[i] = ldexpf(gain[i], (int)(i / TENSOR_SLICE * 5 % 7));
    struct gpu_norm norm = {.out = subject_floats(&subject, NULL, ROWS * dim),
                            .x = subject_floats(&subject, x, ROWS * dim),
                            .gain = subject_floats(&subject, gain, dim),
                            .eps = 1e-5f,
                            .n_rows = ROWS,
                            .dim = dim};
    uint32_t *order = order_of(&subject, dim);
    for (int m = 0; m < N_MATRICES; m++) {
        struct gpu_ints own = ints_of(&subject), rounded = ints_of(&subject);
        struct gpu_matrix matrix = {.format = matrices[m].format,
                                    .k = dim,
                                    .k_stored = matrices[m].has_order ? stored(dim) : dim,
                                    .order = matrices[m].has_order ? order : NULL};
        cuda_launch_norm_rows(
            subject.ctx,
            &(struct gpu_norm_rows){.norm = norm, .matrix = matrix, .to = own, .rounds = true});
        cuda_launch_round_rows(
            subject.ctx,
            &(struct gpu_round_rows){
                .matrix = matrix, .to = rounded, .x = norm.out, .n_rows = ROWS, .share = 1});
        expect_same(&subject, &own, &rounded, dim, m);
        subject_read(&subject, got, norm.out, ROWS * dim * sizeof *got);
        for (uint32_t row = 0; row < ROWS; row++)
            expect_near(got + (size_t)row * dim, x + (size_t)row * dim, gain, dim);
    }
    subject_close(&subject);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, a_norm_rounds_its_rows_as_rounding_does, 0, N_DIMS);
}
