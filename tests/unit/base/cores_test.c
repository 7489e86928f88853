/* How many cores are there to compute on: affinity, and the quotas of control groups. */
#include "tests/support/suite.h"

#include "base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const suite_name = "base_cores";
const double suite_timeout_s = 60;

static char root[] = "/tmp/tandem-cores-XXXXXX";

static void set_up(void) {
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void tear_down(void) {
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

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

/* A group "", "/a" or "/a/b" with this text as its cpu.max. */
static void put_group(const char *group, const char *text) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "sys/fs/cgroup%s/cpu.max", group);
    put(name, text);
}

/* A group of version 1: its folder, of that hierarchy. */
static void put_pair(const char *folder, const char *quota, const char *period) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "sys/fs/cgroup/%s/cpu.cfs_quota_us", folder);
    put(name, quota);
    snprintf(name, sizeof name, "sys/fs/cgroup/%s/cpu.cfs_period_us", folder);
    put(name, period);
}

static uint32_t cores_in(const char *lines) {
    put("proc/self/cgroup", lines);
    return cores_of_quota(root);
}

START_TEST(a_group_without_a_quota_has_none) {
    ck_assert_uint_eq(cores_of_quota(root), 0);
    ck_assert_uint_eq(cores_in("0::/absent\n"), 0);
    put_group("/a", "max 100000\n");
    ck_assert_uint_eq(cores_in("0::/a\n"), 0);
}
END_TEST

START_TEST(parts_of_a_core_count_as_one) {
    put_group("/a", "200000 100000\n");
    ck_assert_uint_eq(cores_in("0::/a\n"), 2);
    put_group("/a", "200001 100000\n");
    ck_assert_uint_eq(cores_of_quota(root), 3);
    put_group("/a", "1000 100000\n");
    ck_assert_uint_eq(cores_of_quota(root), 1);
}
END_TEST

START_TEST(the_least_on_the_way_up_holds) {
    put_group("/a", "300000 100000\n");
    put_group("/a/b", "500000 100000\n");
    ck_assert_uint_eq(cores_in("0::/a/b\n"), 3);
    put_group("/a/b", "100000 50000\n");
    ck_assert_uint_eq(cores_of_quota(root), 2);
    put_group("/a/b", "max 100000\n");
    ck_assert_uint_eq(cores_of_quota(root), 3);
}
END_TEST

/* In a container's name space of groups its own is the topmost, whatever the path says. */
START_TEST(the_topmost_group_counts) {
    static const char *const lines[] = {"0::/\n", "0::/absent\n", "0::/..\n", "0::/../../b\n"};
    put("sys/fs/cpu.max", "100000 100000\n");
    put_group("", "150000 100000\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(cores_in(lines[i]) == 2, "%s", lines[i]);
    put_group("/unified", "50000 100000\n");
    ck_assert_uint_eq(cores_in("0::/\n"), 1);
}
END_TEST

START_TEST(groups_of_version_1_count) {
    static const char lines[] = "5:cpuset:/x\n4:cpu,cpuacct:/a/b\n3:acpu:/y\n0::/\n";
    put_pair("cpuset/x", "100000\n", "100000\n");
    put_pair("cpu/a", "-1\n", "100000\n");
    put_pair("cpu/a/b", "-1\n", "100000\n");
    ck_assert_uint_eq(cores_in(lines), 0);
    put_pair("cpu/a", "250000\n", "100000\n");
    ck_assert_uint_eq(cores_of_quota(root), 3);
    put_pair("cpu/a/b", "100000\n", "50000\n");
    ck_assert_uint_eq(cores_of_quota(root), 2);
    put_pair("cpu,cpuacct/a", "50000\n", "50000\n"); /* the other name of the mount */
    ck_assert_uint_eq(cores_of_quota(root), 1);
    put_pair("cpu,cpuacct/a", "50000\n", "0\n");
    ck_assert_uint_eq(cores_of_quota(root), 2);
    ck_assert_uint_eq(cores_in("4:cpuacct,cpu:/a\n"), 3);
    ck_assert_uint_eq(cores_in("4:cpuacct:/a\n"), 0);
}
END_TEST

START_TEST(what_is_no_quota_is_none) {
    static const char *const texts[] = {
        "",           "\n",         "-1 100000\n", "100000\n",
        "0 100000\n", "100000 0\n", "x y\n",       "99999999999999999999 1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_group("/a", texts[i]);
        ck_assert_msg(cores_in("0::/a\n") == 0, "%s", texts[i]);
    }
}
END_TEST

START_TEST(an_affinity_is_kept_to) {
    cpu_set_t all;
    cpu_set_t one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    ck_assert_uint_ge(cores_usable(), 1);
    ck_assert_uint_le(cores_usable(), (unsigned)CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(cores_usable(), 1);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_group_without_a_quota_has_none);
    tcase_add_test(tests, parts_of_a_core_count_as_one);
    tcase_add_test(tests, the_least_on_the_way_up_holds);
    tcase_add_test(tests, the_topmost_group_counts);
    tcase_add_test(tests, groups_of_version_1_count);
    tcase_add_test(tests, what_is_no_quota_is_none);
    tcase_add_test(tests, an_affinity_is_kept_to);
}
