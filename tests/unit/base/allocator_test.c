#include "base/allocator.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "base/process.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const suite_name = "base_allocator";
const double suite_timeout_s = 60;

#define MIB      ((size_t)1 << 20)
#define BLOCK    ((size_t)16 << 10) /* small enough for glibc to take it from its heap */
#define N_BLOCKS 1024
#define HELD     (N_BLOCKS * BLOCK)

static char *blocks[N_BLOCKS];

static void hold(void) {
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        ck_assert_ptr_nonnull(blocks[i]);
        memset(blocks[i], 1, BLOCK);
    }
}

static void drop(void) {
    for (unsigned i = 0; i < N_BLOCKS; i++)
        free(blocks[i]);
}

/* A sanitizer's malloc counts for itself. */
static bool is_counted(void) {
    return strcmp(allocator_name(), "sanitizer") != 0;
}

START_TEST(figures_follow_what_is_held) {
    struct allocator_figures before = allocator_figures();
    uint64_t resident = process_figures().resident_bytes;
    hold();
    struct allocator_figures held = allocator_figures();
    ck_assert_uint_ge(process_figures().resident_bytes, resident + HELD / 2);
    drop();
    struct allocator_figures after = allocator_figures();
    if (!is_counted())
        return;
    ck_assert_uint_ge(held.allocated + MIB, before.allocated + HELD);
    ck_assert_uint_le(held.allocated, before.allocated + HELD + HELD / 4);
    ck_assert_uint_le(held.allocated, held.active);
    ck_assert_uint_le(held.active, held.resident);
    ck_assert_uint_le(after.allocated, before.allocated + MIB);
}
END_TEST

/* Within a minute, which bounds the wait and is not a target. */
START_TEST(freed_memory_goes_back_to_the_system) {
    uint64_t before = process_figures().resident_bytes;
    if (!is_counted())
        return;
    hold();
    drop();
    const struct timespec nap = {.tv_nsec = 20000000};
    unsigned n_naps = 0;
    while (process_figures().resident_bytes > before + HELD / 2 && n_naps++ < 3000)
        nanosleep(&nap, NULL);
    ck_assert_uint_lt(n_naps, 3000);
}
END_TEST

START_TEST(metrics_show_every_figure_and_the_name) {
    struct metrics *metrics;
    struct metric *series[ALLOCATOR_SERIES], *process[PROCESS_SERIES];
    struct buf out;
    buf_init(&out, 0);
    ck_assert_int_eq(metrics_new(16, &metrics), STATUS_OK);
    allocator_add_rows(metrics, series);
    allocator_show(series);
    process_add_rows(metrics, process);
    process_show(process);
    metrics_write(metrics, &out);
    static const char *const names[] = {"\ntandem_memory_allocated_bytes ",
                                        "\ntandem_memory_active_bytes ",
                                        "\ntandem_memory_resident_bytes ",
                                        "\ntandem_memory_retained_bytes ",
                                        "\nprocess_resident_memory_bytes ",
                                        "\ntandem_build_info{version=\"" TANDEM_VERSION
                                        "\",allocator=\""};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(strstr(out.data, names[i]) != NULL, "no %s", names[i]);
    ck_assert_ptr_nonnull(strstr(out.data, allocator_name()));
    buf_fini(&out);
    metrics_free(metrics);
}
END_TEST

/* This process is young, and began when it says also later. */
START_TEST(a_process_knows_when_it_began) {
    double now_s = (double)clock_unix_s();
    double started_s = process_figures().started_s;
    ck_assert_double_le(started_s, now_s + 1);
    ck_assert_double_ge(started_s, now_s - 3600);
    ck_assert_double_eq(process_figures().started_s, started_s);
}
END_TEST

void suite_add(TCase *tests) {
    setenv("CK_FORK", "no",
           1); /* jemalloc's thread, which gives memory back, does not survive fork() */
    tcase_add_test(tests, figures_follow_what_is_held);
    tcase_add_test(tests, freed_memory_goes_back_to_the_system);
    tcase_add_test(tests, a_process_knows_when_it_began);
    tcase_add_test(tests, metrics_show_every_figure_and_the_name);
}
