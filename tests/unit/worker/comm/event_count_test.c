/* A gate: closed is closed, and who waits comes back for a turn and for nothing else. */
#include "worker/comm/gate.h"

#include "tests/support/suite.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

const char *const suite_name = "worker gate";
const double suite_timeout_s = 60;

START_TEST(a_closed_gate_stays_closed_when_it_is_raised) {
    struct gate gate = {0};
    struct gate_patience patience = {0};
    gate_raise(&gate);
    ck_assert(gate_wait(&gate, 0, &patience));
    gate_close(&gate);
    gate_raise(&gate);
    gate_raise(&gate);
    ck_assert(gate_closed(&gate));
    ck_assert_uint_eq(gate_turn(&gate), 3);
    ck_assert(!gate_wait(&gate, 0, &patience));
    ck_assert(!gate_wait(&gate, 3, &patience)); /* does not sleep either */
}
END_TEST

START_TEST(turns_go_round_without_closing_the_gate) {
    struct gate gate = {.value = 0x7fffffffu};
    struct gate_patience patience = {0};
    gate_raise(&gate);
    ck_assert(!gate_closed(&gate));
    ck_assert_uint_eq(gate_turn(&gate), 0);
    ck_assert(gate_wait(&gate, 0x7fffffffu, &patience));
}
END_TEST

static atomic_uint n_signals;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&n_signals, 1);
}

struct sleeper {
    struct gate gate;
    uint32_t turn; /* that it came back to */
    bool open;
};

static void *sleep_at(void *arg) {
    struct sleeper *sleeper = arg;
    struct gate_patience patience = {0};
    sleeper->open = gate_wait(&sleeper->gate, 0, &patience);
    sleeper->turn = gate_turn(&sleeper->gate);
    return NULL;
}

START_TEST(who_is_woken_for_nothing_waits_on) {
    static struct sleeper sleeper; /* _i: closed in the end, instead of raised */
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: the futex comes back */
    pthread_t thread;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, sleep_at, &sleeper), 0);
    while (atomic_load(&sleeper.gate.n_asleep) == 0)
        sched_yield();
    for (uint32_t n = 1; n <= 50; n++) {
        ck_assert_int_eq(pthread_kill(thread, SIGUSR1), 0);
        while (atomic_load(&n_signals) < n)
            sched_yield();
        ck_assert_uint_eq(atomic_load(&sleeper.gate.n_asleep), 1);
    }
    if (_i == 0)
        gate_raise(&sleeper.gate);
    else
        gate_close(&sleeper.gate);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(sleeper.turn, _i == 0);
    ck_assert_int_eq(sleeper.open, _i == 0);
    ck_assert_uint_eq(atomic_load(&sleeper.gate.n_asleep), 0);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, a_closed_gate_stays_closed_when_it_is_raised);
    tcase_add_test(tests, turns_go_round_without_closing_the_gate);
    tcase_add_loop_test(tests, who_is_woken_for_nothing_waits_on, 0, 2);
}
