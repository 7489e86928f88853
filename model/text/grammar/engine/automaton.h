/* model/text/grammar/engine/automaton.h: a program's rules as deterministic automata, made only as
 * far as they are walked.
 *
 * A set is the nodes that one rule may be in (subset construction), with what it calls and which
 * special tokens it takes. A step over a byte is looked up in the set's row and worked out the first
 * time. Sets are never dropped; they and their rows have a bound. Under the grammar's lock
 * (engine.h) uses it. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/program/program.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SET_UNKNOWN 0u
#define SET_DEAD    1u
#define SET_FINAL   2u /* the whole grammar's end */
#define SET_END     3u /* of some rule, and nothing else */
#define SET_FIRST   4u

struct set_call {
    uint32_t rule;
    uint32_t set;   /* where it goes on behind the call; SET_UNKNOWN: not asked yet */
    uint32_t nodes; /* index into `members`: where that begins, not closed */
    uint32_t n_nodes;
};

struct set_token {
    uint32_t token;
    uint32_t set; /* as above */
    uint32_t nodes;
    uint32_t n_nodes;
};

/* Characters beyond ASCII: ranges in rising order, no two of which touch. */
#define POINTS_RANGES 16u

struct points {
    uint32_t n;
    struct {
        uint32_t low;
        uint32_t high;
    } ranges[POINTS_RANGES];
};

/* The characters that lead from a set to the one that most ASCII ones lead to. */
struct letters {
    uint32_t to;       /* SET_UNKNOWN: not asked yet; SET_DEAD: there are none */
    uint32_t points;   /* of automaton->points, where all beyond ASCII lead there; 0: they do not */
    uint64_t ascii[2]; /* bit b % 64 of word b / 64: byte b leads there */
};

struct set {
    uint32_t rule;
    uint32_t members; /* index into automaton->members: sorted */
    uint32_t n_members;
    uint32_t row; /* index into automaton->rows, or UINT32_MAX: no byte was asked yet */
    uint32_t calls;
    uint32_t n_calls;
    uint32_t tokens;
    uint32_t n_tokens;
    bool accepts;       /* the rule may end here */
    bool counts;        /* it is in its rule's counted node */
    bool takes_text;    /* some byte leads on */
    uint64_t hash[2];   /* of rule and members */
    uint64_t shared[2]; /* of a whole rule's: equal in every grammar that has this rule; else 0 */
    uint64_t takes[4];  /* byte_set.h: these may lead on */
    uint32_t width;     /* how many bytes do, or more */
    struct letters letters; /* letters.h */
};

struct automaton {
    const struct program *program; /* borrowed */
    uint64_t n_bytes;              /* held by all of the below */
    uint64_t n_bytes_max;
    uint8_t classes[256]; /* bytes that no edge tells apart are one */
    uint32_t n_classes;
    struct set *sets; /* owned (n_sets) */
    uint32_t n_sets;
    uint32_t sets_size;
    uint32_t *members; /* owned (n_members) */
    uint32_t n_members;
    uint32_t members_size;
    uint32_t *rows; /* owned (n_rows) */
    uint32_t n_rows;
    uint32_t rows_size;
    struct set_call *calls;
    uint32_t n_calls;
    uint32_t calls_size;
    struct set_token *tokens;
    uint32_t n_tokens;
    uint32_t tokens_size;
    struct points *points; /* owned (n_points), each once: what sets' letters are; [0] has none */
    uint32_t n_points;
    uint32_t points_size;
    uint32_t *slots; /* owned (n_slots): sets by hash */
    uint32_t n_slots;
    uint32_t *starts; /* owned (n_rules): set that a rule begins in, SET_UNKNOWN at first */
    uint32_t *seen;   /* owned (n_nodes) */
    uint32_t mark;
    uint32_t *list;   /* owned (n_nodes): of a closure */
    uint32_t *seeds;  /* owned (n_nodes) */
    uint64_t n_steps; /* of work so far: nodes, edges and threads that were looked at */
    uint64_t n_steps_max;
};

NODISCARD enum status automaton_init(struct automaton *automaton, const struct program *program,
                                     uint64_t n_bytes_max);
void automaton_fini(struct automaton *automaton);

/* Counts work, which all that is walked here is. STATUS_LIMIT past what was allowed. */
NODISCARD static inline enum status automaton_work(struct automaton *automaton, uint64_t n_steps) {
    automaton->n_steps += n_steps;
    return automaton->n_steps > automaton->n_steps_max ? STATUS_LIMIT : STATUS_OK;
}

/* Room for n more of `unit` bytes each in an array (the address of its pointer) of *size, which counts into n_bytes.
 * STATUS_LIMIT past the bound of memory, STATUS_NOMEM. */
NODISCARD enum status automaton_reserve(struct automaton *automaton, void *array, uint32_t used,
                                        uint32_t n, uint32_t *size, size_t unit);

/* The set that a rule begins in. STATUS_LIMIT past the bounds of memory and work,
 * STATUS_NOMEM. */
NODISCARD enum status automaton_start(struct automaton *automaton, uint32_t rule, uint32_t *set);

/* Where a set leads over a byte; SET_DEAD: nowhere. Errors as above. */
NODISCARD enum status automaton_step_slow(struct automaton *automaton, uint32_t set, uint8_t byte,
                                          uint32_t *to);

NODISCARD static inline enum status automaton_step(struct automaton *automaton, uint32_t set,
                                                   uint8_t byte, uint32_t *to) {
    uint32_t row = automaton->sets[set].row;
    if (row != UINT32_MAX) {
        uint32_t known = automaton->rows[row + automaton->classes[byte]];
        if (known != SET_UNKNOWN) {
            *to = known;
            return STATUS_OK;
        }
    }
    return automaton_step_slow(automaton, set, byte, to);
}

/* Where a set goes on behind its i-th call, or its i-th token. */
NODISCARD enum status automaton_behind_call(struct automaton *automaton, uint32_t of, uint32_t i,
                                            uint32_t *set);
NODISCARD enum status automaton_behind_token(struct automaton *automaton, uint32_t of, uint32_t i,
                                             uint32_t *set);

/* Nothing but its rule's end is left: a call that goes on there need not come back. */
static inline bool set_is_end(const struct set *set) {
    return set->accepts && !set->takes_text && set->n_calls == 0 && set->n_tokens == 0;
}
