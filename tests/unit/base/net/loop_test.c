#include "base/net/loop.h"

#include "base/clock.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

const char *const suite_name = "base_loop";
const double suite_timeout_s = 60;

static struct loop *loop;

static void setup(void) {
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
}

static void teardown(void) {
    loop_free(loop);
}

struct seen {
    unsigned n;
    unsigned events;
    uint64_t at_ns;
    struct loop_timer *timer;
    struct loop_kick kick;
    int fd;
};

static void note(void *user) {
    struct seen *seen = user;
    seen->n++;
    seen->at_ns = clock_now_ns();
    loop_stop(loop);
}

START_TEST(timer_never_fires_before_its_time) {
    struct seen seen = {0};
    ck_assert_int_eq(loop_timer_new(loop, note, &seen, &seen.timer), STATUS_OK);
    /* Set at many phases of the kernel's tick: the coarse clock that libevent reads lags behind by
     * up to one, and a timer that believed it would fire early. */
    for (unsigned i = 1; i <= 100; i++) {
        for (uint64_t until_ns = clock_now_ns() + i * 37 * NS_PER_US; clock_now_ns() < until_ns;)
            ;
        uint64_t at_ns = clock_now_ns() + (1 + i % 9) * NS_PER_MS;
        loop_timer_at(seen.timer, at_ns);
        loop_run(loop);
        ck_assert_uint_eq(seen.n, i);
        ck_assert_uint_ge(seen.at_ns, at_ns);
    }
    loop_timer_free(seen.timer);
}
END_TEST

START_TEST(timer_of_the_past_fires_in_the_next_turn) {
    struct seen seen = {0};
    ck_assert_int_eq(loop_timer_new(loop, note, &seen, &seen.timer), STATUS_OK);
    loop_timer_at(seen.timer, 1);
    loop_run(loop);
    ck_assert_uint_eq(seen.n, 1);
    loop_timer_free(seen.timer);
}
END_TEST

START_TEST(stopped_timer_stays_silent) {
    struct seen stopped = {0}, other = {0};
    ck_assert_int_eq(loop_timer_new(loop, note, &stopped, &stopped.timer), STATUS_OK);
    ck_assert_int_eq(loop_timer_new(loop, note, &other, &other.timer), STATUS_OK);
    loop_timer_after(stopped.timer, NS_PER_MS);
    loop_timer_stop(stopped.timer);
    loop_timer_after(other.timer, 20 * NS_PER_MS);
    loop_run(loop);
    ck_assert_uint_eq(stopped.n, 0);
    ck_assert_uint_eq(other.n, 1);
    loop_timer_free(stopped.timer);
    loop_timer_free(other.timer);
}
END_TEST

static void free_own_timer(void *user) {
    struct seen *seen = user;
    seen->n++;
    loop_timer_free(seen->timer);
    loop_stop(loop);
}

START_TEST(timer_may_free_itself_in_its_callback) {
    struct seen seen = {0};
    ck_assert_int_eq(loop_timer_new(loop, free_own_timer, &seen, &seen.timer), STATUS_OK);
    loop_timer_after(seen.timer, NS_PER_MS);
    loop_run(loop);
    ck_assert_uint_eq(seen.n, 1);
}
END_TEST

static void note_events(void *user, unsigned events) {
    struct seen *seen = user;
    seen->events |= events;
    char byte;
    if (events & LOOP_READ)
        seen->n += (unsigned)read(seen->fd, &byte, 1);
}

