/* worker/step/sample.h: logits to tokens: what each sequence asked for becomes the kernels'
 * parameters.
 *
 * The number drawn for a token depends on (seed, choice, index in the whole answer) alone, so a
 * replayed stream draws the same. Engine thread only; only sample_init() allocates. */
#pragma once

#include "base/status.h"
#include "kernels/kernels.h"
#include "proto/message.h"

#include <stdbool.h>
#include <stdint.h>

struct batch;
struct constraint;
struct engine;
struct forward;
struct sampled;
struct sequence_view;

/* Which ids a sequence has seen, kept up as it grows. */
struct seen {
    uint64_t serial;    /* of the sequence in the slot, as struct sequence_view says */
    uint32_t n_counted; /* tokens of it that are in here */
    uint32_t n;         /* distinct ids */
    uint32_t *ids;      /* owned (max_seen) */
    uint32_t *counts;   /* owned (max_seen): occurrences in the output */
    uint32_t *index;    /* owned (index_size): 1 + place in ids, by hash; 0: empty */
};

struct sample_options {
    uint32_t max_seqs; /* of a step */
    uint32_t max_slots;
    uint32_t context;
    uint32_t n_vocab;              /* 0: the family names its tokens itself, nothing is sampled */
    uint32_t n_ends;               /* the model's own end tokens */
    const uint32_t *ends;          /* copied */
    uint32_t n_barred;             /* ids that are never drawn (model/text/textless.h) */
    const struct interval *barred; /* copied */
    struct constraint *constraint; /* borrowed; NULL: no sequence has a grammar */
};

struct sample {
    struct sample_options options;
    uint32_t ends[MESSAGE_STOP_IDS_MAX];
    struct interval *barred;       /* owned (options.n_barred) */
    uint32_t max_seen;             /* distinct ids of a sequence */
    uint32_t index_size;           /* power of two */
    struct sample_params *params;  /* owned (max_seqs) */
    struct sample_result *results; /* owned (max_seqs) */
    struct sampled *sampled;       /* owned (max_seqs): what engine_step_end() takes */
    struct seen *seen;             /* owned (max_slots) */
    uint32_t *seen_memory;         /* owned: all that `seen` points to */
    size_t seen_bytes;
    uint32_t *bias_ids; /* owned (max_seqs, SAMPLE_BIAS_MAX) */
    float *bias;        /* owned (max_seqs, SAMPLE_BIAS_MAX) */
};

/* A client's biases, the model's ends and the request's stop ids. */
#define SAMPLE_BIAS_MAX (MESSAGE_BIAS_MAX + 2 * MESSAGE_STOP_IDS_MAX)

NODISCARD enum status sample_init(struct sample *sample, const struct sample_options *options);
void sample_fini(struct sample *sample); /* fine on a zeroed one */

/* Fills params[row] by what the sequence in `slot` asks for. What it points to stays valid until
 * the row or the slot is prepared again, or the sequence changes. */
void sample_prepare(struct sample *sample, uint32_t row, uint32_t slot,
                    const struct sequence_view *view);

/* Chooses the next token of each row of the batch; sample->sampled is then filled. */
void sample_run(struct sample *sample, const struct engine *engine, struct forward *forward,
                const struct batch *batch);

/* The same in two halves, where steps go ahead: begun, right behind the step's operations, and taken,
 * of n_rows rows, which waits for what was begun first. False: it is too much for once, and nothing was
 * begun. */
NODISCARD bool sample_begin(struct sample *sample, const struct engine *engine,
                            struct forward *forward, const struct batch *batch);
void sample_take(struct sample *sample, struct forward *forward, uint32_t n_rows);
