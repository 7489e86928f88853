/* kernels/cpu/thread_pool.h: a few threads that share the items of one job after another.
 *
 * thread_pool_run() belongs to one thread, the caller, which works too. Items are claimed one by
 * one, so which thread does which is open; a job must not depend on it. A thread that does not get
 * a core in time claims nothing, and the others do not wait for it: with more threads than cores a
 * job is only as late as the items that were begun. A waiter spins for THREAD_POOL_SPIN_NS at most,
 * then sleeps on a futex.
 *
 * Locking: none. `ticket` holds the job's number and its next item; a claim is a compare-and-swap
 * on both, so a late thread can never take an item of another job. The job's fields are written
 * before the ticket is published and only read by threads that hold one of its items. */
#pragma once

#include "base/error.h"

#include <stdint.h>

#define THREAD_POOL_SPIN_NS 20000

struct thread_pool;

/* item: 0..n_items - 1. thread: 0..n_threads - 1, 0 is the caller: for scratch memory. */
typedef void thread_pool_function(void *arg, uint32_t item, uint32_t thread);

/* Starts n_threads - 1 threads (n_threads >= 1), named "kernels", all signals blocked, with
 * flush-to-zero set. STATUS_NOMEM; STATUS_IO when a thread cannot be started. */
NODISCARD enum status thread_pool_new(uint32_t n_threads, struct thread_pool **pool,
                                      struct error *error);
void thread_pool_free(struct thread_pool *pool);

/* Runs function(arg, i, thread) for every i below n_items (at most 2^31); returns when all are
 * done. */
void thread_pool_run(struct thread_pool *pool, uint32_t n_items, thread_pool_function *function,
                     void *arg);
