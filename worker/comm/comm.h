/* worker/comm/comm.h: the seam of collectives: what the ranks of a tensor-parallel group tell each
 * other inside a step.
 *
 * A comm is one rank's end of a group. All ranks call the same operations in the same order with
 * the same sizes; each blocks until it has what it needs. Sums are taken in the order of ranks, so
 * every rank has the same bits, and they depend on nothing but the group's size. One thread per
 * comm. A group that has lost a rank answers STATUS_CLOSED to everything, at once and for ever; one
 * whose ranks asked for different things answers STATUS_CORRUPT, after a line in the log.
 *
 * A kind is one `const struct comm_kind` in a file of its own and a row of comm_table. Conformance:
 * tests/conform/comm_test.c walks it. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMM_RANKS_MAX 16u

/* What the sums of a group do to bits, in the numerics of its ranks. Workers whose ranks kept denormals had no such text. */
#define COMM_NUMERICS "sums in order ftz"

struct comm;

struct comm_kind {
    const char *name;   /* "shm" */
    uint32_t ranks_max; /* of a group */

    /* Bytes of memory that the ranks of a group share, or 0. n_floats: what its operations are
     * mostly about; larger ones are moved in pieces. */
    size_t (*shared_bytes)(uint32_t n_ranks, size_t n_floats);

    /* Makes a group of that memory (zeroed, page aligned), once, before any rank opens. */
    void (*shared_init)(void *shared, uint32_t n_ranks, size_t n_floats);

    /* One rank's end; every rank is opened once. `shared` (n_bytes) is borrowed and may lie at
     * another address in each process. STATUS_NOMEM; STATUS_INVALID: no such group, or no such rank
     * in it. */
    NODISCARD enum status (*open)(void *shared, size_t n_bytes, uint32_t rank, struct comm **comm,
                                  struct error *error);
    void (*close)(struct comm *comm); /* never NULL */

    /* x (n, in memory of the host: a rank on a device copies it there first, ranks/staged.h) becomes
     * the sum of all ranks' x, by the rules of kernels/numbers.h: denormals are zero. */
    NODISCARD enum status (*all_reduce)(struct comm *comm, float *x, size_t n);

    /* Of a comm that `rounds`; else NULL is fine. What ranks add to x (n), which all have, crosses as bfloat16: struct kernels's
     * add_parts(). */
    NODISCARD enum status (*add_parts)(struct comm *comm, float *x, float *part, size_t n);

    /* Columns [column_begin, column_begin + n_columns) of out (n_rows, out_stride) on rank 0 become
     * this rank's part (n_rows, n_columns); out is NULL on the other ranks. Both lie in memory of the
     * host. */
    NODISCARD enum status (*gather)(struct comm *comm, float *out, size_t out_stride,
                                    const float *part, size_t n_rows, size_t column_begin,
                                    size_t n_columns);

    /* No rank leaves before all have come. */
    NODISCARD enum status (*barrier)(struct comm *comm);

    /* Ends the group: every rank's operation, now waiting or later, answers STATUS_CLOSED. Any
     * thread. */
    void (*abort)(struct comm *comm);

    /* STATUS_OK while the group works; else what its operations answer. Any thread. */
    NODISCARD enum status (*health)(const struct comm *comm);
};

/* The common head of a kind's own struct. */
struct comm {
    const struct comm_kind *kind;
    uint32_t rank;
    uint32_t n_ranks;
    bool rounds; /* what ranks add to the residual stream goes by add_parts(), not all_reduce() */
};

extern const struct comm_kind *const comm_table[]; /* NULL-terminated */

/* The kind for ranks that are all on one host. */
const struct comm_kind *comm_kind_of_host(void);

static inline void comm_close(struct comm *comm) {
    if (comm)
        comm->kind->close(comm);
}