START_TEST(watch_reports_what_it_was_set_to_and_nothing_else) {
    int fds[2];
    struct loop_watch *watch;
    ck_assert_int_eq(pipe(fds), 0);
    struct seen seen = {.fd = fds[0]};
    ck_assert_int_eq(loop_watch_new(loop, fds[0], note_events, &seen, &watch), STATUS_OK);
    ck_assert_int_eq(write(fds[1], "ab", 2), 2);
    loop_turn(loop, false);
    ck_assert_uint_eq(seen.events, 0);
    ck_assert_int_eq(loop_watch_set(watch, LOOP_READ), STATUS_OK);
    loop_turn(loop, true);
    loop_turn(loop, true);
    ck_assert_uint_eq(seen.n, 2);
    ck_assert_uint_eq(seen.events, LOOP_READ);
    ck_assert_int_eq(loop_watch_set(watch, 0), STATUS_OK);
    ck_assert_int_eq(write(fds[1], "c", 1), 1);
    loop_turn(loop, false);
    ck_assert_uint_eq(seen.n, 2);
    loop_watch_free(watch);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

static void kick_again(void *user) {
    struct seen *seen = user;
    if (++seen->n < 3)
        loop_kick_add(loop, &seen->kick);
}

START_TEST(kick_that_adds_itself_runs_once_a_turn_without_sleep) {
    struct seen seen = {0};
    loop_kick_init(&seen.kick, kick_again, &seen);
    loop_kick_add(loop, &seen.kick);
    loop_kick_add(loop, &seen.kick);
    for (unsigned i = 1; i <= 3; i++) {
        loop_turn(loop, i < 3); /* would hang here if it slept */
        ck_assert_uint_eq(seen.n, i);
    }
    loop_turn(loop, false);
    ck_assert_uint_eq(seen.n, 3);
    loop_kick_add(loop, &seen.kick);
    loop_kick_remove(&seen.kick);
    loop_turn(loop, false);
    ck_assert_uint_eq(seen.n, 3);
}
END_TEST

struct turn_of_kick {
    struct loop_kick kick;
    unsigned number;
    unsigned *order, *n_run;
};

static void note_kick(void *user) {
    struct turn_of_kick *one = user;
    one->order[(*one->n_run)++] = one->number;
}

START_TEST(all_kicks_of_a_turn_run_in_it_in_their_order) {
    struct turn_of_kick kicks[3];
    unsigned order[3], n_run = 0;
    for (unsigned i = 0; i < 3; i++) {
        kicks[i] = (struct turn_of_kick){.number = i, .order = order, .n_run = &n_run};
        loop_kick_init(&kicks[i].kick, note_kick, &kicks[i]);
        loop_kick_add(loop, &kicks[i].kick);
    }
    loop_turn(loop, false);
    ck_assert_uint_eq(n_run, 3);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(order[i], i);
}
END_TEST

/* Leaves the process no descriptor but those that it has. */
START_TEST(a_wakeup_without_a_descriptor_is_refused) {
    struct rlimit limit, tight;
    struct loop_wakeup *wakeup = NULL;
    struct seen seen = {0};
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    tight = limit;
    int next = dup(STDERR_FILENO);
    tight.rlim_cur = (rlim_t)next;
    close(next);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    ck_assert_int_eq(loop_wakeup_new(loop, note, &seen, &wakeup), STATUS_IO);
    ck_assert_ptr_null(wakeup);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(loop_wakeup_new(loop, note, &seen, &wakeup), STATUS_OK);
    loop_wakeup_free(wakeup);
}
END_TEST

static void *signal_wakeup(void *user) {
    loop_wakeup_signal(user);
    return NULL;
}

START_TEST(wakeup_from_another_thread_ends_the_sleep) {
    struct loop_wakeup *wakeup;
    struct seen seen = {0};
    ck_assert_int_eq(loop_wakeup_new(loop, note, &seen, &wakeup), STATUS_OK);
    for (unsigned i = 1; i <= 20; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, signal_wakeup, wakeup), 0);
        loop_run(loop);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(seen.n, i);
    }
    loop_wakeup_signal(wakeup);
    loop_wakeup_signal(wakeup);
    loop_run(loop);
    loop_turn(loop, false);
    ck_assert_uint_eq(seen.n, 21);
    loop_wakeup_free(wakeup);
}
END_TEST

static void note_signal(void *user, unsigned signal) {
    struct seen *seen = user;
    seen->events = signal;
    loop_stop(loop);
}

START_TEST(signal_arrives_on_the_loop) {
    struct loop_watch *watch;
    struct seen seen = {0};
    ck_assert_int_eq(loop_signal_new(loop, SIGUSR1, note_signal, &seen, &watch), STATUS_OK);
    ck_assert_int_eq(raise(SIGUSR1), 0);
    loop_run(loop);
    ck_assert_uint_eq(seen.events, SIGUSR1);
    loop_watch_free(watch);
}
END_TEST

