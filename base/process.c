#include "base/process.h"

#include "base/metrics.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define AT(member) METRIC_AT(struct process_figures, member)

static const struct metric_row rows[PROCESS_SERIES] = {
    {"process_resident_memory_bytes", "Resident memory size in bytes.", METRIC_GAUGE,
     AT(resident_bytes)},
    {"process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
     METRIC_GAUGE, AT(started_s)},
};

static uint64_t resident_bytes(void) {
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double process_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Field 22 of /proc/self/stat counts ticks since the machine started (proc(5)). The program's name,
 * field 2, has no blank or bracket in it: it is ours. */
static double started_s(void) {
    unsigned long long ticks = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return 0;
    int n = fscanf(file,
                   "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                   "%*d %*d %llu",
                   &ticks);
    fclose(file);
    if (n != 1)
        return 0;
    double lived_s = process_seconds(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return process_seconds(CLOCK_REALTIME) - lived_s;
}

struct process_figures process_figures(void) {
    static double once_s; /* clocks are adjusted, and the time would seem to change */
    if (once_s == 0)
        once_s = started_s();
    return (struct process_figures){.resident_bytes = resident_bytes(), .started_s = once_s};
}

void process_add_rows(struct metrics *metrics, struct metric *series[PROCESS_SERIES]) {
    metrics_add_rows(metrics, rows, PROCESS_SERIES, NULL, 0, series);
}

void process_show(struct metric *const series[PROCESS_SERIES]) {
    const struct process_figures figures = process_figures();
    metric_rows_take(rows, PROCESS_SERIES, series, &figures);
}
