/* What a rank's slots are filled with (worker/ranks/weights.h): numbers from the right places, in memory as large as was
 * measured; what cannot be used is refused by the tensor's name. */
#include "worker/ranks/weights.h"

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "tests/support/suite.h"
#include "worker/family/slots.h"

#include <string.h>

const char *const suite_name = "worker weights";
const double suite_timeout_s = 60;

static const struct kernels *kernels;
static struct kernels_ctx *ctx;
static struct error error;

static void setup(void) {
    const struct kernels_options options = {.n_threads = 1, .limits = {8, 2, 16, 64, 64, 1, 1, 16}};
    kernels = kernels_find("ref");
    ck_assert_ptr_nonnull(kernels);
    ck_assert_int_eq(kernels->open(&options, &ctx, &error), STATUS_OK);
    weights_progress_reset();
}

static void teardown(void) {
    kernels->close(ctx);
}

static const float numbers[] = {1.5f, -2, 3, 0.25f, 5, -6, 7, 8.5f};

/* Pieces of numbers of two formats, some of them apart; what no piece covers, and what none of the layers has, is 0. Each vector
 * begins where the next 64 bytes do. */
START_TEST(a_vector_has_the_numbers_of_its_pieces) {
    uint16_t halves[8];
    const float *vectors[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 8; i++)
        halves[i] = float_to_half(numbers[i]);
    const struct slot_piece pieces[] = {
        {"f32", numbers, sizeof numbers, .begin = 2, .n = 4, .out_begin = 1, .out_step = 3},
        {"f16", halves, sizeof halves, .begin = 5, .n = 3, .out_begin = 11, .out_step = 2},
        {"f32", NULL, 0, .n = 2, .out_begin = 2, .out_step = 1},
    };
    struct slot all[3] = {
        {.kind = SLOT_VECTOR,
         .name = "a",
         .vector = &vectors[0],
         .n = 16,
         .pieces = pieces,
         .n_pieces = 3},
        {.kind = SLOT_VECTOR,
         .name = "b",
         .vector = &vectors[1],
         .n = 17,
         .pieces = pieces + 2,
         .n_pieces = 1},
        {.kind = SLOT_VECTOR,
         .name = "c",
         .vector = &vectors[2],
         .n = 5,
         .pieces = pieces,
         .n_pieces = 1},
    };
    const float wanted[16] = {0, 3, 0, 0, 0.25f, 0, 0, 5, 0, 0, -6, -6, 0, 7, 0, 8.5f};
    const struct slot_piece first = {"f32", numbers, sizeof numbers, .n = 5, .out_step = 1};
    all[2].pieces = &first;
    struct slots slots = {.slots = all, .n = 3, .size = 3};
    struct weights weights;
    size_t n_bytes;
    ck_assert_int_eq(weights_measure(&slots, kernels, &n_bytes, &error), STATUS_OK);
    ck_assert_uint_eq(n_bytes, 64 + 128 + 64);
    ck_assert_int_eq(weights_load(&weights, &slots, kernels, ctx, &error), STATUS_OK);
    ck_assert_uint_eq(weights.n_bytes, n_bytes);
    ck_assert_uint_eq(weights_progress().n_bytes, n_bytes);
    ck_assert_uint_eq(weights_progress().n_packed, n_bytes);
    ck_assert_ptr_eq(vectors[0], weights.memory);
    ck_assert_ptr_eq(vectors[1], weights.memory + 64);
    ck_assert_ptr_eq(vectors[2], weights.memory + 64 + 128);
    for (int i = 0; i < 17; i++) {
        ck_assert_msg(i >= 16 || vectors[0][i] == wanted[i], "%d: %g", i, (double)vectors[0][i]);
        ck_assert(vectors[1][i] == 0);
        ck_assert(i >= 5 || vectors[2][i] == numbers[i]);
    }
    weights_fini(&weights);
    ck_assert_ptr_null(weights.memory);
}
END_TEST

/* One vector of one piece. */
static enum status load_piece(const struct slot_piece *piece) {
    const float *vector;
    struct slot slot = {.kind = SLOT_VECTOR,
                        .name = "blk.0.norm",
                        .vector = &vector,
                        .n = 8,
                        .pieces = piece,
                        .n_pieces = 1};
    struct slots slots = {.slots = &slot, .n = 1, .size = 1};
    struct weights weights;
    enum status status = weights_load(&weights, &slots, kernels, ctx, &error);
    ck_assert_int_eq(weights.memory == NULL, status != STATUS_OK); /* a failure leaves none */
    weights_fini(&weights);
    return status;
}

