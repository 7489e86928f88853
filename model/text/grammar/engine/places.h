/* model/text/grammar/engine/places.h: where a thread is behind each number of a chain's letters, with what
 * its rule's callers go on with there. Used under the grammar's lock. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/chain.h"
#include "model/text/grammar/engine/threads.h"

#include <stdbool.h>
#include <stdint.h>

struct place {
    uint32_t begin; /* its threads, in places->threads */
    uint32_t n;
    uint64_t takes[4]; /* byte_set.h: these may lead on from any of them */
};

struct places {
    struct place *at; /* owned (n): [i] is behind i letters */
    uint32_t n;
    struct threads threads; /* owned */
    uint64_t others[4];     /* byte_set.h: bytes that may lead on and begin no letter */
};

/* Those of a thread's chain. False in *are_apart, and nothing is owned, where a letter is also what a caller goes on
 * with: it has two readings. Errors are those of machine_byte(). */
NODISCARD enum status places_init(struct places *places, struct machine *machine,
                                  const struct chain *chain, struct thread thread, bool *are_apart);
void places_fini(struct places *places);
