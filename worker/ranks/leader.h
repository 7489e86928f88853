/* worker/ranks/leader.h: the leading process's side of the processes that hold some of its ranks.
 *
 * It listens until followers have taken all ranks that it does not hold, hands each its share of
 * the terms, maps their KV pools once they are ready, and from then on a thread of its own watches
 * their sockets: when one closes, the group can do no further step, so the whole process ends at
 * once, with a line that names the ranks (EXIT_FAILURE; kernel and peers clean up as after any
 * death). Engine thread only, but for that thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/ranks/rank.h"
#include "worker/ranks/rank_wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct follower {
    int fd; /* owned */
    pid_t pid;
    uint32_t rank_begin;
    uint32_t n_ranks;
};

struct leader {
    struct follower followers[COMM_RANKS_MAX];
    uint32_t n_followers;
    struct {
        void *memory; /* owned mapping (n_bytes) */
        size_t n_bytes;
    } pools[COMM_RANKS_MAX]; /* by rank */
    int wake_fd;             /* owned while watching: ends the thread */
    bool watching;
    pthread_t watcher;
};

struct leader_options {
    const char *address;     /* where followers come to */
    struct rank_terms terms; /* rank_begin: the first that is not held here */
    const uint8_t *model_fp; /* borrowed (32) */
    const struct group_memory *memory;
};

/* Before leader_open(), once: how often this process was asked to end. Where a follower was asked,
 * too, and went first, the process then ends with 0 and not as one that lost a rank. */
void leader_heed_stops(const atomic_uint *n_stops);

/* Listens and waits until all ranks have somebody. STATUS_CLOSED: a signal came meanwhile, or a
 * follower left; statuses of rank_wire.h. The caller calls leader_close() in every case. */
NODISCARD enum status leader_gather(struct leader *leader, const struct leader_options *options,
                                    struct error *error);

/* Waits until they have loaded, maps their KV pools into kv (by rank) and starts to watch them.
 * `numerics` is rank 0's: theirs have to be equal. A follower's own error is passed on with its
 * status; STATUS_CLOSED: one died. */
NODISCARD enum status leader_ready(struct leader *leader, const char *numerics,
                                   struct transport_rank kv[COMM_RANKS_MAX], struct error *error);

void leader_close(struct leader *leader); /* says goodbye; fine on a zeroed one */
