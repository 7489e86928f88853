/* model/text/grammar/engine/chain.h: sets of one rule one behind the other, as a bounded repetition of
 * a character is written out: over each byte of a few the first leads to the second, that to the third
 * and so on, as far as the bytes last; a loop is a chain of one set. Meanwhile the rule cannot give way.
 *
 * Where the chain ends, none of these bytes leads on. Whoever holds the grammar's lock uses it. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/automaton.h"

#include <stdbool.h>
#include <stdint.h>

struct chain {
    uint64_t bytes[4]; /* byte_set.h: these lead to the next set */
    uint32_t *sets;    /* owned (n + 1): [i] is behind i of these bytes */
    uint32_t n;        /* how many of them may follow each other */
};

/* The bytes of the chain that begins in a set, as far as two steps tell; *n_bytes is 0 where none
 * begins. Errors are those of automaton_step(). The set must not count (struct set). */
NODISCARD enum status chain_bytes(struct automaton *automaton, uint32_t set, uint64_t bytes[4],
                                  uint32_t *n_bytes);

/* The chain of `set` over chain->bytes, which chain_bytes() found, as far as texts of at most n_max of
 * these bytes go. False in *is_one, and nothing is owned, where it is none. Errors as above,
 * STATUS_NOMEM. */
NODISCARD enum status chain_init(struct chain *chain, struct automaton *automaton, uint32_t set,
                                 uint32_t n_max, bool *is_one);
void chain_fini(struct chain *chain);
