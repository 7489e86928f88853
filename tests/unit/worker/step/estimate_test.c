/* What steps cost is learnt from those before, and what disturbed one of them is not learnt. */
#include "worker/step/estimate.h"

#include "tests/support/suite.h"

const char *const suite_name = "worker estimate";
const double suite_timeout_s = 60;

START_TEST(steps_are_estimated_from_those_before) {
    struct estimate estimate = {0};
    ck_assert_uint_eq(estimate_us(&estimate, 100), 1); /* nothing is known */
    ck_assert_uint_eq(estimate_cost_us(&estimate, 100), 1);
    estimate_learn(&estimate, 1, 1000);
    ck_assert_uint_eq(estimate_us(&estimate, 1), 1000);
    ck_assert_uint_eq(estimate_us(&estimate, 64), 64000); /* from one token: a bound */
    for (int i = 0; i < 100; i++)
        estimate_learn(&estimate, 64, 20000);
    ck_assert_uint_eq(estimate_us(&estimate, 100), 20000);
    ck_assert_uint_eq(estimate_us(&estimate, 32), 32000);
    for (int i = 0; i < 10; i++)
        estimate_learn(&estimate, 64, 40000);
    ck_assert_uint_ge(estimate_us(&estimate, 64), 39000); /* announced times rise quickly */
    estimate_learn(&estimate, 256, 9000000);              /* a moment of other programs */
    ck_assert_uint_le(estimate_us(&estimate, 256), 4 * 40000);
    ck_assert_uint_eq(estimate_tokens(&estimate, 512, 1), 16);
    ck_assert_uint_eq(estimate_tokens(&estimate, 8, 1), 8);
}
END_TEST

START_TEST(announced_times_fall_slowly) {
    struct estimate estimate = {0};
    estimate_learn(&estimate, 1, 80000);
    estimate_learn(&estimate, 1, 8000); /* one quick step says little */
    ck_assert_uint_ge(estimate_us(&estimate, 1), 60000);
    for (int i = 0; i < 60; i++)
        estimate_learn(&estimate, 1, 8000);
    ck_assert_uint_le(estimate_us(&estimate, 1), 9000);
}
END_TEST

/* 200 us a token. */
START_TEST(the_least_of_recent_measures_is_the_cost) {
    struct estimate estimate = {0};
    for (uint32_t n = 16; n <= 512; n *= 2)
        for (int i = 0; i < ESTIMATE_RECENT; i++) /* one in six was undisturbed */
            estimate_learn(&estimate, n, n * 200 * (i == 3 ? 1 : 25));
    ck_assert_uint_eq(estimate_cost_us(&estimate, 128), 128 * 200);
    ck_assert_uint_eq(estimate_cost_us(&estimate, 192),
                      192 * 200); /* within a class: in proportion */
    ck_assert_uint_eq(estimate_tokens(&estimate, 512, 120000), 512);
    ck_assert_uint_eq(estimate_tokens(&estimate, 512, 60000), 288); /* 300, in sixteens */
    ck_assert_uint_ge(estimate_us(&estimate, 128), 500000);         /* but that is not announced */
    for (int i = 0; i < ESTIMATE_RECENT;
         i++) /* all of one size were disturbed: the larger one says so */
        estimate_learn(&estimate, 128, 9000000);
    ck_assert_uint_le(estimate_cost_us(&estimate, 128), 256 * 200);
}
END_TEST

START_TEST(chunks_grow_again_when_a_busy_machine_is_quiet) {
    struct estimate estimate = {0};
    for (uint32_t n = 1; n <= 512; n = n == 1 ? 16 : 2 * n)
        for (int i = 0; i < ESTIMATE_RECENT; i++)
            estimate_learn(&estimate, n, (n + 10) * 200 * 50);
    uint32_t budget = estimate_tokens(&estimate, 512, 120000);
    ck_assert_uint_eq(budget, 16);
    unsigned n_steps = 0;
    for (; budget < 512 && n_steps < 20; n_steps++) { /* steps are only as large as the budget */
        estimate_learn(&estimate, budget, (budget + 10) * 200);
        budget = estimate_tokens(&estimate, 512, 120000);
    }
    ck_assert_uint_eq(budget, 512);
    ck_assert_uint_le(n_steps, 6);
}
END_TEST

START_TEST(slow_steps_of_before_do_not_count_against_quick_ones_of_now) {
    struct estimate estimate = {0};
    for (int i = 0; i < ESTIMATE_RECENT; i++)
        estimate_learn(&estimate, 512, 5000000);
    estimate_learn(&estimate, 16, 3200);
    estimate_learn(&estimate, 512, 5000000);
    ck_assert_uint_eq(estimate_cost_us(&estimate, 16), 3200);
}
END_TEST

START_TEST(a_machine_that_became_slower_gets_smaller_chunks) {
    struct estimate estimate = {0};
    for (uint32_t n = 1; n <= 512; n = n == 1 ? 16 : 2 * n)
        estimate_learn(&estimate, n, n * 200);
    ck_assert_uint_eq(estimate_tokens(&estimate, 512, 120000), 512);
    uint32_t budget = 512;
    for (int i = 0; i < 40; i++) {
        estimate_learn(&estimate, budget, budget * 600);
        budget = estimate_tokens(&estimate, 512, 120000);
    }
    ck_assert_uint_ge(budget, 176);
    ck_assert_uint_le(budget, 208);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, steps_are_estimated_from_those_before);
    tcase_add_test(tests, announced_times_fall_slowly);
    tcase_add_test(tests, the_least_of_recent_measures_is_the_cost);
    tcase_add_test(tests, chunks_grow_again_when_a_busy_machine_is_quiet);
    tcase_add_test(tests, slow_steps_of_before_do_not_count_against_quick_ones_of_now);
    tcase_add_test(tests, a_machine_that_became_slower_gets_smaller_chunks);
}
