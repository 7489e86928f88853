/* How much memory is left: /proc/meminfo, and the limits of control groups. */
#include "tests/support/suite.h"

#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const suite_name = "base_memory";
const double suite_timeout_s = 60;

#define FREE 24000000000ull /* by put_host() */

static char root[] = "/tmp/tandem-memory-XXXXXX";
static unsigned n_open; /* descriptors when a test begins */

/* A file below the root, with the folders on its way. */
static void put(const char *name, const char *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void put_group(const char *group, const char *name, const char *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "sys/fs/cgroup%s/%s", group, name);
    put(path, text);
}

static void set_up(void) {
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(root));
    put("proc/meminfo", "MemTotal:       25000000 kB\nMemAvailable:   23437500 kB\n");
    n_open = suite_count_files();
}

static void tear_down(void) {
    char command[PATH_MAX];
    ck_assert_uint_eq(suite_count_files(), n_open);
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(without_limits_the_host_counts) {
    ck_assert_uint_eq(memory_available_below(root), FREE);
    put("proc/self/cgroup", "0::/a\n");
    put_group("/a", "memory.max", "max\n");
    put_group("/a", "memory.high", "max\n");
    put_group("/a", "memory.current", "100\n");
    ck_assert_uint_eq(memory_available_below(root), FREE);
    put_group("/a", "memory.max", "24000000101\n");
    ck_assert_uint_eq(memory_available_below(root), FREE);
    put_group("/a", "memory.max", "24000000099\n");
    ck_assert_uint_eq(memory_available_below(root), FREE - 1);
    ck_assert_uint_gt(memory_available(), 0);
}
END_TEST

START_TEST(the_own_group_counts) {
    put("proc/self/cgroup", "0::/tandem-try\n");
    put_group("/tandem-try", "memory.max", "800000000\n");
    ck_assert_uint_eq(memory_available_below(root), 800000000);
    put_group("/tandem-try", "memory.current", "100000000\n");
    ck_assert_uint_eq(memory_available_below(root), 700000000);
    put_group("/tandem-try", "memory.high", "400000000\n");
    ck_assert_uint_eq(memory_available_below(root), 300000000);
    put_group("/tandem-try", "memory.current", "400000001\n");
    ck_assert_uint_eq(memory_available_below(root), 1);
    put("proc/self/cgroup", "0::/..tandem\n"); /* a name, and no way up */
    put_group("/..tandem", "memory.max", "200000000\n");
    ck_assert_uint_eq(memory_available_below(root), 200000000);
}
END_TEST

/* In a container's name space of groups its own is the topmost, whatever the path says. */
START_TEST(page_cache_counts_as_free) {
    static const char *const lines[] = {"0::/\n", "0::/..\n", "0::/../../b\n", "0::/absent\n"};
    put_group("", "memory.max", "800000000\n");
    put_group("", "memory.current", "763000000\n");
    put_group("", "memory.stat", "anon 19000000\ninactive_file 700000000\nactive_file 44000000\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put("proc/self/cgroup", lines[i]);
        ck_assert_msg(memory_available_below(root) == 781000000, "%s", lines[i]);
    }
    put_group("", "memory.stat", "inactive_file 763000001\n");
    ck_assert_uint_eq(memory_available_below(root), 800000000);
}
END_TEST

START_TEST(the_least_on_the_way_up_holds) {
    put("proc/self/cgroup", "0::/a b/c:d\n");
    put_group("/a b", "memory.max", "300\n");
    put_group("/a b", "memory.current", "200\n");
    put_group("/a b/c:d", "memory.max", "500\n");
    put_group("/a b/c:d", "memory.current", "100\n");
    ck_assert_uint_eq(memory_available_below(root), 100);
    put_group("/a b/c:d", "memory.max", "150\n");
    ck_assert_uint_eq(memory_available_below(root), 50);
}
END_TEST

START_TEST(groups_of_version_1_count) {
    put("proc/self/cgroup", "5:devices:/x\n4:cpu,memory:/a\n0::/\n");
    put_group("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put_group("/memory/a", "memory.usage_in_bytes", "100000000\n");
    put_group("/memory/a", "memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_uint_eq(memory_available_below(root), FREE);
    put_group("/memory/a", "memory.limit_in_bytes", "250000000\n");
    ck_assert_uint_eq(memory_available_below(root), 150000000);
    put_group("/memory/a", "memory.stat",
              "inactive_file 1\ntotal_inactive_file 60000000\ntotal_active_file 10000000\n");
    ck_assert_uint_eq(memory_available_below(root), 220000000);
    put_group("/unified", "memory.max", "200000000\n");
    ck_assert_uint_eq(memory_available_below(root), 200000000);
}
END_TEST

/* Where it is 0 a group counts itself alone: none below it. The lowest group that is there is the own one. */
START_TEST(groups_without_hierarchy_do_not_limit_those_below) {
    put("proc/self/cgroup", "4:memory:/a/b\n");
    put_group("/memory", "memory.limit_in_bytes", "100\n");
    put_group("/memory/a", "memory.limit_in_bytes", "200\n");
    put_group("/memory/a/b", "memory.limit_in_bytes", "300\n");
    ck_assert_uint_eq(memory_available_below(root), 100);
    put_group("/memory", "memory.use_hierarchy", "0\n");
    put_group("/memory/a", "memory.use_hierarchy", "1\n");
    ck_assert_uint_eq(memory_available_below(root), 200);
    put_group("/memory/a", "memory.use_hierarchy", "0\n");
    put_group("/memory/a/b", "memory.use_hierarchy", "0\n");
    ck_assert_uint_eq(memory_available_below(root), 300);
    put_group("/memory", "memory.use_hierarchy", "1\n"); /* of those that it does not count */
    ck_assert_uint_eq(memory_available_below(root), 300);
    put("proc/self/cgroup", "4:memory:/a/absent\n");
    ck_assert_uint_eq(memory_available_below(root), 100);
    put("proc/self/cgroup", "0::/memory/a/b\n"); /* version 2 knows no such file */
    put_group("/memory/a", "memory.max", "250\n");
    ck_assert_uint_eq(memory_available_below(root), 250);
}
END_TEST

START_TEST(what_is_no_number_is_no_limit) {
    static const char *const texts[] = {"", "\n", "-1\n", "x\n", "99999999999999999999\n"};
    put("proc/self/cgroup", "\n0\n0:\n0::/a\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_group("/a", "memory.max", texts[i]);
        ck_assert_msg(memory_available_below(root) == FREE, "%s", texts[i]);
    }
    put("proc/meminfo", "");
    ck_assert_uint_eq(memory_available_below(root), 0);
    put_group("/a", "memory.max", "7\n");
    ck_assert_uint_eq(memory_available_below(root), 7);
    put_group("/a", "memory.current", "99999999999999999999\n");
    ck_assert_uint_eq(memory_available_below(root), 7);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, without_limits_the_host_counts);
    tcase_add_test(tests, the_own_group_counts);
    tcase_add_test(tests, page_cache_counts_as_free);
    tcase_add_test(tests, the_least_on_the_way_up_holds);
    tcase_add_test(tests, groups_of_version_1_count);
    tcase_add_test(tests, groups_without_hierarchy_do_not_limit_those_below);
    tcase_add_test(tests, what_is_no_number_is_no_limit);
}
