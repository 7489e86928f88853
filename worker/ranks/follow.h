/* worker/ranks/follow.h: a process that holds ranks of another worker: `tandem-worker --follow
 * ADDRESS`.
 *
 * It joins the leader, opens its ranks in threads and then only waits for the end: an orderly one
 * (the leader says so, or a stop is requested) is status 0; when the leader's socket closes without
 * a word the process ends at once with a line, even while a rank waits in a collective. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct follow_options {
    const char *address; /* where the leader listens */
    const char *model;   /* path, or "hash"; the leader's too */
    bool dummy;          /* made weights */
    uint32_t n_ranks;    /* to hold; 0: all that are left */
    uint32_t n_threads;  /* shared by them; 0: one per core the process may use */
};

/* The whole life; answers the process's exit code. `stop` and wake_fd as in worker_run(). */
int follow_run(const struct follow_options *options, const atomic_uint *stop, int wake_fd);
