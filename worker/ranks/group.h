/* worker/ranks/group.h: what the ranks of a tensor-parallel group share, and the threads of those
 * that this process holds.
 *
 * The group's memory is one memfd: the collectives' region and the step board. The leading process
 * makes it; followers map what they were handed (worker/ranks/leader.h, worker/ranks/follow.h).
 * Each rank but the engine thread's own has a thread, which opens the rank, runs its part of every
 * step, and closes it when the board is closed. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/comm/comm.h"
#include "worker/ranks/board.h"
#include "worker/ranks/rank.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group_memory {
    int fd;       /* owned */
    void *memory; /* owned mapping (n_bytes) */
    size_t n_bytes;
    struct board *board; /* in it */
    void *collectives;   /* in it (n_collectives) */
    size_t n_collectives;
};

struct group_sizes {
    struct board_sizes board;
    uint64_t n_floats; /* of a step's largest sum */
};

/* STATUS_LIMIT, STATUS_NOMEM, STATUS_IO. */
NODISCARD enum status group_memory_make(struct group_memory *group, const struct group_sizes *sizes,
                                        struct error *error);
/* `fd` is consumed. STATUS_INVALID: it is not memory of such a group. */
NODISCARD enum status group_memory_map(struct group_memory *group, int *fd,
                                       const struct group_sizes *sizes, struct error *error);
void group_memory_fini(struct group_memory *group); /* fine on a zeroed one */

/* One rank in a thread of its own. */
struct rank_thread {
    struct rank rank;
    struct rank_options options;
    struct comm *comm; /* owned */
    struct board *board;
    pthread_t thread;
    struct event_count opened; /* rises when the two below say how it went */
    enum status status;
    struct error error;
};

struct rank_threads {
    struct rank_thread *threads; /* owned (n) */
    uint32_t n;
    uint32_t n_started;
};

/* Starts threads for ranks [options->rank, options->rank + n), which open them all at once.
 * Everything in options but rank and comm holds for each. STATUS_NOMEM; the caller then calls
 * rank_threads_stop() as in every case. */
NODISCARD enum status rank_threads_start(struct rank_threads *threads,
                                         const struct rank_options *options, uint32_t n,
                                         const struct group_memory *group, struct error *error);

/* Waits until all are open. The error of the lowest that is not, naming it. */
NODISCARD enum status rank_threads_wait(struct rank_threads *threads, struct error *error);

/* Closes the board, waits for the threads and closes the ranks. Fine on zeroed threads. */
void rank_threads_stop(struct rank_threads *threads, const struct group_memory *group);

/* What each rank computes with when n_threads (0: the process's cores) serve n_here ranks of a
 * group of n_ranks on this host. At least 1. */
uint32_t group_threads_each(uint32_t n_threads, uint32_t n_here, uint32_t n_ranks);
