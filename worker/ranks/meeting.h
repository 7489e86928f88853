/* worker/ranks/meeting.h: how the devices of a group's ranks come to add up by themselves: where they read each other's memory, or
 * where NCCL brings each the others' numbers. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "worker/comm/comm.h"
#include "worker/ranks/rank.h"

#include <stdint.h>

struct meeting {
    const struct kernels *kernels;           /* of all ranks; on devices */
    struct kernels_ctx *all[COMM_RANKS_MAX]; /* (n_ranks) borrowed; none of them computes */
    uint32_t n_ranks;
    enum sums sums; /* asked for: not SUMS_HOST */
};

/* Lets them meet in the way that was asked for; by auto in the first way that there is. STATUS_OK: they have met, *how is that
 * way, and `why` says what kept them from a faster one ("" nothing). Else none of them has met anybody, and `why` says why. */
NODISCARD enum status meeting_hold(const struct meeting *meeting, enum sums *how,
                                   struct error *why);
