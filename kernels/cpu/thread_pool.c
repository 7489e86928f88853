#include "kernels/cpu/thread_pool.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/signals.h"
#include "kernels/numbers.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct thread_pool_member {
    struct thread_pool *pool;
    uint32_t index;
    pthread_t thread;
};

struct thread_pool {
    /* The job: written by the caller between jobs. */
    thread_pool_function *function;
    void *arg;
    _Atomic uint32_t n_items;

    _Alignas(64) _Atomic uint64_t ticket; /* job number << 32 | next item */
    _Alignas(64) _Atomic uint32_t job;    /* its number again: what idle threads wait on */
    _Atomic uint32_t n_sleeping;          /* threads asleep on `job` */
    _Atomic bool stopping;
    _Alignas(64) _Atomic uint32_t n_left; /* items not finished: what the caller waits on */
    _Atomic bool caller_sleeps;

    uint32_t n_members;                 /* fixed: threads beside the caller */
    struct thread_pool_member *members; /* owned (n_members) */
};

static void thread_pool_futex_wait(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void thread_pool_futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void thread_pool_pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Spins while *word == value; false when that takes longer than THREAD_POOL_SPIN_NS. */
static bool thread_pool_spin_while(_Atomic uint32_t *word, uint32_t value) {
    uint64_t until = 0;
    for (uint32_t i = 0;; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return true;
        thread_pool_pause_briefly();
        if (i % 32 != 31)
            continue;
        uint64_t now = clock_now_ns();
        if (until == 0)
            until = now + THREAD_POOL_SPIN_NS;
        if (now >= until)
            return false;
    }
}

/* Does items of the current job until there are none; the last one done wakes the caller. */
static void thread_pool_work(struct thread_pool *pool, uint32_t thread) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    for (;;) {
        uint32_t item = (uint32_t)ticket;
        if (item >= atomic_load_explicit(&pool->n_items, memory_order_relaxed))
            return;
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        pool->function(pool->arg, item, thread);
        if (atomic_fetch_sub(&pool->n_left, 1) == 1 && atomic_load(&pool->caller_sleeps))
            thread_pool_futex_wake(&pool->n_left, 1);
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
}

static void *thread_pool_member_main(void *arg) {
    struct thread_pool_member *member = arg;
    struct thread_pool *pool = member->pool;
    numbers_enter();
    uint32_t seen = 0;
    while (!atomic_load(&pool->stopping)) {
        thread_pool_work(pool, member->index);
        if (!thread_pool_spin_while(&pool->job, seen)) {
            atomic_fetch_add(&pool->n_sleeping, 1);
            while (atomic_load(&pool->job) == seen)
                thread_pool_futex_wait(&pool->job, seen);
            atomic_fetch_sub(&pool->n_sleeping, 1);
        }
        seen = atomic_load(&pool->job);
    }
    return NULL;
}

/* Publishes the next job number; sleeping threads wake up. */
static void thread_pool_publish(struct thread_pool *pool, uint32_t n_wanted) {
    atomic_fetch_add(&pool->job, 1);
    uint32_t n_sleeping = atomic_load(&pool->n_sleeping);
    if (n_sleeping > 0)
        thread_pool_futex_wake(&pool->job, n_wanted < INT_MAX ? (int)n_wanted : INT_MAX);
}

static enum status thread_pool_start(struct thread_pool *pool, uint32_t n_members,
                                     struct error *error) {
    sigset_t saved;
    signals_leave(&saved);
    int failed = 0;
    for (uint32_t i = 0; i < n_members && failed == 0; i++) {
        struct thread_pool_member *member = &pool->members[i];
        *member = (struct thread_pool_member){.pool = pool, .index = i + 1};
        failed = pthread_create(&member->thread, NULL, thread_pool_member_main, member);
        if (failed == 0) {
            pool->n_members++;
            pthread_setname_np(member->thread, "kernels");
        }
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (failed)
        return error_set(error, STATUS_IO, "cannot start thread %u of %u: %s", pool->n_members + 1,
                         n_members, strerror(failed));
    return STATUS_OK;
}

enum status thread_pool_new(uint32_t n_threads, struct thread_pool **pool, struct error *error) {
    ASSERT(n_threads >= 1);
    struct thread_pool *made = aligned_alloc(64, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for threads");
    memset(made, 0, sizeof *made);
    made->members = calloc(n_threads, sizeof *made->members);
    enum status status =
        made->members ? thread_pool_start(made, n_threads - 1, error)
                      : error_set(error, STATUS_NOMEM, "no memory for %u threads", n_threads);
    if (status != STATUS_OK) {
        thread_pool_free(made);
        return status;
    }
    *pool = made;
    return STATUS_OK;
}

void thread_pool_free(struct thread_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stopping, true);
    thread_pool_publish(pool, UINT32_MAX);
    for (uint32_t i = 0; i < pool->n_members; i++)
        pthread_join(pool->members[i].thread, NULL);
    free(pool->members);
    free(pool);
}

void thread_pool_run(struct thread_pool *pool, uint32_t n_items, thread_pool_function *function,
                     void *arg) {
    if (n_items <= 1 || pool->n_members == 0) {
        for (uint32_t i = 0; i < n_items; i++)
            function(arg, i, 0);
        return;
    }
    uint64_t job = (atomic_load(&pool->ticket) >> 32) + 1;
    /* No item of the job before is open, so no thread reads these now. */
    pool->function = function;
    pool->arg = arg;
    atomic_store(&pool->n_left, n_items);
    atomic_store_explicit(&pool->n_items, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, job << 32, memory_order_release);
    atomic_store_explicit(&pool->n_items, n_items, memory_order_release);
    thread_pool_publish(pool, n_items - 1);
    thread_pool_work(pool, 0);
    for (uint32_t left; (left = atomic_load(&pool->n_left)) != 0;) {
        if (thread_pool_spin_while(&pool->n_left, left))
            continue;
        atomic_store(&pool->caller_sleeps, true);
        if (atomic_load(&pool->n_left) == left)
            thread_pool_futex_wait(&pool->n_left, left);
        atomic_store(&pool->caller_sleeps, false);
    }
}
