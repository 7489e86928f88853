/* tests/support/suite.h: one Check program per room or seam.
 *
 * A program defines `const char *suite_name` and `void suite_add(TCase *tests)`; suite.c has
 * main(). Arguments filter by test-case name as Check does (CK_RUN_CASE); CK_FORK=no
 * for debuggers. */
#pragma once

#include <check.h>

extern const char *const suite_name;
extern const double suite_timeout_s;

/* Adds the program's tests, in order. */
void suite_add(TCase *tests);

/* From suite_add() in place of a test that cannot run here: it is counted as skipped and not as
 * passed, and the line "SKIPPED name: why" is printed. */
void suite_skip(const char *name, const char *why);
