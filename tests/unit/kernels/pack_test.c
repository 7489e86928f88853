/* How a matrix is planned before any backend packs it: what is stored beside its inputs, and where
 * each of them stands. */
#include "kernels/quant/pack.h"
#include "tests/support/kernels_subject.h"
#include "tests/support/suite.h"

#include <string.h>

const char *const suite_name = "kernels_pack";
const double suite_timeout_s = 60;

struct cut {
    const char *format;
    uint32_t k; /* of the tensor */
    uint32_t group;
    uint32_t begin;
    uint32_t n;
    uint32_t k_stored;
    uint32_t stride;   /* 0: floats have none */
    uint32_t n_before; /* zeros before the first input; UINT32_MAX: the inputs need no list */
};

static const struct cut cuts[] = {
    {"q8_0", 64, 0, 0, 64, 64, 32, UINT32_MAX}, {"q8_0", 96, 0, 32, 64, 64, 32, UINT32_MAX},
    {"q8_0", 96, 0, 48, 48, 64, 32, 16},        {"q8_0", 96, 0, 33, 1, 32, 32, 1},
    {"q6_k", 256, 0, 112, 16, 32, 16, 16},      {"q4_k", 512, 0, 224, 64, 64, 32, UINT32_MAX},
    {"awq", 200, 200, 0, 200, 224, 224, 0},     {"awq", 200, 200, 100, 100, 128, 128, 4},
    {"awq", 200, 64, 100, 100, 128, 32, 4},     {"awq", 200, 64, 128, 72, 96, 64, 0},
    {"gptq4", 136, 32, 68, 68, 96, 32, 4},      {"gptq8", 172, 128, 86, 86, 128, 64, 22},
    {"f32", 45, 0, 0, 45, 45, 0, UINT32_MAX},   {"f16", 172, 0, 43, 43, 43, 0, UINT32_MAX},
    {"bf16", 45, 0, 0, 45, 64, 0, UINT32_MAX},  {"bf16", 172, 0, 43, 43, 64, 0, UINT32_MAX},
};
#define N_CUTS ((int)(sizeof cuts / sizeof *cuts))

START_TEST(groups_of_32_are_filled_up_with_zeros) {
    const struct cut *cut = &cuts[_i];
    struct random random = {(uint64_t)_i};
    struct weight_tensor tensor =
        random_grouped_tensor(&random, cut->format, 8, cut->k, cut->group);
    const struct weight_part part = {.tensor = &tensor, .n_rows = 8, .out_step = 1};
    const struct weight_source source = {&part, 1, cut->begin, cut->n, false};
    struct pack_plan plan;
    struct error error;
    ck_assert_int_eq(pack_plan_init(&plan, &source, &error), STATUS_OK);
    ck_assert_uint_eq(plan.shape.k, cut->n);
    ck_assert_uint_eq(plan.shape.k_stored, cut->k_stored);
    ck_assert_uint_eq(plan.shape.group, cut->stride);
    ck_assert_uint_eq(pack_n_groups(&plan.shape), (cut->k_stored + GROUP - 1) / GROUP);
    ck_assert(!plan.order.inputs == (cut->n_before == UINT32_MAX));
    ck_assert_uint_eq(pack_order_bytes(&plan), plan.order.inputs ? 4 * cut->k_stored : 0);
    for (uint32_t i = 0; plan.order.inputs && i < cut->k_stored; i++) {
        bool is_input = i >= cut->n_before && i < cut->n_before + cut->n;
        ck_assert_uint_eq(plan.order.inputs[i], is_input ? i - cut->n_before : WEIGHT_NO_INPUT);
    }
    pack_plan_fini(&plan);
    tensor_free(&tensor);
}
END_TEST

START_TEST(floats_end_in_zeros) {
    struct random random = {1};
    struct weight_tensor tensor = random_tensor(&random, "bf16", 8, 45);
    const struct weight_part part = {.tensor = &tensor, .n_rows = 8, .out_step = 1};
    const struct weight_source source = {&part, 1, 5, 39, false};
    struct pack_plan plan;
    struct error error;
    float out[GROUP];
    ck_assert_int_eq(pack_plan_init(&plan, &source, &error), STATUS_OK);
    memset(out, 0xff, sizeof out);
    pack_floats(&plan, 7, 1, out); /* not the one input of the tensor that is not the cut's */
    for (uint32_t i = 0; i < GROUP; i++)
        ck_assert(i < 7 ? out[i] == quant_find("bf16")->read_float(tensor.values, 7 * 45 + 37 + i)
                        : out[i] == 0.0f);
    pack_plan_fini(&plan);
    tensor_free(&tensor);
}
END_TEST

START_TEST(inputs_outside_of_the_tensor_are_refused) {
    static const struct {
        uint32_t begin, n;
        const char *why;
    } bad[] = {{0, 0, "a matrix has 0 inputs"},
               {0, PACK_INPUTS_MAX + 1, "inputs; 1 to 1048576 are possible"},
               {0, 65, "inputs 0 to 65 of a tensor of 64"},
               {64, 1, "inputs 64 to 65 of a tensor of 64"},
               {UINT32_MAX, 1, "of a tensor of 64"}};
    struct random random = {2};
    struct weight_tensor tensor = random_tensor(&random, "q4_0", 8, 64);
    const struct weight_part part = {.tensor = &tensor, .n_rows = 8, .out_step = 1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct weight_source source = {&part, 1, bad[i].begin, bad[i].n, false};
        struct pack_plan plan = {0};
        struct error error = {0};
        ck_assert_int_ne(pack_plan_init(&plan, &source, &error), STATUS_OK);
        ck_assert_msg(strstr(error.text, bad[i].why) != NULL, "%s", error.text);
    }
    tensor_free(&tensor);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_loop_test(tests, groups_of_32_are_filled_up_with_zeros, 0, N_CUTS);
    tcase_add_test(tests, floats_end_in_zeros);
    tcase_add_test(tests, inputs_outside_of_the_tensor_are_refused);
}
