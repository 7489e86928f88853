#include "tests/support/suite.h"

#include "base/clock.h"
#include "tools/lib/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

const char *const suite_name = "terminal";
const double suite_timeout_s = 60;

static struct loop *loop;
static int master, slave;
static unsigned n_gone;

static void begin(void) {
    n_gone = 0;
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(slave, 0);
}

static void end(void) {
    if (master >= 0)
        close(master);
    close(slave);
    loop_free(loop);
}

static void close_it(void *user) {
    (void)user;
    ck_assert(!terminal_is_gone(slave));
    close(master);
    master = -1;
}

static void on_gone(void *user) {
    n_gone++;
    loop_stop(user);
}

/* It is looked at again and again: this one goes after the first look. */
START_TEST(a_terminal_that_goes_is_noticed_whenever_it_goes) {
    struct terminal terminal;
    struct loop_timer *timer;
    ck_assert_int_eq(terminal_init(&terminal, loop, slave, on_gone, loop), STATUS_OK);
    ck_assert_int_eq(loop_timer_new(loop, close_it, NULL, &timer), STATUS_OK);
    loop_timer_after(timer, NS_PER_S * 3 / 2);
    loop_run(loop);
    ck_assert_uint_eq(n_gone, 1);
    ck_assert(terminal_is_gone(slave));
    loop_timer_free(timer);
    terminal_fini(&terminal);
}
END_TEST

/* A pipe whose other end is closed is told by poll() as such a terminal is. */
START_TEST(what_is_no_terminal_is_not_looked_at) {
    int ends[2], file = open("/dev/null", O_RDWR);
    ck_assert_int_eq(pipe(ends), 0);
    close(ends[1]);
    const int fds[] = {ends[0], file, -1};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        struct terminal terminal;
        ck_assert_int_eq(terminal_init(&terminal, loop, fds[i], on_gone, loop), STATUS_OK);
        ck_assert_ptr_null(terminal.timer);
        terminal_fini(&terminal);
    }
    ck_assert(terminal_is_gone(ends[0]));
    close(ends[0]);
    close(file);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_terminal_that_goes_is_noticed_whenever_it_goes);
    tcase_add_test(tests, what_is_no_terminal_is_not_looked_at);
}
