/* tools/bench/core/words.h: common words, what each costs in tokens, and texts of an exact number of
 * tokens made of them.
 *
 * Pure. A word's cost is that of the word with a blank in front. Tokenizers split text at blanks, so
 * costs add up: what a prompt has beyond them (the chat format, the first word without its blank)
 * is the same for every prompt, since each begins with words_text(0). */
#pragma once

#include "base/buf.h"

#include <stdint.h>

#define WORDS_N         30
#define WORDS_COST_MAX  32 /* tokens of one word; by bytes the longest has 7 */
#define WORDS_REACH_MAX 128

struct words {
    uint32_t cost[WORDS_N];      /* tokens; 1 to WORDS_COST_MAX */
    bool reach[WORDS_REACH_MAX]; /* whether some words cost that many tokens together */
};

/* costs: (WORDS_N), each 1 to WORDS_COST_MAX; NULL: each word is one token. */
void words_init(struct words *words, const uint32_t *costs);

const char *words_text(uint32_t word); /* word < WORDS_N */

/* Appends words drawn by `seed`, each with a blank in front but where `out` has `begin` bytes, that
 * cost `n_tokens` together. Answers the tokens appended: fewer where no words cost so many. */
uint32_t words_put(const struct words *words, struct buf *out, size_t begin, uint64_t seed,
                   uint32_t n_tokens);
