/* kernels/cuda/nccl.h: a group of devices whose bytes NCCL moves. NCCL adds nothing up: its sums have no order that is the same at
 * every size, so it brings the ranks' numbers together and kernels of ours add them (cuda/ranks.c).
 *
 * The library is loaded when the first group is asked for: by the name that the kind of device has for it, or by the path that
 * TANDEM_NCCL says. A build whose compiler had no nccl.h has these functions too, and they answer STATUS_UNSUPPORTED.
 *
 * A group is one rank's end. One thread at a time opens it, calls what moves bytes and closes it, and has made the device its own
 * (use()). What moves bytes goes into the stream, or into the graph that the stream records, and all ranks put the same there in
 * the same order. A thread of the group's watches the others: what NCCL finds wrong, or a wait for the device that takes longer than
 * wait_ms while the group is at work, ends the group; then nothing in the stream waits for the other ranks any more, and
 * nccl_failure() says why. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

struct device;
struct device_kind;
struct device_stream;
struct nccl_group;

/* What the ranks of a new group call it by. STATUS_UNSUPPORTED with the reason: there is no such library for devices of this
 * kind, it is older than NCCL_LEAST (nccl_version.h), or it cannot. STATUS_CLOSED: it did not come to an end within wait_ms.
 * STATUS_NOMEM. */
NODISCARD enum status nccl_group_id(const struct device_kind *kind, uint32_t wait_ms,
                                    struct kernels_group_id *id, struct error *error);

/* Begins to open a rank's end and does not wait for the others. The same statuses; STATUS_NOMEM. */
NODISCARD enum status nccl_open(const struct device_kind *kind, const struct kernels_group_id *id,
                                uint32_t rank, uint32_t n_ranks, uint32_t wait_ms,
                                struct nccl_group **group, struct error *error);
/* Waits until all ranks have opened theirs. STATUS_UNSUPPORTED with what NCCL says; STATUS_CLOSED: some did not come within
 * wait_ms of this call. After a failure the group can only be closed. */
NODISCARD enum status nccl_ready(struct nccl_group *group, struct error *error);
/* NULL is fine. The streams are done, and no graph has the group's operations any more. */
void nccl_close(struct nccl_group *group);

/* NULL, or why the group is at an end, for as long as it is open. Any thread. */
const char *nccl_failure(struct nccl_group *group);
/* The same after a look at what NCCL has found by now. */
const char *nccl_failure_now(struct nccl_group *group);

/* A wait for the device, by any thread: the caller's, and the group's between these two. */
struct nccl_wait {
    uint64_t since; /* ns */
    struct nccl_wait *next;
};
void nccl_wait_begins(struct nccl_group *group, struct nccl_wait *wait);
void nccl_wait_ends(struct nccl_group *group, struct nccl_wait *wait);

/* to (n_ranks, n) becomes what all have at `from` (n). */
void nccl_all_gather(struct nccl_group *group, struct device_stream *stream, float *to,
                     const float *from, size_t n);

/* Numbers of a vector that is cut into slices, one for each rank: as many numbers each, but for the last one, which may have fewer,
 * and has some. */
struct nccl_slices {
    size_t n;     /* of the vector */
    size_t slice; /* of a rank's, at most */
};
static inline size_t nccl_slice_of(const struct nccl_slices *cut, uint32_t rank) {
    size_t rest = cut->n - rank * cut->slice;
    return rest < cut->slice ? rest : cut->slice;
}

/* Each rank gets its slice of all the others' vectors x (n): to (n_ranks, slice), where its own stays as it was. */
void nccl_exchange(struct nccl_group *group, struct device_stream *stream, float *to,
                   const float *x, const struct nccl_slices *cut);
/* x (n), of which each rank has its slice, becomes whole. */
void nccl_spread(struct nccl_group *group, struct device_stream *stream, float *x,
                 const struct nccl_slices *cut);
/* to (n_ranks, n), on rank 0, becomes what the ranks have at `from` (n), but for its own; the others' `to` is not looked at. */
void nccl_to_first(struct nccl_group *group, struct device_stream *stream, float *to,
                   const float *from, size_t n);
