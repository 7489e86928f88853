/* base/net/pool.h: a few threads for work that would hold up the event loop: tokenizing, templates.
 *
 * Locking: `queue`, `finished` and a job's `is_queued` are guarded by one mutex; a job belongs to the thread that runs
 * it between them. Jobs are submitted on the loop's thread, run on one of the pool's, and come
 * back on the loop's thread. Bounded: at most `n_queued_max` jobs wait or run. */
#pragma once

#include "base/list.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct pool;
struct pool_job;

struct pool_job {
    void (*run)(struct pool_job *job); /* on a thread of the pool; touches the job's own data */
    /* On the loop's thread, once for each submitted job: STATUS_OK after run(), STATUS_CLOSED when
     * the pool was freed before the job was run. The job may be freed here. */
    void (*done)(struct pool_job *job, enum status status);
    struct list link;
    bool is_queued; /* under the pool's lock: no thread has taken it */
};

NODISCARD enum status pool_new(struct loop *loop, unsigned n_threads, uint32_t n_queued_max,
                               struct pool **pool);

/* Waits for jobs that run, then hands all others back. On the loop's thread. NULL is fine. */
void pool_free(struct pool *pool);

/* STATUS_BUSY when the queue is full; the job is the caller's then. */
NODISCARD enum status pool_submit(struct pool *pool, struct pool_job *job);

/* Takes a submitted job back that no thread has begun: true, and done() is not called. False: it runs,
 * or has run, and done() comes. On the loop's thread. */
bool pool_take_back(struct pool *pool, struct pool_job *job);
