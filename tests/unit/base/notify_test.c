/* What a service manager hears: a socket of the test's own takes its place. */
#include "base/notify.h"

#include "base/clock.h"
#include "tests/support/suite.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *const suite_name = "base_notify";
const double suite_timeout_s = 60;

static int manager = -1;

/* An abstract name needs no folder; length bytes of it count, so it is written without a NUL. */
static void open_manager(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int n = snprintf(name, sizeof name, "@tandem-notify-%d", (int)getpid());
    memcpy(address.sun_path, name, (size_t)n);
    address.sun_path[0] = 0;
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
}

static void close_manager(void) {
    close(manager);
    unsetenv("NOTIFY_SOCKET");
}

static const char *heard(void) {
    static char text[1024];
    ssize_t n = recv(manager, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = 0;
    return text;
}

START_TEST(each_line_reaches_the_manager) {
    notify_send("READY=1\nLISTEN=127.0.0.1:1");
    ck_assert_str_eq(heard(), "READY=1\nLISTEN=127.0.0.1:1");
    notify_status("%u running", 7u);
    ck_assert_str_eq(heard(), "STATUS=7 running");
    notify_extend(90);
    ck_assert_str_eq(heard(), "EXTEND_TIMEOUT_USEC=90000000");
    unsigned long long us = 0, before = clock_now_ns() / NS_PER_US;
    notify_reloading();
    ck_assert_int_eq(sscanf(heard(), "RELOADING=1\nMONOTONIC_USEC=%llu", &us), 1);
    ck_assert_uint_ge(us, before);
    ck_assert_uint_le(us, clock_now_ns() / NS_PER_US);
    notify_reloaded();
    ck_assert_str_eq(heard(), "READY=1");
}
END_TEST

START_TEST(a_long_status_is_cut) {
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    notify_status("%s", text);
    size_t n = strlen(heard());
    ck_assert_uint_gt(n, 200);
    ck_assert_uint_lt(n, sizeof text);
}
END_TEST

START_TEST(a_manager_that_does_not_read_holds_nobody_for_ever) {
    unsigned n = 0;
    FILE *file = fopen("/proc/sys/net/unix/max_dgram_qlen", "re");
    ck_assert(file && fscanf(file, "%u", &n) == 1);
    fclose(file);
    for (unsigned i = 0; i < n + 3; i++) /* the kernel keeps n, or n + 1 */
        notify_send("WATCHDOG=1");
    ck_assert_str_eq(heard(), "WATCHDOG=1");
}
END_TEST

START_TEST(without_a_manager_nothing_is_sent) {
    close_manager();
    ck_assert(!notify_is_on());
    notify_send("READY=1");
    open_manager();
    ck_assert(notify_is_on());
    ck_assert_str_eq(heard(), "");
    static const char *const bad[] = {"", "relative", "@nobody-listens-there", "/nowhere/at/all"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        notify_send("READY=1");
    }
    ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(the_watchdog_is_fed_at_half_its_time_by_whom_it_watches) {
    char pid[32];
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    ck_assert_uint_eq(notify_watchdog_ns(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    ck_assert_uint_eq(notify_watchdog_ns(), 15 * NS_PER_S);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    ck_assert_uint_eq(notify_watchdog_ns(), 15 * NS_PER_S);
    setenv("WATCHDOG_PID", "1", 1);
    ck_assert_uint_eq(notify_watchdog_ns(), 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, open_manager, close_manager);
    tcase_add_test(tests, each_line_reaches_the_manager);
    tcase_add_test(tests, a_long_status_is_cut);
    tcase_add_test(tests, a_manager_that_does_not_read_holds_nobody_for_ever);
    tcase_add_test(tests, without_a_manager_nothing_is_sent);
    tcase_add_test(tests, the_watchdog_is_fed_at_half_its_time_by_whom_it_watches);
}
