/* Remarks: a line each, none twice, none that forges another. */
#include "tests/support/suite.h"

#include "base/remarks.h"

#include <string.h>

const char *const suite_name = "base_remarks";
const double suite_timeout_s = 60;

START_TEST(a_line_is_there_once_and_the_list_ends) {
    struct remarks remarks = {0};
    remarks_add(&remarks, "one %d", 1);
    remarks_add(&remarks, "one %d", 1);
    ck_assert_uint_eq(remarks.n, 1);
    ck_assert_str_eq(remarks.lines[0], "one 1");
    for (int i = 2; i <= REMARKS_MAX; i++)
        remarks_add(&remarks, "line %d", i);
    remarks_add(&remarks, "line %d", REMARKS_MAX);
    ck_assert_uint_eq(remarks.n, REMARKS_MAX);
    ck_assert_str_eq(remarks.lines[REMARKS_MAX - 2], "line 23");
    ck_assert_str_eq(remarks.lines[REMARKS_MAX - 1], "line 24");
    remarks_add(&remarks, "another");
    ck_assert_str_eq(remarks.lines[REMARKS_MAX - 2], "line 23");
    ck_assert_str_eq(remarks.lines[REMARKS_MAX - 1], "and 2 more of that kind");
    remarks_add(&remarks, "line %d", 5);
    remarks_add(&remarks, "one more");
    ck_assert_uint_eq(remarks.n, REMARKS_MAX);
    ck_assert_str_eq(remarks.lines[REMARKS_MAX - 1], "and 3 more of that kind");
}
END_TEST

/* Names of tokens come from files. */
START_TEST(control_bytes_are_not_passed_on) {
    struct remarks remarks = {0};
    remarks_add(&remarks, "token \"%s\" \xe2\x96\x81", "\n\x1b[31m\x7f");
    ck_assert_str_eq(remarks.lines[0], "token \"??[31m?\" \xe2\x96\x81");
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_line_is_there_once_and_the_list_ends);
    tcase_add_test(tests, control_bytes_are_not_passed_on);
}
