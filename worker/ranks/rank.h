/* worker/ranks/rank.h: one rank of a tensor-parallel group with everything its steps need: its
 * share of the weights, its KV pool, activations. A model that is not cut is one rank.
 *
 * One thread per rank opens it and runs its steps; rank_open() takes all memory, rank_run()
 * none. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/family/family.h"
#include "worker/ranks/weights.h"
#include "worker/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;
struct kernels_batch;
struct model;

/* How sums over the ranks are taken: as it goes fastest; by devices that read each other's memory; by devices to which NCCL brings
 * the others' numbers; by the host. */
enum sums { SUMS_AUTO, SUMS_DEVICE, SUMS_NCCL, SUMS_HOST };

/* How a model is opened: one of its ranks here, all of them by worker/step/forward.h. */
struct rank_options {
    const struct model *model; /* borrowed while it is opened */
    const char *backend;       /* label of a row of kernels_table */
    const char *isa;           /* NULL: best */
    uint32_t device;           /* ordinal of rank 0's, if there are any; rank r's is r more */
    bool no_graphs;            /* see struct kernels_options */
    uint32_t n_threads;        /* 0: one per core; of forward.h: shared by the ranks here */
    uint32_t n_ranks;          /* tensor-parallel size, at least 1; of forward.h: 0 is 1 */
    uint32_t max_tokens;       /* of a step */
    uint32_t max_seqs;         /* of a step */
    uint32_t context_max;      /* 0: the model's */
    uint32_t n_blocks;         /* KV blocks */
    enum kv_format kv_format;
    uint32_t step_us;
    enum sums sums; /* of forward.h */
    /* one rank's own */
    uint32_t rank;
    bool kv_shared;    /* the KV pool is a memfd, for another process to map */
    struct comm *comm; /* borrowed; NULL for a group of one */
    /* forward.h's own */
    uint32_t n_here;         /* ranks that this process holds, from 0 on; 0: all */
    const char *rank_listen; /* where processes with the others come to, when n_here < n_ranks */
};

struct rank {
    const struct kernels *kernels; /* NULL when the family needs none */
    struct kernels_ctx *ctx;       /* owned */
    struct family_model *model;    /* owned */
    struct comm *staged;           /* owned: before options.comm, on a device; else NULL */
    struct weights weights;
    struct family_kv kv;
    size_t kv_bytes;
    int kv_fd;     /* owned: the memfd behind kv when kv_shared; else -1 */
    void *scratch; /* owned (scratch_bytes) */
    size_t scratch_bytes;
    float *logits; /* owned (max_seqs, n_vocab) on rank 0; NULL elsewhere, and when the family names
                      its tokens itself */
    size_t logits_bytes;
    uint32_t *forced; /* owned (max_seqs) or NULL */
    uint32_t max_tokens;
    uint32_t max_seqs;
    uint32_t n_ranks; /* of its group */
};

/* Where a rank's KV lies, memory of its kernels. */
struct transport_rank rank_kv_of(const struct rank *rank);

/* What rank_open() will take, without taking it. */
struct rank_bytes {
    size_t weights;
    size_t scratch;            /* activations and logits of a step */
    size_t kv_per_token;       /* all layers */
    struct family_facts facts; /* of the rank */
};
NODISCARD enum status rank_measure(const struct rank_options *options, struct rank_bytes *bytes,
                                   struct error *error);

/* STATUS_UNSUPPORTED, STATUS_INVALID, STATUS_NOT_FOUND (no such backend), STATUS_NOMEM, with one
 * line each. */
NODISCARD enum status rank_open(struct rank *rank, const struct rank_options *options,
                                struct error *error);
void rank_close(struct rank *rank); /* fine on a zeroed one */

/* Runs this rank's part of a step; rank_end() ends it, after what else works with its results. On
 * rank 0 logits or forced of the rows are filled once its operations are done. layers_done may be
 * NULL. It is called when the layers are in the pool; where operations only begin here
 * (rank_marks()), it is not called, and each layer gets a mark: its number + 1. */
void rank_run(struct rank *rank, const struct kernels_batch *batch, const uint32_t *rows,
              uint32_t n_rows,
              void (*layers_done)(void *context, uint32_t layer_begin, uint32_t layer_end),
              void *context);

/* Waits for all operations of the step, and of one that is ahead. */
void rank_end(const struct rank *rank);

/* Anything but STATUS_OK is a device that failed: that ends the process, with a line, for it holds
 * nothing that routers cannot replay elsewhere. rank_end() does so. */
void rank_check(const struct rank *rank, enum status status);

/* Whether a rank's operations still run when rank_run() returns, so that its layers are marked. */
bool rank_marks(const struct rank *rank);

/* What decides the bits of the results: kernels, family, and the sums of a group of several. Two equal texts, equal numbers. */
void rank_numerics(const struct rank *rank, char *text, size_t size);
