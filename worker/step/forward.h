/* worker/step/forward.h: a loaded model with everything its steps need, cut for one rank or for
 * several in lock step: rank 0 runs in the engine thread, the others in threads of this process
 * (worker/ranks/group.h) or in follower processes (worker/ranks/leader.h).
 *
 * Engine thread only. forward_open() takes all memory; forward_run() takes none. A group that loses
 * a rank cannot go on: the process then ends, with a line that says so. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/comm/comm.h"
#include "worker/family/family.h"
#include "worker/ranks/group.h"
#include "worker/ranks/leader.h"
#include "worker/ranks/rank.h"

#include <stddef.h>
#include <stdint.h>

struct batch;
struct model;

struct forward {
    struct rank rank; /* rank 0, whose results others work with */
    struct rank_threads others;
    struct leader leader;
    struct group_memory memory; /* of a group of several, as all below but kv_of_ranks */
    struct comm *comm;          /* owned: rank 0's end */
    struct event_count_patience patience;
    uint32_t n_ranks;
    enum sums
        sums; /* how they are taken: SUMS_AUTO is not at all. By the devices, none of them goes on without the others */
    struct transport_rank kv_of_ranks[COMM_RANKS_MAX]; /* (n_ranks) borrowed: all KV pools */
};

/* What forward_open() will take, without taking it. */
struct forward_bytes {
    size_t weights;            /* of the largest rank, as the next two */
    size_t scratch;            /* activations and logits of a step */
    size_t kv_per_token;       /* all layers */
    size_t kv_per_token_here;  /* all ranks of this process together */
    struct family_facts facts; /* of rank 0 */
};
NODISCARD enum status forward_measure(const struct rank_options *options,
                                      struct forward_bytes *bytes, struct error *error);

/* STATUS_UNSUPPORTED, STATUS_INVALID, STATUS_NOT_FOUND (no such backend), STATUS_NOMEM, with one
 * line each; STATUS_CLOSED: a stop or a follower's death while they were waited for. */
NODISCARD enum status forward_open(struct forward *forward, const struct rank_options *options,
                                   struct error *error);
void forward_close(struct forward *forward); /* fine on a zeroed one */

/* How ranks on devices add up, as --sums names it; "" where there are none. */
const char *forward_sums(const struct forward *forward);

/* "auto", "f16" or "f32": auto is f32 for checkpoints whose matrices are all f32, else f16. */
enum kv_format forward_kv_format(const struct model *model, const char *dtype);

/* Bytes of one layer of one KV block of the whole model, however it is cut: the form in which KV
 * goes from worker to worker. 64 bits, for it may be more than a chunk can hold. */
uint64_t forward_block_bytes(const struct family_facts *facts);

/* Called when these layers are in the KV pools of all ranks, in rising order; on a device also with
 * none (begin is end), while something is waited for. */
typedef void forward_layers(void *context, uint32_t layer_begin, uint32_t layer_end);

/* Runs the batch; logits or forced of its rows are then filled, for the kernels' sample() or, after
 * forward_end(), for their get(). layers_done may be NULL. */
void forward_run(struct forward *forward, const struct batch *batch, forward_layers *layers_done,
                 void *context);

/* Its two halves. forward_begin() computes the batch, or on a device begins to: forward_launches()
 * says so, and that it does not wait for other ranks. forward_follow() waits until its layers are
 * done. */
bool forward_launches(const struct forward *forward);
void forward_begin(struct forward *forward, const struct batch *batch, forward_layers *layers_done,
                   void *context);
void forward_follow(struct forward *forward, forward_layers *layers_done, void *context);

/* Where steps go ahead (the kernels' sample_begin()): instead of forward_follow(), waits until the
 * step's tokens are chosen, and tells of no layers. Answers whether it waited: then the caller sees
 * the step's end as it comes. */
bool forward_goes_ahead(const struct forward *forward);
bool forward_await_choice(struct forward *forward, forward_layers *layers_done, void *context);

/* The kernels' rehearse(), of all ranks: the next step, of as many sequences as this answers, is for its record alone. 0: there is
 * nothing to rehearse. */
uint32_t forward_rehearse(struct forward *forward, uint32_t n_seqs);

/* Ends the step that forward_run() began, when nothing more is computed with its results. A device
 * that failed ends the process, with a line that says so. */
void forward_end(const struct forward *forward);
