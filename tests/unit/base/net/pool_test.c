/* base/net/pool: jobs run in order on other threads, come back on the loop's, and are bounded in number. */
#include "base/net/pool.h"

#include "base/net/loop.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <pthread.h>

const char *const suite_name = "base_pool";
const double suite_timeout_s = 60;

#define N 4

struct task {
    struct pool_job job; /* first: done() casts back */
    unsigned number;
    enum status status;
    unsigned n_done;
};

static struct loop *loop;
static struct pool *pool;
static struct task tasks[5 * N];
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_back, n_ran, order[16]; /* n_ran: of one thread */
static bool has_begun;
static bool opens_at_join;                           /* the gate, which the test has shut */
static unsigned n_created, n_joined, no_thread_from; /* the last: 0: never */

static void run(struct pool_job *job) {
    __atomic_store_n(&has_begun, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    order[n_ran++ % 16] = ((struct task *)job)->number;
}

static void done(struct pool_job *job, enum status status) {
    struct task *task = (struct task *)job;
    task->status = status;
    task->n_done++;
    n_back++;
}

static void set_up(void) {
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    ck_assert_int_eq(pool_new(loop, 1, N, &pool), STATUS_OK);
    n_back = n_ran = 0;
    has_begun = opens_at_join = false;
    n_created = n_joined = no_thread_from = 0;
    for (unsigned i = 0; i < sizeof tasks / sizeof *tasks; i++)
        tasks[i] = (struct task){.job = {.run = run, .done = done}, .number = i};
}

static void tear_down(void) {
    pool_free(pool);
    loop_free(loop);
}

static void wait_for(unsigned n) {
    while (n_back < n)
        loop_turn(loop, true);
}

/* The gate is shut, and the thread stands before it with the first task. */
static void hold_first(void) {
    pthread_mutex_lock(&gate);
    ck_assert_int_eq(pool_submit(pool, &tasks[0].job), STATUS_OK);
    while (!__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE))
        sched_yield();
}

START_TEST(jobs_run_in_the_order_in_which_they_came) {
    hold_first();
    for (unsigned i = 1; i < N; i++)
        ck_assert_int_eq(pool_submit(pool, &tasks[i].job), STATUS_OK);
    pthread_mutex_unlock(&gate);
    wait_for(N);
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(order[i], i);
}
END_TEST

START_TEST(the_bound_counts_those_that_wait_or_run) {
    hold_first();
    for (unsigned i = 1; i < N; i++)
        ck_assert_int_eq(pool_submit(pool, &tasks[i].job), STATUS_OK);
    ck_assert_int_eq(pool_submit(pool, &tasks[N].job), STATUS_BUSY);
    pthread_mutex_unlock(&gate);
    wait_for(N);
    ck_assert_uint_eq(tasks[N].n_done, 0);
}
END_TEST

START_TEST(a_job_that_came_back_has_left_its_place) {
    for (unsigned i = 0; i < 5 * N; i++) {
        ck_assert_int_eq(pool_submit(pool, &tasks[i].job), STATUS_OK);
        wait_for(i + 1);
        ck_assert_int_eq(tasks[i].status, STATUS_OK);
    }
}
END_TEST

START_TEST(a_job_may_be_submitted_again) {
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(pool_submit(pool, &tasks[0].job), STATUS_OK);
        wait_for(i);
        ck_assert_uint_eq(tasks[0].n_done, i);
    }
}
END_TEST

int __real_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_join(pthread_t thread, void **value);

/* The pool waits for its thread, which was told to end: now its job may. */
int __wrap_pthread_join(pthread_t thread, void **value) {
    if (opens_at_join)
        pthread_mutex_unlock(&gate);
    opens_at_join = false;
    n_joined++;
    return __real_pthread_join(thread, value);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*entry)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*entry)(void *), void *user);

/* The system has no more threads, once a test says so. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*entry)(void *), void *user) {
    if (++n_created == no_thread_from)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, entry, user);
}

START_TEST(a_pool_that_cannot_have_all_its_threads_ends_those_it_has) {
    struct pool *other = NULL;
    no_thread_from = 3;
    ck_assert_int_eq(pool_new(loop, 3, N, &other), STATUS_NOMEM);
    ck_assert_ptr_null(other);
    ck_assert_uint_eq(n_created, 3);
    ck_assert_uint_eq(n_joined, 2);
}
END_TEST

/* What the thread did not begin is handed back with the pool's end. */
START_TEST(a_pool_that_ends_hands_back_what_it_did_not_run) {
    hold_first();
    opens_at_join = true;
    for (unsigned i = 1; i < N; i++)
        ck_assert_int_eq(pool_submit(pool, &tasks[i].job), STATUS_OK);
    pool_free(pool);
    pool = NULL;
    ck_assert_uint_eq(n_back, N);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_uint_eq(tasks[i].n_done, 1);
        ck_assert_int_eq(tasks[i].status, i == 0 ? STATUS_OK : STATUS_CLOSED);
    }
}
END_TEST

START_TEST(a_job_that_waits_may_be_taken_back) {
    hold_first();
    ck_assert_int_eq(pool_submit(pool, &tasks[1].job), STATUS_OK);
    ck_assert_int_eq(pool_submit(pool, &tasks[2].job), STATUS_OK);
    ck_assert(pool_take_back(pool, &tasks[1].job));
    ck_assert(!pool_take_back(pool, &tasks[1].job));
    ck_assert(!pool_take_back(pool, &tasks[0].job)); /* it runs */
    ck_assert_int_eq(pool_submit(pool, &tasks[3].job), STATUS_OK);
    ck_assert_int_eq(pool_submit(pool, &tasks[4].job), STATUS_OK); /* its place is free */
    ck_assert_int_eq(pool_submit(pool, &tasks[5].job), STATUS_BUSY);
    pthread_mutex_unlock(&gate);
    wait_for(4);
    ck_assert_uint_eq(tasks[1].n_done, 0);
    ck_assert_uint_eq(order[1], 2);
    ck_assert(!pool_take_back(pool, &tasks[2].job)); /* it has run */
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, jobs_run_in_the_order_in_which_they_came);
    tcase_add_test(tests, the_bound_counts_those_that_wait_or_run);
    tcase_add_test(tests, a_job_that_came_back_has_left_its_place);
    tcase_add_test(tests, a_job_may_be_submitted_again);
    tcase_add_test(tests, a_pool_that_ends_hands_back_what_it_did_not_run);
    tcase_add_test(tests, a_pool_that_cannot_have_all_its_threads_ends_those_it_has);
    tcase_add_test(tests, a_job_that_waits_may_be_taken_back);
}
