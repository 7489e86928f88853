#include "base/random.h"
#include "kernels/numbers.h"
#include "tests/support/suite.h"

#include <math.h>

const char *const suite_name = "kernels_numbers";
const double suite_timeout_s = 120;

START_TEST(exp_is_within_two_units_in_the_last_place) {
    uint32_t saved = numbers_enter();
    double worst = 0.0;
    for (uint32_t i = 0; i < 4000000; i++) {
        float x = -87.0f + 175.0f * (float)i / 4000000.0f;
        double exact = exp((double)x);
        double error = fabs((double)numbers_exp(x) - exact) / exact;
        worst = error > worst ? error : worst;
    }
    for (uint32_t i = 0; i < 1000000; i++) { /* near zero */
        float x = ((float)i - 500000.0f) * 1e-7f;
        double error = fabs((double)numbers_exp(x) - exp((double)x)) / exp((double)x);
        worst = error > worst ? error : worst;
    }
    numbers_leave(saved);
    ck_assert_msg(worst < 0x1p-22, "worst relative error %g", worst);
}
END_TEST

START_TEST(exp_ends_in_exact_values) {
    uint32_t saved = numbers_enter();
    ck_assert(numbers_exp(0.0f) == 1.0f);
    ck_assert(numbers_exp(-0.0f) == 1.0f);
    ck_assert(numbers_exp(-87.01f) == 0.0f);
    ck_assert(numbers_exp(-INFINITY) == 0.0f);
    ck_assert(numbers_exp(INFINITY) == numbers_exp(EXP_MAX));
    ck_assert(numbers_exp(EXP_MIN) > 0.0f);
    ck_assert(isnan(numbers_exp(NAN)));
    numbers_leave(saved);
}
END_TEST

START_TEST(silu_is_accurate_and_bounded) {
    uint32_t saved = numbers_enter();
    for (int i = -1000; i <= 1000; i++) {
        float t = (float)i * 0.1f;
        double exact = (double)t / (1.0 + exp(-(double)t));
        ck_assert(fabs((double)numbers_silu(t) - exact) <= fabs(exact) * 3e-7 + 1e-35);
    }
    ck_assert(numbers_silu(1000.0f) == 1000.0f);
    ck_assert(fabsf(numbers_silu(-1e4f)) < 1e-30f);
    numbers_leave(saved);
}
END_TEST

START_TEST(log_is_accurate_to_double) {
    struct random random = {1};
    for (int i = 0; i < 200000; i++) {
        double x = ldexp(1.0 + (double)random_unit(random_next(&random)),
                         (int)random_below(&random, 200) - 100);
        ck_assert(fabs(numbers_log(x) - log(x)) <= 2e-15 * (1.0 + fabs(log(x))));
    }
    ck_assert(numbers_log(1.0) == 0.0);
}
END_TEST

START_TEST(the_tree_adds_halves) {
    float lanes[NUMBERS_LANES];
    for (int i = 0; i < NUMBERS_LANES; i++)
        lanes[i] = (float)(1 << i);
    ck_assert(numbers_tree(lanes) == 65535.0f);
    /* ((l0 + l8) + (l4 + l12)) + ...: the large ones meet first and cancel. */
    float cancel[NUMBERS_LANES] = {[0] = 1e30f, [8] = -1e30f, [1] = 1.0f};
    ck_assert(numbers_tree(cancel) == 1.0f);
}
END_TEST

START_TEST(activations_round_to_nearest_even) {
    float x[GROUP] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -127.0f, 126.5f, 1e-20f};
    int8_t q[GROUP];
    float scale;
    numbers_quantize(x, q, &scale);
    const int8_t expected[] = {127, 0, 2, 2, 0, -2, -127, 126, 0};
    ck_assert(scale == 1.0f);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(q[i], expected[i]);
}
END_TEST

START_TEST(activations_are_off_by_half_a_step_at_most) {
    struct random random = {5};
    for (int round = 0; round < 10000; round++) {
        float x[GROUP];
        int8_t q[GROUP];
        float scale;
        float size = ldexpf(1.0f, (int)random_below(&random, 120) - 80);
        for (int i = 0; i < GROUP; i++)
            x[i] = (random_unit(random_next(&random)) - 0.5f) * size;
        numbers_quantize(x, q, &scale);
        for (int i = 0; i < GROUP; i++) {
            ck_assert(q[i] >= -127);
            ck_assert(fabs((double)scale * q[i] - (double)x[i]) <= (double)scale * 0.50001);
        }
    }
}
END_TEST

START_TEST(zeros_tiny_and_not_finite_groups_are_marked) {
    float x[GROUP] = {0};
    int8_t q[GROUP];
    float scale;
    numbers_quantize(x, q, &scale);
    ck_assert(scale == 0.0f);
    x[3] = 1e-37f;
    numbers_quantize(x, q, &scale);
    ck_assert(scale == 0.0f && q[3] == 0);
    x[3] = INFINITY;
    numbers_quantize(x, q, &scale);
    ck_assert(isnan(scale) && q[3] == 0);
    x[3] = NAN;
    x[4] = 5.0f;
    numbers_quantize(x, q, &scale);
    ck_assert(isnan(scale) && q[4] == 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, exp_is_within_two_units_in_the_last_place);
    tcase_add_test(tests, exp_ends_in_exact_values);
    tcase_add_test(tests, silu_is_accurate_and_bounded);
    tcase_add_test(tests, log_is_accurate_to_double);
    tcase_add_test(tests, the_tree_adds_halves);
    tcase_add_test(tests, activations_round_to_nearest_even);
    tcase_add_test(tests, activations_are_off_by_half_a_step_at_most);
    tcase_add_test(tests, zeros_tiny_and_not_finite_groups_are_marked);
}
