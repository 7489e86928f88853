/* base/allocator.h: which malloc a daemon runs on, and what it holds.
 *
 * A program that links tandem_allocator has jemalloc where the build found it (option
 * TANDEM_JEMALLOC of CMake), and the C library's malloc otherwise. Only allocator.c knows the
 * difference: names and figures are the same in both. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct metrics;
struct metric;

/* "jemalloc 5.3.0", "glibc 2.36" or "sanitizer". The first call is for one thread. */
const char *allocator_name(void);

/* Freed runs of this many bytes and more go back to the system at once. For a program's main, before there are
 * threads. jemalloc does so with every page after its decay time, and ignores this. */
void allocator_map_from(size_t n_bytes);

/* In bytes. Each holds the one before it, but for `retained`. */
struct allocator_figures {
    uint64_t allocated; /* what the program asked for and did not free */
    uint64_t active;    /* pages that hold some of it; glibc: everything it got from the system */
    uint64_t resident;  /* pages that may be in memory: with its own tables and what it keeps dirty;
                         * glibc does not count this, and shows `active` */
    uint64_t retained;  /* addresses without memory, kept for later; glibc: freed bytes it keeps */
};

/* Takes some microseconds with jemalloc; with glibc also time for each free run. Any thread. */
struct allocator_figures allocator_figures(void);

/* What /metrics shows of it: a series for each figure, and tandem_build_info. Registered once and
 * brought up to date before each writing, by the thread of `metrics`. */
#define ALLOCATOR_SERIES 4
void allocator_add_rows(struct metrics *metrics, struct metric *series[ALLOCATOR_SERIES]);
void allocator_show(struct metric *const series[ALLOCATOR_SERIES]);
