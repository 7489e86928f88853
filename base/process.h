/* base/process.h: what /metrics shows of the process itself, under the names that Prometheus' own
 * client libraries use. */
#pragma once

#include <stdint.h>

struct metrics;
struct metric;

struct process_figures {
    uint64_t resident_bytes; /* memory: heap, code, stacks and files */
    double started_s;        /* Unix time at which the process began; the same in each call */
};

/* Reads /proc/self; what it lacks is 0. The first call is for one thread. */
struct process_figures process_figures(void);

/* Registered once and brought up to date before each writing, by the thread of `metrics`. */
#define PROCESS_SERIES 2
void process_add_rows(struct metrics *metrics, struct metric *series[PROCESS_SERIES]);
void process_show(struct metric *const series[PROCESS_SERIES]);
