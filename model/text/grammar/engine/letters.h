/* model/text/grammar/engine/letters.h: which characters lead from a set to the one that most of them lead
 * to: bytes of ASCII, and beyond it those that UTF-8 spells with several bytes, if all that the set takes
 * lead there. In a bounded repetition of a character each place's lead to the next.
 *
 * Used under the grammar's lock. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/automaton.h"
#include "model/text/grammar/engine/begun.h"

#include <stdbool.h>
#include <stdint.h>

/* Finds a set's letters, where they are not found yet (struct set). Errors are those of automaton_step(). */
NODISCARD enum status letters_find(struct automaton *automaton, uint32_t set);

/* Are they all characters beyond ASCII? */
bool points_are_all(const struct points *points);

/* Is one of them begun so? */
bool points_begin(const struct points *points, struct begun begun);
