/* model/text/grammar/engine/frames.h: the stacks of a pushdown automaton, with shared tails.
 *
 * A stack is the number of its top frame; 0 is the empty one. Equal stacks have equal numbers, and a
 * frame never changes. Frames that no state has any more are found by marking (frames_sweep) when
 * the pool is nearly full. Used under the grammar's lock. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum frame_kind {
    FRAME_BACK,   /* goes on in the set `value` */
    FRAME_REGION, /* ends the region `value` */
    FRAME_REPEAT, /* of the rule `value`: min to max more texts of its inner rule, this one included */
    FRAME_COUNT, /* of the rule `value`: min to max more characters */
};

struct frame {
    uint32_t parent;
    uint32_t value;
    uint32_t min;    /* still to come */
    uint32_t max;    /* PROGRAM_NO_BOUND: none */
    uint32_t region; /* innermost region of the stack, or PROGRAM_NONE */
    uint8_t kind;
    bool is_used;
    bool is_marked;
    uint64_t hash[2]; /* of content: with counts as far as a token can tell (clip) */
};

struct frames {
    struct frame *at; /* owned (n) */
    uint32_t *slots;  /* owned (n_slots): by content */
    uint32_t *free;   /* owned (n_free of n_max): numbers below n that are free */
    uint32_t n;
    uint32_t size;
    uint32_t n_max;
    uint32_t n_free;
    uint32_t n_slots;
    uint32_t n_kept; /* by the last sweep */
    uint32_t clip;   /* no token has as many bytes */
};

NODISCARD enum status frames_init(struct frames *frames, uint32_t n_max, uint32_t clip);
void frames_fini(struct frames *frames);

/* The stack of this frame (parent, value, kind, min, max) upon its parent. `salt`: what `value`
 * stands for, by content. STATUS_LIMIT when the pool is full, STATUS_NOMEM. */
NODISCARD enum status frames_push(struct frames *frames, struct frame frame, const uint64_t salt[2],
                                  uint32_t *stack);

/* Whether a sweep is due: three quarters are used, a sixteenth of them since the last one, so that sweeps
 * that find little stay few. */
static inline bool frames_nearly_full(const struct frames *frames) {
    uint32_t n_used = frames->n - frames->n_free;
    return (uint64_t)n_used * 4 > (uint64_t)frames->n_max * 3 &&
           n_used - frames->n_kept > frames->n_max / 16;
}

/* Marks a stack and everything below it; then frames_sweep() drops what was not marked. */
void frames_mark(struct frames *frames, uint32_t stack);
void frames_sweep(struct frames *frames);
