/* model/text/grammar/engine/mask_walk.h: a mask that is being made, and the plain way to make it: a walk
 * of the trie. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/mask.h"
#include "model/text/grammar/engine/threads.h"

#include <stdint.h>

struct grammar_vocabulary;
struct inside;

/* Of one depth of the trie. */
struct masking_level {
    uint32_t begin; /* of this depth's threads */
    uint32_t end;
    uint64_t takes[4];
};

struct masking {
    struct machine *machine;
    struct grammar_vocabulary *vocabulary;
    struct grammar_mask *mask;
    struct masking_level *levels; /* owned (n_bytes_max + 2) */
    struct threads walked;        /* of the levels */
    uint32_t *inside;             /* owned (n_words), or NULL: not needed so far */
};

/* `mask` is borrowed, and zeroed. STATUS_NOMEM. */
NODISCARD enum status masking_init(struct masking *masking, struct machine *machine,
                                   struct grammar_vocabulary *vocabulary,
                                   struct grammar_mask *mask);
void masking_fini(struct masking *masking);

/* Allows a token and all others of its bytes; GRAMMAR_TOKEN_NONE is none. */
void masking_allow(struct masking *masking, uint32_t token);

/* Allows those that cost at most `max`. STATUS_NOMEM. */
NODISCARD enum status masking_allow_inside(struct masking *masking, const struct inside *inside,
                                           uint32_t max);

/* Allows the tokens below a node of the trie that from[0..n), which are not of `walked`, take there.
 * STATUS_LIMIT past a bound of the machine, STATUS_NOMEM. */
NODISCARD enum status masking_walk(struct masking *masking, uint32_t root,
                                   const struct thread *from, uint32_t n);