static uint64_t cpu_now_ns(void) {
    struct timespec ts;
    ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Uses so much of the processor, however long that takes. */
static void use_cpu(void *user) {
    uint64_t until_ns = cpu_now_ns() + *(uint64_t *)user;
    while (cpu_now_ns() < until_ns)
        ;
}

/* Holds the loop as a slow file would, without using the processor. */
static void be_held(void *user) {
    uint64_t until_ns = clock_now_ns() + *(uint64_t *)user;
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* The longest turn after one with this callback, of a timer that is due. */
static struct loop_turn_max turn_of(loop_fn *fn, uint64_t *ns) {
    struct loop_timer *timer;
    ck_assert_int_eq(loop_timer_new(loop, fn, ns, &timer), STATUS_OK);
    loop_turn(loop, false); /* from here on the thread's time is of a turn */
    loop_timer_at(timer, 0);
    loop_turn(loop, true);
    loop_turn(loop, false);
    loop_timer_free(timer);
    return loop_turn_max(loop, clock_now_ns());
}

START_TEST(longest_turn_shows_what_a_callback_took_and_used) {
    uint64_t held_ns = 50 * NS_PER_MS, used_ns = 60 * NS_PER_MS, began_ns = cpu_now_ns();
    struct loop_turn_max turn = turn_of(be_held, &held_ns);
    ck_assert_uint_ge(turn.wall_ns, held_ns);
    ck_assert_uint_le(turn.cpu_ns, cpu_now_ns() - began_ns); /* next to nothing */
    turn = turn_of(use_cpu, &used_ns);
    ck_assert_uint_ge(turn.cpu_ns, used_ns);
    ck_assert_uint_ge(turn.wall_ns, used_ns);
}
END_TEST

START_TEST(turns_are_not_added_up) {
    uint64_t used_ns = 5 * NS_PER_MS, before_ns = clock_now_ns();
    struct loop_turn_max turn = {0};
    for (unsigned i = 0; i < 4; i++)
        turn = turn_of(use_cpu, &used_ns);
    /* However long each took, the three others took their part of the time. */
    uint64_t all_ns = clock_now_ns() - before_ns;
    ck_assert_uint_le(turn.wall_ns, all_ns - 3 * used_ns);
    ck_assert_uint_le(turn.cpu_ns, all_ns - 3 * used_ns);
}
END_TEST

START_TEST(longest_turn_leaves_after_ten_seconds) {
    uint64_t used_ns = 20 * NS_PER_MS, small_ns = NS_PER_MS;
    uint64_t before_ns = clock_now_ns();
    ck_assert_uint_ge(turn_of(use_cpu, &used_ns).cpu_ns, used_ns);
    ck_assert_uint_ge(turn_of(use_cpu, &small_ns).cpu_ns, used_ns); /* not the last: the longest */
    struct loop_turn_max turn = loop_turn_max(loop, before_ns + 9 * NS_PER_S);
    ck_assert_uint_ge(turn.wall_ns, used_ns);
    ck_assert_uint_ge(turn.cpu_ns, used_ns);
    turn = loop_turn_max(loop, clock_now_ns() + 10 * NS_PER_S);
    ck_assert_uint_eq(turn.wall_ns, 0);
    ck_assert_uint_eq(turn.cpu_ns, 0);
}
END_TEST

static void use_cpu_in_kick(void *user) {
    uint64_t used_ns = 20 * NS_PER_MS;
    (void)user;
    use_cpu(&used_ns);
}

START_TEST(kicks_are_part_of_the_turn) {
    struct loop_kick kick;
    loop_turn(loop, false);
    loop_kick_init(&kick, use_cpu_in_kick, NULL);
    loop_kick_add(loop, &kick);
    loop_turn(loop, false);
    struct loop_turn_max turn = loop_turn_max(loop, clock_now_ns());
    ck_assert_uint_ge(turn.cpu_ns, 20 * NS_PER_MS);
    ck_assert_uint_ge(turn.wall_ns, 20 * NS_PER_MS);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, timer_never_fires_before_its_time);
    tcase_add_test(tests, timer_of_the_past_fires_in_the_next_turn);
    tcase_add_test(tests, stopped_timer_stays_silent);
    tcase_add_test(tests, timer_may_free_itself_in_its_callback);
    tcase_add_test(tests, watch_reports_what_it_was_set_to_and_nothing_else);
    tcase_add_test(tests, kick_that_adds_itself_runs_once_a_turn_without_sleep);
    tcase_add_test(tests, all_kicks_of_a_turn_run_in_it_in_their_order);
    tcase_add_test(tests, a_wakeup_without_a_descriptor_is_refused);
    tcase_add_test(tests, wakeup_from_another_thread_ends_the_sleep);
    tcase_add_test(tests, signal_arrives_on_the_loop);
    tcase_add_test(tests, longest_turn_shows_what_a_callback_took_and_used);
    tcase_add_test(tests, turns_are_not_added_up);
    tcase_add_test(tests, longest_turn_leaves_after_ten_seconds);
    tcase_add_test(tests, kicks_are_part_of_the_turn);
}
