/* model/text/grammar/engine/mask.h: which tokens of a vocabulary may come where a grammar is. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/store.h"
#include "model/text/grammar/engine/threads.h"

#include <stdint.h>

struct grammar_vocabulary;

/* Never changes; every reference is given back (store_item_unref). */
struct grammar_mask {
    struct store_item item;
    uint32_t n_tokens;
    uint32_t bits[]; /* ((n_tokens + 31) / 32): bit i % 32 of word i / 32 is token i */
};

/* The mask of from[0..n), made anew. STATUS_LIMIT past a bound of the machine, that of work among them
 * (machine_allow), STATUS_NOMEM. On success the caller holds *mask. */
NODISCARD enum status mask_make(struct machine *machine, struct grammar_vocabulary *vocabulary,
                                const uint64_t grammar[2], const struct thread *from, uint32_t n,
                                struct grammar_mask **mask);

/* The key of from[0..n)'s mask: equal content has equal keys. */
void mask_key(const struct machine *machine, const uint64_t grammar[2], const struct thread *from,
              uint32_t n, uint64_t key[2]);
