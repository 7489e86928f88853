#include "base/net/loop.h"
#include "base/net/pool.h"
#include "tests/support/suite.h"

#include <pthread.h>

const char *const suite_name = "base_threads";
const double suite_timeout_s = 120;

struct square {
    struct pool_job job; /* first: done() casts back */
    uint64_t in, out;
    pthread_t ran_on;
    pthread_t done_on;
    enum status status;
    unsigned n_done;
};

static unsigned n_back;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void run_square(struct pool_job *job) {
    struct square *square = (struct square *)job;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    square->out = square->in * square->in;
    square->ran_on = pthread_self();
}

static void square_done(struct pool_job *job, enum status status) {
    struct square *square = (struct square *)job;
    square->status = status;
    square->done_on = pthread_self();
    square->n_done++;
    n_back++;
}

START_TEST(jobs_run_elsewhere_and_come_back_here) {
    enum { N = 500 };
    static struct square squares[N];
    struct loop *loop;
    struct pool *pool;
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    ck_assert_int_eq(pool_new(loop, 3, N, &pool), STATUS_OK);
    n_back = 0;
    for (unsigned i = 0; i < N; i++) {
        squares[i] = (struct square){.job = {.run = run_square, .done = square_done}, .in = i};
        ck_assert_int_eq(pool_submit(pool, &squares[i].job), STATUS_OK);
    }
    while (n_back < N)
        loop_turn(loop, true);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_uint_eq(squares[i].out, (uint64_t)i * i);
        ck_assert_uint_eq(squares[i].n_done, 1);
        ck_assert(!pthread_equal(squares[i].ran_on, pthread_self()));
        ck_assert(pthread_equal(squares[i].done_on, pthread_self()));
    }
    pool_free(pool);
    loop_free(loop);
}
END_TEST

START_TEST(full_queue_is_busy_and_freeing_hands_every_job_back) {
    enum { N = 8 };
    static struct square squares[N + 1];
    struct loop *loop;
    struct pool *pool;
    ck_assert_int_eq(loop_new(&loop), STATUS_OK);
    ck_assert_int_eq(pool_new(loop, 1, N, &pool), STATUS_OK);
    n_back = 0;
    pthread_mutex_lock(&gate);
    for (unsigned i = 0; i <= N; i++)
        squares[i] = (struct square){.job = {.run = run_square, .done = square_done}, .in = i};
    for (unsigned i = 0; i < N; i++)
        ck_assert_int_eq(pool_submit(pool, &squares[i].job), STATUS_OK);
    ck_assert_int_eq(pool_submit(pool, &squares[N].job), STATUS_BUSY);
    pthread_mutex_unlock(&gate);
    pool_free(pool); /* at some point between the first job and the last */
    ck_assert_uint_eq(n_back, N);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_uint_eq(squares[i].n_done, 1);
        if (squares[i].status == STATUS_OK)
            ck_assert_uint_eq(squares[i].out, (uint64_t)i * i);
        else
            ck_assert_int_eq(squares[i].status, STATUS_CLOSED);
    }
    ck_assert_uint_eq(squares[N].n_done, 0);
    loop_free(loop);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_test(tests, jobs_run_elsewhere_and_come_back_here);
    tcase_add_test(tests, full_queue_is_busy_and_freeing_hands_every_job_back);
}
