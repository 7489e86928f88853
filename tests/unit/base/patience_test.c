#include "base/patience.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "tests/support/suite.h"

#include <string.h>
#include <sys/resource.h>

const char *const suite_name = "base_patience";
const double suite_timeout_s = 60;

START_TEST(first_line_comes_after_five_seconds_the_next_each_minute) {
    struct patience patience = {0};
    uint64_t t = 3600 * NS_PER_S;
    ck_assert_int_eq(patience_turn(&patience, t, true), PATIENCE_QUIET);
    ck_assert_int_eq(patience_turn(&patience, t + 5 * NS_PER_S - 1, true), PATIENCE_QUIET);
    ck_assert_int_eq(patience_turn(&patience, t + 5 * NS_PER_S, true), PATIENCE_SAY);
    ck_assert_uint_eq(patience_s(&patience, t + 5 * NS_PER_S), 5);
    ck_assert_int_eq(patience_turn(&patience, t + 6 * NS_PER_S, true), PATIENCE_QUIET);
    ck_assert_int_eq(patience_turn(&patience, t + 65 * NS_PER_S - 1, true), PATIENCE_QUIET);
    ck_assert_int_eq(patience_turn(&patience, t + 65 * NS_PER_S, true), PATIENCE_SAY);
    ck_assert_uint_eq(patience_s(&patience, t + 65 * NS_PER_S), 65);
}
END_TEST

START_TEST(end_of_a_wait_is_said_once_and_only_if_the_wait_was) {
    struct patience patience = {0};
    uint64_t t = NS_PER_S;
    ck_assert_int_eq(patience_turn(&patience, t, true), PATIENCE_QUIET);
    ck_assert_int_eq(patience_turn(&patience, t + 3 * NS_PER_S, false), PATIENCE_QUIET);
    ck_assert_uint_eq(patience_s(&patience, t + 3 * NS_PER_S), 0);
    ck_assert_int_eq(patience_turn(&patience, t + 4 * NS_PER_S, true), PATIENCE_QUIET);
    ck_assert_int_eq(patience_turn(&patience, t + 8 * NS_PER_S, true), PATIENCE_QUIET); /* afresh */
    ck_assert_int_eq(patience_turn(&patience, t + 9 * NS_PER_S, true), PATIENCE_SAY);
    ck_assert_int_eq(patience_turn(&patience, t + 10 * NS_PER_S, false), PATIENCE_OVER);
    ck_assert_int_eq(patience_turn(&patience, t + 11 * NS_PER_S, false), PATIENCE_QUIET);
}
END_TEST

START_TEST(limit_of_files_is_raised_and_said_when_it_is_too_low) {
    struct error error;
    struct rlimit limit = {.rlim_cur = 20, .rlim_max = 100};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(descriptors_need(100, &error), STATUS_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, 100);
    ck_assert_int_eq(descriptors_need(101, &error), STATUS_LIMIT);
    ck_assert_str_eq(error.text, "ulimit -n: 100 open files are too few, at least 101 are needed");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, first_line_comes_after_five_seconds_the_next_each_minute);
    tcase_add_test(tests, end_of_a_wait_is_said_once_and_only_if_the_wait_was);
    tcase_add_test(tests, limit_of_files_is_raised_and_said_when_it_is_too_low);
}