START_TEST(a_piece_that_its_tensor_does_not_have_is_refused) {
    struct slot_piece piece = {"f32", numbers, sizeof numbers, .begin = 3, .n = 5, .out_step = 1};
    ck_assert_int_eq(load_piece(&piece), STATUS_OK);
    piece.n_bytes--;
    ck_assert_int_eq(load_piece(&piece), STATUS_CORRUPT);
    ck_assert_str_eq(error.text, "tensor blk.0.norm is shorter than its shape");
    piece = (struct slot_piece){"q4_1", numbers, sizeof numbers, .n = 5, .out_step = 1};
    ck_assert_int_eq(load_piece(&piece), STATUS_UNSUPPORTED);
    ck_assert_str_eq(error.text, "tensor blk.0.norm: a vector in format q4_1");
    piece.format = "abacus";
    ck_assert_int_eq(load_piece(&piece), STATUS_UNSUPPORTED);
}
END_TEST

/* Two AWQ tensors of eight rows over 32 inputs, one behind the other. */
enum { N_ROWS = 8, N_INPUTS = 32 };
static const unsigned char values[N_ROWS * N_INPUTS / 2], zeros[N_ROWS / 2];
static float scales[2][N_ROWS];

static enum status load_matrix(const char *format) {
    static const float bias[2 * N_ROWS];
    struct weight weight = {.bias = bias};
    struct weight_tensor tensors[2];
    struct weight_part parts[2];
    for (uint32_t i = 0; i < 2; i++) {
        tensors[i] = (struct weight_tensor){.format = format,
                                            .n = N_ROWS,
                                            .k = N_INPUTS,
                                            .group = N_INPUTS,
                                            .values = values,
                                            .n_value_bytes = sizeof values,
                                            .scales = scales[i],
                                            .n_scale_bytes = sizeof scales[i],
                                            .scale_kind = WEIGHT_SCALES_F32,
                                            .zeros = zeros,
                                            .n_zero_bytes = sizeof zeros};
        parts[i] = (struct weight_part){
            .tensor = &tensors[i], .n_rows = N_ROWS, .out_begin = i * N_ROWS, .out_step = 1};
    }
    struct slot slot = {.kind = SLOT_MATRIX,
                        .name = "blk.0.up",
                        .weight = &weight,
                        .source = {.parts = parts, .n_parts = 2, .k = N_INPUTS}};
    struct slots slots = {.slots = &slot, .n = 1, .size = 1};
    struct weights weights;
    enum status status = weights_load(&weights, &slots, kernels, ctx, &error);
    if (status == STATUS_OK)
        ck_assert_ptr_eq(weight.bias, bias); /* what was attached before stays */
    weights_fini(&weights);
    return status;
}

START_TEST(a_matrix_that_cannot_be_packed_is_refused_by_its_name) {
    for (int i = 0; i < 2 * N_ROWS; i++)
        scales[i / N_ROWS][i % N_ROWS] = 1;
    ck_assert_int_eq(load_matrix("awq"), STATUS_OK);
    ck_assert_int_eq(load_matrix("abacus"), STATUS_UNSUPPORTED);
    ck_assert_ptr_eq(strstr(error.text, "tensor blk.0.up: "), error.text);
    for (int i = 0; i < 2; i++) {      /* of each part */
        scales[i][N_ROWS - 1] = 65504; /* the largest of F16 */
        ck_assert_int_eq(load_matrix("awq"), STATUS_OK);
        scales[i][N_ROWS - 1] = 65536;
        ck_assert_int_eq(load_matrix("awq"), STATUS_UNSUPPORTED);
        ck_assert_str_eq(error.text, "tensor blk.0.up: its scales hold 65536, which F16 cannot: "
                                     "they are kept in F16");
        scales[i][N_ROWS - 1] = 1;
    }
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_vector_has_the_numbers_of_its_pieces);
    tcase_add_test(tests, a_piece_that_its_tensor_does_not_have_is_refused);
    tcase_add_test(tests, a_matrix_that_cannot_be_packed_is_refused_by_its_name);
}
