#include "base/allocator.h"

#include "base/metrics.h"

#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define AT(member) METRIC_AT(struct allocator_figures, member)

static const struct metric_row rows[ALLOCATOR_SERIES] = {
    {"tandem_memory_allocated_bytes", "Heap bytes that the program asked for and did not free.",
     METRIC_GAUGE, AT(allocated)},
    {"tandem_memory_active_bytes", "Bytes of pages that hold allocated ones.", METRIC_GAUGE,
     AT(active)},
    {"tandem_memory_resident_bytes", "Bytes of the heap's pages that may be in memory.",
     METRIC_GAUGE, AT(resident)},
    {"tandem_memory_retained_bytes", "Bytes of addresses that the allocator keeps for later.",
     METRIC_GAUGE, AT(retained)},
};

#ifdef TANDEM_JEMALLOC
#include <jemalloc/jemalloc.h>

/* jemalloc reads this at the program's first allocation. One arena: one thread of a daemon does most of the
 * allocating, and each arena keeps free pages of its own; so does each thread, of sizes up to 4 KiB. Freed
 * pages go back within about a second, by a thread of jemalloc's, so that neither an event loop nor an
 * engine makes these system calls. */
const char *malloc_conf = "narenas:1,lg_tcache_max:12,background_thread:true,"
                          "dirty_decay_ms:1000,muzzy_decay_ms:0";

const char *allocator_name(void) {
    static char name[48];
    const char *version = JEMALLOC_VERSION;
    if (!name[0]) {
        (void)!mallctl("version", &version, &(size_t){sizeof version}, NULL, 0);
        snprintf(name, sizeof name, "jemalloc %.*s", (int)strcspn(version, "-"), version);
    }
    return name;
}

void allocator_map_from(size_t n_bytes) {
    (void)n_bytes;
}

static uint64_t jemalloc_figure(const char *name) {
    size_t value = 0;
    (void)!mallctl(name, &value, &(size_t){sizeof value}, NULL, 0);
    return value;
}

struct allocator_figures allocator_figures(void) {
    uint64_t epoch = 1; /* writing it brings the others up to date */
    (void)!mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    return (struct allocator_figures){.allocated = jemalloc_figure("stats.allocated"),
                                      .active = jemalloc_figure("stats.active"),
                                      .resident = jemalloc_figure("stats.resident"),
                                      .retained = jemalloc_figure("stats.retained")};
}
#else
const char *allocator_name(void) {
#ifdef TANDEM_SANITIZED
    return "sanitizer";
#else
    static char name[48];
    if (!name[0])
        snprintf(name, sizeof name, "glibc %s", gnu_get_libc_version());
    return name;
#endif
}

void allocator_map_from(size_t n_bytes) {
    mallopt(M_MMAP_THRESHOLD, (int)n_bytes);
}

struct allocator_figures allocator_figures(void) {
    struct mallinfo2 info = mallinfo2();
    uint64_t held = info.arena + info.hblkhd;
    return (struct allocator_figures){.allocated = info.uordblks + info.hblkhd,
                                      .active = held,
                                      .resident = held,
                                      .retained = info.fordblks};
}
#endif

void allocator_add_rows(struct metrics *metrics, struct metric *series[ALLOCATOR_SERIES]) {
    const struct metric_label labels[] = {{"version", TANDEM_VERSION},
                                          {"allocator", allocator_name()}};
    metric_set(metrics_gauge(metrics, (struct metric_spec){"tandem_build_info",
                                                           "What this program is; the value is 1.",
                                                           labels, 2}),
               1);
    metrics_add_rows(metrics, rows, ALLOCATOR_SERIES, NULL, 0, series);
}

void allocator_show(struct metric *const series[ALLOCATOR_SERIES]) {
    const struct allocator_figures figures = allocator_figures();
    metric_rows_take(rows, ALLOCATOR_SERIES, series, &figures);
}
