/* An event count: closed is closed, and who waits comes back for a turn and for nothing else. */
#include "worker/comm/event_count.h"

#include "tests/support/suite.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

const char *const suite_name = "worker event count";
const double suite_timeout_s = 60;

START_TEST(a_closed_count_stays_closed_when_it_is_raised) {
    struct event_count count = {0};
    struct event_count_patience patience = {0};
    event_count_advance(&count);
    ck_assert(event_count_wait(&count, 0, &patience));
    event_count_close(&count);
    event_count_advance(&count);
    event_count_advance(&count);
    ck_assert(event_count_closed(&count));
    ck_assert_uint_eq(event_count_turn(&count), 3);
    ck_assert(!event_count_wait(&count, 0, &patience));
    ck_assert(!event_count_wait(&count, 3, &patience)); /* does not sleep either */
}
END_TEST

START_TEST(turns_go_round_without_closing_the_gate) {
    struct event_count count = {.value = 0x7fffffffu};
    struct event_count_patience patience = {0};
    event_count_advance(&count);
    ck_assert(!event_count_closed(&count));
    ck_assert_uint_eq(event_count_turn(&count), 0);
    ck_assert(event_count_wait(&count, 0x7fffffffu, &patience));
}
END_TEST

static atomic_uint n_signals;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&n_signals, 1);
}

struct sleeper {
    struct event_count count;
    uint32_t turn; /* that it came back to */
    bool open;
};

static void *sleep_at(void *arg) {
    struct sleeper *sleeper = arg;
    struct event_count_patience patience = {0};
    sleeper->open = event_count_wait(&sleeper->count, 0, &patience);
    sleeper->turn = event_count_turn(&sleeper->count);
    return NULL;
}

START_TEST(who_is_woken_for_nothing_waits_on) {
    static struct sleeper sleeper; /* _i: closed in the end, instead of raised */
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: the futex comes back */
    pthread_t thread;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, sleep_at, &sleeper), 0);
    while (atomic_load(&sleeper.count.n_asleep) == 0)
        sched_yield();
    for (uint32_t n = 1; n <= 50; n++) {
        ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
        while (atomic_load(&n_signals) < n)
            sched_yield();
        ck_assert_uint_eq(atomic_load(&sleeper.count.n_asleep), 1);
    }
    if (_i == 0)
        event_count_advance(&sleeper.count);
    else
        event_count_close(&sleeper.count);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(sleeper.turn, _i == 0);
    ck_assert_int_eq(sleeper.open, _i == 0);
    ck_assert_uint_eq(atomic_load(&sleeper.count.n_asleep), 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_closed_count_stays_closed_when_it_is_raised);
    tcase_add_test(tests, turns_go_round_without_closing_the_gate);
    tcase_add_loop_test(tests, who_is_woken_for_nothing_waits_on, 0, 2);
}
