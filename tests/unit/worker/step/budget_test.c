/* What steps cost is learnt from those before, what disturbed one of them is not learnt, and larger
 * steps than the budget are tried from time to time. */
#include "worker/step/budget.h"

#include "tests/support/suite.h"

const char *const suite_name = "worker budget";
const double suite_timeout_s = 60;

static struct budget new_budget(uint32_t most) {
    struct budget budget;
    budget_init(&budget, most, BUDGET_STEP_US_GOAL);
    return budget;
}

/* A step of prompts alone. */
static void learn(struct budget *budget, uint32_t n_tokens, uint64_t us) {
    budget_learn(budget, n_tokens, n_tokens, us);
}

/* A machine on which a step of n tokens takes `fixed_us` and `token_us` for each, `slow` times. */
struct machine {
    double fixed_us, token_us, slow;
};

static uint64_t takes_us(const struct machine *machine, uint32_t n_tokens) {
    return (uint64_t)(machine->slow * (machine->fixed_us + machine->token_us * n_tokens));
}

static void calibrate(struct budget *budget, const struct machine *machine) {
    for (uint32_t n; (n = budget_measure(budget, 4096)) > 0;)
        budget_measured(budget, takes_us(machine, n));
}

/* Steps as large as the budget, of prompts alone; stops where the budget is `until`. Answers how
 * many there were. */
static unsigned run_steps(struct budget *budget, const struct machine *machine, unsigned n_steps,
                          uint32_t until) {
    for (unsigned i = 0; i < n_steps; i++) {
        if (budget->n_fits >= until)
            return i;
        learn(budget, budget->n_tokens, takes_us(machine, budget->n_tokens));
    }
    return n_steps;
}

START_TEST(steps_are_estimated_from_those_before) {
    struct budget budget = new_budget(512);
    ck_assert_uint_eq(budget_us(&budget, 100), 1); /* nothing is known */
    ck_assert_uint_eq(budget_cost_us(&budget, 100), 1);
    ck_assert_uint_eq(budget.n_tokens, 512);
    learn(&budget, 1, 1000);
    ck_assert_uint_eq(budget_us(&budget, 1), 1000);
    ck_assert_uint_eq(budget_us(&budget, 64), 96000); /* from one token: a bound */
    for (int i = 0; i < 100; i++)
        learn(&budget, 64, 20000);
    ck_assert_uint_eq(budget_us(&budget, 100), 20000);
    ck_assert_uint_eq(budget_us(&budget, 32), 48000);
    for (int i = 0; i < 10; i++)
        learn(&budget, 64, 40000);
    ck_assert_uint_ge(budget_us(&budget, 64), 39000); /* announced times rise quickly */
    learn(&budget, 256, 9000000);                     /* a moment of other programs */
    ck_assert_uint_le(budget_us(&budget, 256), 4 * 40000);
}
END_TEST

START_TEST(what_is_announced_counts_the_rows_that_decode) {
    struct budget budget = new_budget(512);
    for (int i = 0; i < 10; i++)
        budget_learn(&budget, 64, 0, 20000); /* 64 rows decode */
    for (int i = 0; i < 10; i++)
        budget_learn(&budget, 64 + 192, 192, 70000);
    ck_assert_uint_eq(budget_us(&budget, 64), 20000);
    ck_assert_uint_eq(budget_us(&budget, 256), 70000);
}
END_TEST

START_TEST(announced_times_fall_slowly) {
    struct budget budget = new_budget(512);
    learn(&budget, 1, 80000);
    learn(&budget, 1, 8000); /* one quick step says little */
    ck_assert_uint_ge(budget_us(&budget, 1), 60000);
    for (int i = 0; i < 60; i++)
        learn(&budget, 1, 8000);
    ck_assert_uint_le(budget_us(&budget, 1), 9000);
}
END_TEST

/* 200 us a token. */
START_TEST(the_least_of_recent_measures_is_the_cost) {
    struct budget budget = new_budget(512);
    for (uint32_t n = 16; n <= 512; n *= 2)
        for (int i = 0; i < BUDGET_RECENT; i++) /* one in six was undisturbed */
            learn(&budget, n, n * 200 * (i == 3 ? 1 : 25));
    ck_assert_uint_eq(budget_cost_us(&budget, 128), 128 * 200);
    ck_assert_uint_eq(budget_cost_us(&budget, 192), 192 * 200); /* within a class: in proportion */
    ck_assert_uint_eq(budget.n_fits, 512);
    ck_assert_uint_ge(budget_us(&budget, 128), 500000); /* but that is not announced */
    for (int i = 0; i < BUDGET_RECENT; i++) /* all of one size were disturbed: the larger says so */
        learn(&budget, 128, 9000000);
    ck_assert_uint_le(budget_cost_us(&budget, 128), 256 * 200);
}
END_TEST

