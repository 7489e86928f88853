/* model/text/tokenizer/bpe/bpe_pairs.h: the table of pairs, for bpe*.c. */
#pragma once

#include "base/random.h"
#include "model/text/tokenizer/bpe/bpe.h"

#define RANK_NONE UINT32_MAX /* a pair that does not merge */

static inline uint32_t bpe_slot_of(const struct bpe *bpe, uint32_t left, uint32_t right) {
    uint64_t hash = mix64(((uint64_t)left << 32 | right) ^ bpe->seed);
    return (uint32_t)hash & (bpe->n_slots - 1);
}

/* The pair's entry, or the empty slot where it would stand. */
static inline struct bpe_pair *bpe_find_pair(const struct bpe *bpe, uint32_t left, uint32_t right) {
    uint32_t at = bpe_slot_of(bpe, left, right);
    while (bpe->pairs[at].left != TOKEN_NONE &&
           (bpe->pairs[at].left != left || bpe->pairs[at].right != right))
        at = (at + 1) & (bpe->n_slots - 1);
    return &bpe->pairs[at];
}
