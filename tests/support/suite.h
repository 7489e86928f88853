/* tests/support/suite.h: one Check program per room or seam.
 *
 * A program defines `const char *suite_name` and `void suite_add(TCase *tests)`; suite.c has
 * main(). Arguments filter by test-case name as Check does (CK_RUN_CASE); CK_FORK=no
 * for debuggers. */
#pragma once

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Check's own writes to a file with each assertion that holds and reads all of that when the test has ended, which took most of the
 * time of tests with many. This one tells of a place when it is first reached: where a test breaks off, Check names the last
 * place that was new. */
#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                                   \
    do {                                                                                           \
        static atomic_bool suite_was_here;                                                         \
        if (!(expr))                                                                               \
            _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", ##__VA_ARGS__);  \
        if (!atomic_load_explicit(&suite_was_here, memory_order_relaxed)) {                        \
            atomic_store_explicit(&suite_was_here, true, memory_order_relaxed);                    \
            _mark_point(__FILE__, __LINE__);                                                       \
        }                                                                                          \
    } while (0)

extern const char *const suite_name;
extern const double suite_timeout_s;

/* Adds the program's tests, in order. */
void suite_add(TCase *tests);

/* From suite_add() in place of a test that cannot run here: it is counted as skipped and not as
 * passed, and the line "SKIPPED name: why" is printed. */
void suite_skip(const char *name, const char *why);

/* How many files the process has open: for what must leave none behind. */
unsigned suite_count_files(void);