START_TEST(the_share_is_the_most_sixteens_whose_step_keeps_the_goal) {
    struct budget budget;
    budget_init(&budget, 512, 60000);
    for (uint32_t n = 16; n <= 512; n *= 2)
        learn(&budget, n, n * 200);
    ck_assert_uint_eq(budget.n_fits, 288); /* 300, in sixteens */
    for (uint32_t i = 0; i < 2; i++) { /* the last size that keeps it, and one more microsecond */
        budget_init(&budget, 64, 16000);
        learn(&budget, 1, 300);
        learn(&budget, 64, 16000 + i);
        ck_assert_uint_eq(budget.n_fits, 64 - 16 * i);
    }
    budget_init(&budget, 512, 1);
    learn(&budget, 1, 1);
    learn(&budget, 512, 1000000);
    ck_assert_uint_eq(budget.n_fits, BUDGET_TOKENS_MIN);
    for (uint32_t most = 1; most <= BUDGET_TOKENS_MIN + 1; most++) {
        uint32_t least = most < BUDGET_TOKENS_MIN ? most : BUDGET_TOKENS_MIN;
        budget_init(&budget, most, 1);
        learn(&budget, 1, 1);
        learn(&budget, most, 1000000);
        ck_assert_uint_eq(budget.n_fits, least);
    }
    budget_init(&budget, 100, 1000000); /* what fits whole is not rounded */
    learn(&budget, 100, 1000);
    ck_assert_uint_eq(budget.n_fits, 100);
}
END_TEST

START_TEST(the_goal_is_at_least_one_and_a_half_steps_of_one_row) {
    struct budget budget = new_budget(512);
    learn(&budget, 1, 80000);
    ck_assert_uint_eq(budget_goal_us(&budget), 120000);
    budget = new_budget(512);
    learn(&budget, 1, 80002);
    ck_assert_uint_eq(budget_goal_us(&budget), 120003);
    struct machine machine = {130000, 50, 1}; /* one row alone takes more than the goal */
    budget = new_budget(512);
    calibrate(&budget, &machine);
    ck_assert_uint_le(run_steps(&budget, &machine, 20, 512), 10);
    ck_assert_uint_eq(budget.n_fits, 512);
}
END_TEST

START_TEST(chunks_grow_again_when_a_busy_machine_is_quiet) {
    struct budget budget = new_budget(512);
    for (uint32_t n = 2; n <= 512; n = n == 2 ? 16 : 2 * n)
        for (int i = 0; i < BUDGET_RECENT; i++)
            learn(&budget, n, (n + 10) * 200 * 50);
    budget.explored = budget.n_learnt; /* by what is measured alone */
    budget.explore_wait = 1000;
    ck_assert_uint_le(budget.n_fits, 32);
    struct machine machine = {2000, 200, 1};
    ck_assert_uint_le(run_steps(&budget, &machine, 20, 512), 6);
    ck_assert_uint_eq(budget.n_fits, 512);
}
END_TEST

START_TEST(a_short_slow_down_leaves_no_small_steps_behind) {
    static const struct machine machines[] = {{70000, 100, 1}, {130000, 50, 1}, {55000, 250, 1},
                                              {90000, 50, 1},  {20000, 700, 1}, {100000, 20, 1}};
    for (uint32_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        for (double slow = 1.25; slow <= 4; slow += 0.25) {
            for (unsigned n_slow = 90; n_slow <= 110; n_slow++) {
                struct machine machine = machines[m];
                struct budget budget = new_budget(512);
                calibrate(&budget, &machine);
                run_steps(&budget, &machine, 50, UINT32_MAX);
                uint32_t before = budget.n_fits;
                machine.slow = slow;
                run_steps(&budget, &machine, n_slow, UINT32_MAX);
                machine.slow = 1;
                ck_assert_uint_le(run_steps(&budget, &machine, 21, before), 20);
            }
        }
    }
}
END_TEST

START_TEST(a_busy_start_leaves_no_small_steps_behind) {
    struct machine machine = {70000, 100, 3};
    struct budget budget = new_budget(512);
    calibrate(&budget, &machine);
    machine.slow = 1;
    ck_assert_uint_le(run_steps(&budget, &machine, 20, 480), 20);
}
END_TEST

/* Of 500 steps of prompts alone, those that were larger than what fits; `wait`: from one to the
 * next. */
static unsigned count_tries(struct budget *budget, const struct machine *machine, uint32_t fits,
                            uint32_t wait) {
    unsigned n_tries = 0, last = 0;
    for (unsigned i = 0; i < 500; i++) {
        ck_assert_uint_eq(budget->n_fits, fits);
        if (budget->n_tokens > fits) {
            ck_assert_uint_eq(budget->n_tokens, 2 * fits);
            if (n_tries++ > 0)
                ck_assert_uint_eq(i - last, wait);
            last = i;
        }
        learn(budget, budget->n_tokens, takes_us(machine, budget->n_tokens));
    }
    return n_tries;
}

