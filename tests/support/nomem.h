/* tests/support/nomem.h: allocations that fail when a test says so, and a count of those that live.
 *
 * A program that uses it is linked with --wrap (tests/conform/CMakeLists.txt): what our own objects
 * call, not what libraries allocate inside. Not for threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The n-th allocation from here on fails, once (1: the next); 0: none does. */
void nomem_fail(uint64_t n);

/* Did one fail since? */
bool nomem_struck(void);

/* Allocations that were not freed, since the program began. */
int64_t nomem_live(void);
