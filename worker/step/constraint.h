/* worker/step/constraint.h: what each sequence with a grammar may choose next.
 *
 * For each slot a state in its grammar is brought up to the output's ids whenever a token is about to be
 * chosen, so that it is right after a replay, a preemption or a hand-over, for each of n choices, and
 * after ids were taken back. Engine thread only; grammars are made in a thread beside it (grammars.h). Masks
 * are made on this one, and kept for all sequences: what is not known yet allocates. */
#pragma once

#include "base/span.h"
#include "base/status.h"
#include "kernels/sampling.h"
#include "proto/message.h"
#include "worker/step/grammars.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct sequence_view;
struct tokenizer;

struct constraint_options {
    uint32_t max_rows; /* of a step */
    uint32_t max_slots;
    uint32_t n_vocab;
    uint32_t n_ends;             /* the model's own end tokens */
    const uint32_t *ends;        /* borrowed for good */
    struct tokenizer *tokenizer; /* owned from here on */
};

/* A sequence's place in its grammar. */
struct constrained {
    uint64_t serial;             /* of the sequence; 0: none */
    struct grammar_state *state; /* owned; NULL: it is being made */
    uint32_t n_followed;         /* output tokens it has followed */
    uint64_t n_steps;            /* of work that its next mask may take: each token adds some */
    bool is_lost;                /* they are no text of the grammar, or are beyond its bounds */
};

struct constraint_figures {
    uint64_t n_masks; /* given to rows */
    uint64_t masks_ns;
};

struct constraint {
    struct constraint_options options;
    struct grammars grammars;
    struct constrained *slots; /* owned (max_slots) */
    uint32_t n_open;           /* of them with a serial */
    uint64_t swept_ns;
    uint32_t n_words;
    uint32_t *bits;    /* owned (max_rows, n_words) */
    uint32_t *scratch; /* owned (n_words) */
    struct constraint_figures figures;
};

/* STATUS_NOMEM, STATUS_IO. The tokenizer is the constraint's even then. */
NODISCARD enum status constraint_init(struct constraint *constraint,
                                      const struct constraint_options *options);
void constraint_fini(struct constraint *constraint); /* fine on a zeroed one */

/* The sequence `serial` in the slot has come with a grammar: as the engine's sink is asked (`constrain`
 * of worker/core/engine.h). */
NODISCARD enum status constraint_open(struct constraint *constraint, uint32_t slot, uint64_t serial,
                                      const struct submit *submit);

/* Tells the engine what has been made ready, and lets go of what sequences have left behind. Called
 * every turn; an fd that is readable when there is something to tell, -1 where there is none. */
void constraint_look(struct constraint *constraint, struct engine *engine, uint64_t now_ns);
int constraint_fd(const struct constraint *constraint);

/* The mask of a row whose sequence in `slot` has a grammar, into params->allowed_bits: valid until the
 * row's next one. params are filled but for it. It decides about ends, too: the model's may come where
 * the text is whole, unless that is to go on (view->ban_ends, ignore_eos) and can; stop ids where the text
 * is whole or has them itself, but not with view->ban_ends. A row that nothing may follow, or whose ids
 * its grammar does not know, has a mask of nothing. */
void constraint_mask(struct constraint *constraint, uint32_t row, uint32_t slot,
                     const struct sequence_view *view, struct sample_params *params);