/* 600 us a token: 200 tokens keep the goal, 384 never do. */
START_TEST(larger_steps_that_take_far_longer_are_tried_seldom) {
    struct machine machine = {0, 600, 1};
    struct budget budget = new_budget(512);
    calibrate(&budget, &machine);
    ck_assert_uint_eq(count_tries(&budget, &machine, 192, BUDGET_EXPLORE_MAX + 1), 6);
}
END_TEST

START_TEST(larger_steps_that_take_little_longer_are_tried_often) {
    struct machine machine = {110000, 400, 1}; /* 16 tokens 116 ms, 32 tokens 123 */
    struct budget budget = new_budget(512);
    learn(&budget, 1, 75000); /* so that the goal is 120 ms */
    for (int i = 0; i < 2; i++)
        learn(&budget, 16, takes_us(&machine, 16));
    ck_assert_uint_eq(count_tries(&budget, &machine, 16, BUDGET_EXPLORE_MIN + 1), 45);
}
END_TEST

START_TEST(a_larger_step_that_no_prompt_filled_was_not_tried) {
    struct budget budget = new_budget(512);
    struct machine machine = {0, 600, 1};
    calibrate(&budget, &machine);
    ck_assert_uint_eq(budget.n_tokens, 384);
    budget_learn(&budget, 256, 192, takes_us(&machine, 256)); /* 64 rows decode */
    ck_assert_uint_eq(budget.n_tokens, 384);
    budget_learn(&budget, 257, 193, takes_us(&machine, 257));
    ck_assert_uint_eq(budget.n_tokens, 384); /* a sixteenth is the least that counts */
    budget_learn(&budget, 300, 208, takes_us(&machine, 300));
    ck_assert_uint_eq(budget.n_tokens, 192);
}
END_TEST

START_TEST(slow_steps_of_before_do_not_count_against_quick_ones_of_now) {
    struct budget budget = new_budget(512);
    for (int i = 0; i < BUDGET_RECENT; i++)
        learn(&budget, 512, 5000000);
    learn(&budget, 16, 3200);
    learn(&budget, 512, 5000000);
    ck_assert_uint_eq(budget_cost_us(&budget, 16), 3200);
}
END_TEST

START_TEST(a_machine_that_became_slower_gets_smaller_chunks) {
    struct budget budget = new_budget(512);
    for (uint32_t n = 1; n <= 512; n = n == 1 ? 16 : 2 * n)
        learn(&budget, n, n * 200);
    ck_assert_uint_eq(budget.n_fits, 512);
    struct machine machine = {0, 600, 1};
    run_steps(&budget, &machine, 40, UINT32_MAX);
    ck_assert_uint_ge(budget.n_fits, 176);
    ck_assert_uint_le(budget.n_fits, 208);
}
END_TEST

/* Sixteen tokens took 1 ms before; since then it takes 160 ms to compute sixteen times as many. */
START_TEST(small_steps_on_a_machine_that_became_slower_are_announced_by_their_share) {
    struct budget budget = new_budget(512);
    for (unsigned i = 0; i < 20; i++)
        learn(&budget, 16, 1000);
    for (unsigned i = 0; i < BUDGET_RECENT; i++) {
        ck_assert_uint_eq(budget_us(&budget, 16), 1000);
        learn(&budget, 256, 160000);
    }
    ck_assert_uint_eq(budget_us(&budget, 16), 10000);
}
END_TEST

START_TEST(a_worker_measures_rising_sizes_until_one_is_over_the_goal) {
    struct machine quick = {1000, 10, 1}, slow = {0, 4000, 1};
    struct budget budget = new_budget(512);
    uint32_t sizes[16], n_sizes = 0;
    for (uint32_t n, last = 0; (n = budget_measure(&budget, 4096)) > 0; last = n) {
        budget_measured(&budget, takes_us(&quick, n));
        if (n != last)
            sizes[n_sizes++ % 16] = n;
    }
    ck_assert_uint_eq(n_sizes, 7); /* 1, 16, 32 ... 512, each twice */
    ck_assert_uint_eq(sizes[1], 16);
    ck_assert_uint_eq(sizes[6], 512);
    ck_assert_uint_eq(budget.n_learnt, 2 * 7);
    budget = new_budget(512);
    calibrate(&budget, &slow); /* 4, 64 and 128 ms: 64 tokens are not measured */
    ck_assert_uint_eq(budget.start.n_tokens, 32);
    budget = new_budget(512);
    ck_assert_uint_eq(budget_measure(&budget, 15), 1);
    for (int i = 0; i < 2; i++)
        budget_measured(&budget, 1000);
    ck_assert_uint_eq(budget_measure(&budget, 15), 0); /* a context of 15 tokens */
    ck_assert_uint_eq(budget_measure(&budget, 16), 16);
    budget = new_budget(0);
    ck_assert_uint_eq(budget_measure(&budget, 4096), 0); /* of no arithmetic */
}
END_TEST

