/* worker/comm/comm.h: the seam of collectives: what the ranks of a tensor-parallel group tell each
 * other inside a step.
 *
 * A comm is one rank's end of a group. All ranks call the same operations in the same order with
 * the same sizes; each blocks until it has what it needs. Sums are taken in the order of ranks, so
 * every rank has the same bits, and they depend on nothing but the group's size. One thread per
 * comm. A group that has lost a rank answers STATUS_CLOSED to everything, at once and for ever.
 *
 * A kind is one `const struct comm_kind` in a file of its own and a row of comm_table. Conformance:
 * tests/conform/comm_test.c walks it. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define COMM_RANKS_MAX 16u

struct comm;

struct comm_kind {
    const char *name; /* "self", "shm" */

    /* x (n) becomes the sum of all ranks' x. n at most what the group was made for. */
    NODISCARD enum status (*all_reduce)(struct comm *comm, float *x, size_t n);

    /* Columns [column_begin, column_begin + n_columns) of out (n_rows, out_stride) on rank 0 become
     * this rank's part (n_rows, n_columns); out is NULL on the other ranks. */
    NODISCARD enum status (*gather)(struct comm *comm, float *out, size_t out_stride,
                                    const float *part, size_t n_rows, size_t column_begin,
                                    size_t n_columns);

    /* Nobody leaves before all have come. */
    NODISCARD enum status (*barrier)(struct comm *comm);

    /* Ends the group: every rank's operation, now waiting or later, answers STATUS_CLOSED. Any
     * thread. */
    void (*abort)(struct comm *comm);
};

/* The common head of a kind's own struct. */
struct comm {
    const struct comm_kind *kind;
    uint32_t rank;
    uint32_t n_ranks;
};

extern const struct comm_kind *const comm_table[]; /* NULL-terminated */
