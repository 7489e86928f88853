#include "tests/support/suite.h"

#include <stdlib.h>

int main(void) {
    Suite *suite = suite_create(suite_name);
    TCase *tests = tcase_create(suite_name);
    tcase_set_timeout(tests, suite_timeout_s);
    suite_add(tests);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
