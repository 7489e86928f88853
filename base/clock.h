/* base/clock.h: time as the shells read it. The pure cores never do: events bring them `now_ns`. */
#pragma once

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

/* CLOCK_MONOTONIC in nanoseconds: all deadlines, leases and measurements. Any thread. */
uint64_t clock_now_ns(void);

/* The same, some milliseconds late, for a tenth of the price. Any thread. */
uint64_t clock_coarse_ns(void);

/* What this thread has computed so far, in nanoseconds of a processor. */
uint64_t clock_thread_cpu_ns(void);

/* Unix time in seconds, for `created` fields and log lines only. Any thread. */
int64_t clock_unix_s(void);

/* Unix time in nanoseconds: part of incarnation numbers. Any thread. */
uint64_t clock_unix_ns(void);
