#include "tests/support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned n_skipped;

void suite_skip(const char *name, const char *why) {
    n_skipped++;
    printf("SKIPPED %s: %s\n", name, why);
}

unsigned suite_count_files(void) {
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

int main(void) {
    Suite *suite = suite_create(suite_name);
    TCase *tests = tcase_create(suite_name);
    tcase_set_timeout(tests, suite_timeout_s);
    suite_add(tests);
    if (n_skipped > 0) /* as tests/support/tally.py reads it, beside what Check prints */
        printf("0 passed, 0 failed, %u skipped\n", n_skipped);
    fflush(stdout); /* or every child would print it again */
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