START_TEST(measures_at_start_that_differ_are_taken_again_until_time_is_up) {
    struct budget budget = new_budget(512);
    uint64_t us[] = {1000, 3000, 5000, 2000, 1063}; /* the first and the last are alike */
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(budget_measure(&budget, 4096), 1);
        budget_measured(&budget, us[i]);
    }
    ck_assert_uint_eq(budget_measure(&budget, 4096), 1); /* 1,062 would have been */
    budget_measured(&budget, 8000);
    ck_assert_uint_eq(budget_measure(&budget, 4096), 16); /* six in all */
    budget_measured(&budget, 590000);
    ck_assert_uint_eq(budget_measure(&budget, 4096), 16); /* over, but each is measured twice */
    budget_measured(&budget, 100000);
    ck_assert_uint_eq(budget_measure(&budget, 4096), 0);
    ck_assert_uint_le(budget_cost_us(&budget, 16), 100000);
}
END_TEST

START_TEST(a_measure_at_start_is_compared_with_the_least_before) {
    struct budget budget = new_budget(512);
    uint64_t us[] = {1000, 3000, 1062}; /* a sixteenth apart */
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(budget_measure(&budget, 4096), 1);
        budget_measured(&budget, us[i]);
    }
    ck_assert_uint_eq(budget_measure(&budget, 4096), 16);
}
END_TEST

START_TEST(a_larger_step_is_never_beyond_the_most) {
    struct budget budget = new_budget(300);
    struct machine machine = {0, 600, 1};
    calibrate(&budget, &machine);
    ck_assert_uint_eq(budget.n_fits, 192);
    ck_assert_uint_eq(budget.n_tokens, 300);
}
END_TEST

START_TEST(announced_times_end_at_an_hour) {
    struct budget budget = new_budget(512);
    learn(&budget, 1, 3600000000);
    ck_assert_uint_eq(budget_us(&budget, 1), 3600000000);
    budget = new_budget(512);
    learn(&budget, 1, UINT32_MAX + 2ull);
    ck_assert_uint_eq(budget_us(&budget, 1), 3600000000);
}
END_TEST

/* What a clock cannot tell apart from nothing is known all the same. */
START_TEST(a_step_of_no_time_is_one_of_a_microsecond) {
    struct budget budget;
    budget_init(&budget, 512, BUDGET_STEP_US_GOAL);
    budget_learn(&budget, 64, 64, 6400);
    ck_assert_uint_gt(budget_us(&budget, 1), 1); /* as the next that is known */
    budget_learn(&budget, 1, 0, 0);
    ck_assert_uint_eq(budget_us(&budget, 1), 1);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_measure_at_start_is_compared_with_the_least_before);
    tcase_add_test(tests, a_larger_step_is_never_beyond_the_most);
    tcase_add_test(tests, announced_times_end_at_an_hour);
    tcase_add_test(tests, steps_are_estimated_from_those_before);
    tcase_add_test(tests, what_is_announced_counts_the_rows_that_decode);
    tcase_add_test(tests, announced_times_fall_slowly);
    tcase_add_test(tests, the_least_of_recent_measures_is_the_cost);
    tcase_add_test(tests, the_share_is_the_most_sixteens_whose_step_keeps_the_goal);
    tcase_add_test(tests, the_goal_is_at_least_one_and_a_half_steps_of_one_row);
    tcase_add_test(tests, chunks_grow_again_when_a_busy_machine_is_quiet);
    tcase_add_test(tests, a_short_slow_down_leaves_no_small_steps_behind);
    tcase_add_test(tests, a_busy_start_leaves_no_small_steps_behind);
    tcase_add_test(tests, larger_steps_that_take_far_longer_are_tried_seldom);
    tcase_add_test(tests, larger_steps_that_take_little_longer_are_tried_often);
    tcase_add_test(tests, a_larger_step_that_no_prompt_filled_was_not_tried);
    tcase_add_test(tests, slow_steps_of_before_do_not_count_against_quick_ones_of_now);
    tcase_add_test(tests, a_machine_that_became_slower_gets_smaller_chunks);
    tcase_add_test(tests, small_steps_on_a_machine_that_became_slower_are_announced_by_their_share);
    tcase_add_test(tests, a_worker_measures_rising_sizes_until_one_is_over_the_goal);
    tcase_add_test(tests, measures_at_start_that_differ_are_taken_again_until_time_is_up);
    tcase_add_test(tests, a_step_of_no_time_is_one_of_a_microsecond);
}
