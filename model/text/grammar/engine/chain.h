/* model/text/grammar/engine/chain.h: sets of one rule one behind the other, as a bounded repetition of
 * a character is written out: over each letter of a few (letters.h) the first leads to the second, that to
 * the third and so on, as far as the letters last; a loop is a chain of one set, and so is one that
 * counts (struct set).
 *
 * Where the chain ends, none of these letters leads on. Used under the grammar's lock. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/automaton.h"

#include <stdbool.h>
#include <stdint.h>

struct chain {
    uint64_t ascii[2]; /* these lead to the next set, */
    uint32_t points;   /* and these (automaton->points) */
    bool is_loop;      /* the first set leads to itself */
    uint32_t *sets;    /* owned (n + 1): [i] is behind i letters */
    uint32_t n;        /* how many of them may follow each other */
};

/* Fills the letters of the chain that begins in a set, as far as two steps tell; *n_ascii, how many are of ASCII,
 * is 0 where none begins. Errors are those of automaton_step(). */
NODISCARD enum status chain_letters(struct automaton *automaton, uint32_t set, struct chain *chain,
                                    uint32_t *n_ascii);

/* The chain of `set` over the letters that chain_letters() found, as far as texts of at most n_max of
 * them go. False in *is_one, and nothing is owned, where it is none. Errors as above, STATUS_NOMEM. */
NODISCARD enum status chain_init(struct chain *chain, struct automaton *automaton, uint32_t set,
                                 uint32_t n_max, bool *is_one);
void chain_fini(struct chain *chain);
