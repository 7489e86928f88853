#include "kernels/cpu/team.h"

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

struct member {
    struct team *team;
    uint32_t index;
    pthread_t thread;
};

struct team {
    /* The job: written by the caller between jobs. */
    team_function *function;
    void *arg;
    _Atomic uint32_t n_items;

    _Alignas(64) _Atomic uint64_t ticket; /* job number << 32 | next item */
    _Alignas(64) _Atomic uint32_t job;    /* its number again: what idle threads wait on */
    _Atomic uint32_t n_sleeping;          /* threads asleep on `job` */
    _Atomic bool stopping;
    _Alignas(64) _Atomic uint32_t n_left; /* items not finished: what the caller waits on */
    _Atomic bool caller_sleeps;

    uint32_t n_members;     /* fixed: threads beside the caller */
    struct member *members; /* owned (n_members) */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Spins while *word == value; false when that takes longer than TEAM_SPIN_NS. */
static bool spin_while(_Atomic uint32_t *word, uint32_t value) {
    uint64_t until = 0;
    for (uint32_t i = 0;; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return true;
        pause_briefly();
        if (i % 32 != 31)
            continue;
        uint64_t now = clock_now_ns();
        if (until == 0)
            until = now + TEAM_SPIN_NS;
        if (now >= until)
            return false;
    }
}

/* Does items of the current job until there are none; the last one done wakes the caller. */
static void work(struct team *team, uint32_t thread) {
    uint64_t ticket = atomic_load_explicit(&team->ticket, memory_order_acquire);
    for (;;) {
        uint32_t item = (uint32_t)ticket;
        if (item >= atomic_load_explicit(&team->n_items, memory_order_relaxed))
            return;
        if (!atomic_compare_exchange_weak_explicit(&team->ticket, &ticket, ticket + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        team->function(team->arg, item, thread);
        if (atomic_fetch_sub(&team->n_left, 1) == 1 && atomic_load(&team->caller_sleeps))
            futex_wake(&team->n_left, 1);
        ticket = atomic_load_explicit(&team->ticket, memory_order_acquire);
    }
}

static void *member_main(void *arg) {
    struct member *member = arg;
    struct team *team = member->team;
    numbers_enter();
    uint32_t seen = 0;
    while (!atomic_load(&team->stopping)) {
        work(team, member->index);
        if (!spin_while(&team->job, seen)) {
            atomic_fetch_add(&team->n_sleeping, 1);
            while (atomic_load(&team->job) == seen)
                futex_wait(&team->job, seen);
            atomic_fetch_sub(&team->n_sleeping, 1);
        }
        seen = atomic_load(&team->job);
    }
    return NULL;
}

/* Publishes the next job number; sleeping threads wake up. */
static void publish(struct team *team, uint32_t n_wanted) {
    atomic_fetch_add(&team->job, 1);
    uint32_t n_sleeping = atomic_load(&team->n_sleeping);
    if (n_sleeping > 0)
        futex_wake(&team->job, n_wanted < INT_MAX ? (int)n_wanted : INT_MAX);
}

static enum status start(struct team *team, uint32_t n_members, struct error *error) {
    sigset_t saved;
    signals_leave(&saved);
    int failed = 0;
    for (uint32_t i = 0; i < n_members && failed == 0; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){.team = team, .index = i + 1};
        failed = pthread_create(&member->thread, NULL, member_main, member);
        if (failed == 0) {
            team->n_members++;
            pthread_setname_np(member->thread, "kernels");
        }
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    if (failed)
        return error_set(error, STATUS_IO, "cannot start thread %u of %u: %s", team->n_members + 1,
                         n_members, strerror(failed));
    return STATUS_OK;
}

enum status team_new(uint32_t n_threads, struct team **team, struct error *error) {
    ASSERT(n_threads >= 1);
    struct team *made = aligned_alloc(64, sizeof *made);
    if (!made)
        return error_set(error, STATUS_NOMEM, "no memory for threads");
    memset(made, 0, sizeof *made);
    made->members = calloc(n_threads, sizeof *made->members);
    enum status status =
        made->members ? start(made, n_threads - 1, error)
                      : error_set(error, STATUS_NOMEM, "no memory for %u threads", n_threads);
    if (status != STATUS_OK) {
        team_free(made);
        return status;
    }
    *team = made;
    return STATUS_OK;
}

void team_free(struct team *team) {
    if (!team)
        return;
    atomic_store(&team->stopping, true);
    publish(team, UINT32_MAX);
    for (uint32_t i = 0; i < team->n_members; i++)
        pthread_join(team->members[i].thread, NULL);
    free(team->members);
    free(team);
}

void team_run(struct team *team, uint32_t n_items, team_function *function, void *arg) {
    if (n_items <= 1 || team->n_members == 0) {
        for (uint32_t i = 0; i < n_items; i++)
            function(arg, i, 0);
        return;
    }
    uint64_t job = (atomic_load(&team->ticket) >> 32) + 1;
    /* No item of the job before is open, so nobody reads these now. */
    team->function = function;
    team->arg = arg;
    atomic_store(&team->n_left, n_items);
    atomic_store_explicit(&team->n_items, 0, memory_order_relaxed);
    atomic_store_explicit(&team->ticket, job << 32, memory_order_release);
    atomic_store_explicit(&team->n_items, n_items, memory_order_release);
    publish(team, n_items - 1);
    work(team, 0);
    for (uint32_t left; (left = atomic_load(&team->n_left)) != 0;) {
        if (spin_while(&team->n_left, left))
            continue;
        atomic_store(&team->caller_sleeps, true);
        if (atomic_load(&team->n_left) == left)
            futex_wait(&team->n_left, left);
        atomic_store(&team->caller_sleeps, false);
    }
}
