/* worker/ranks/staged.h: a rank's end of a group whose numbers lie in memory of its device.
 *
 * It wraps another comm, which works on memory of the host. What is summed or gathered is taken
 * from the device, handed to that one, and put back. So sums have the bits that ranks on the host
 * make. Of a gather, rows are put back whole: what no rank has a column for means nothing
 * afterwards. */
#pragma once

#include "worker/comm/comm.h"

struct kernels;
struct kernels_ctx;

/* Where the devices reach each other they add up themselves (sum() and add_parts() of struct kernels), once comm_staged_meet() has
 * said so: nothing of it goes through the host any more. Operations then only begin, and answer STATUS_OK; a rank that is lost
 * is a failure of the others' devices. */

/* n_floats: the most of a sum, and of what is gathered on rank 0. All but `made` is borrowed until
 * comm_close() of it, which leaves `inner` open. The rank's own thread calls its operations.
 * STATUS_NOMEM. */
NODISCARD enum status comm_staged_open(struct comm *inner, const struct kernels *kernels,
                                       struct kernels_ctx *ctx, size_t n_floats, struct comm **made,
                                       struct error *error);

/* The contexts of all ranks have met (kernels->meet()). */
void comm_staged_meet(struct comm *comm);
