/* tests/support/test_clock.h: a test says when time passes. Then however long the machine stands still, what is honest comes
 * in time, and what is to be late is late. tandem_test_clock() of CMake puts it in the place of clock_now_ns() and of
 * clock_unix_s().
 *
 * Timers of base/net/loop sleep for their real time, and again while the clock shows that they are not due. */
#pragma once

#include <stdint.h>

/* The clock stands, until test_clock_run() makes it the machine's again, as at first. */
void test_clock_stop(void);

/* Moves the clock that stands. */
void test_clock_pass(uint64_t ns);

void test_clock_run(void);
