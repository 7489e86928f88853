#include "tools/bench/core/words.h"

#include "base/assert.h"
#include "base/random.h"

#include <string.h>

/* Words of one token each in most vocabularies; a random order makes prompts differ, so that no
 * prefix cache answers for the model. */
static const char *const texts[WORDS_N] = {
    "the",  "of",    "and",   "time",  "water", "people", "way",   "day",   "man",   "thing",
    "long", "world", "great", "life",  "hand",  "part",   "child", "eye",   "place", "work",
    "week", "case",  "point", "house", "group", "number", "night", "story", "fact",  "month"};

void words_init(struct words *words, const uint32_t *costs) {
    *words = (struct words){.reach = {[0] = true}};
    for (uint32_t i = 0; i < WORDS_N; i++) {
        words->cost[i] = costs ? costs[i] : 1;
        ASSERT(words->cost[i] >= 1 && words->cost[i] <= WORDS_COST_MAX);
    }
    for (uint32_t n = 1; n < WORDS_REACH_MAX; n++)
        for (uint32_t i = 0; i < WORDS_N && !words->reach[n]; i++)
            words->reach[n] = words->cost[i] <= n && words->reach[n - words->cost[i]];
}

const char *words_text(uint32_t word) {
    ASSERT(word < WORDS_N);
    return texts[word];
}

/* Large numbers are not looked up: random words bring them down into the table. */
static bool bench_words_is_reached(const struct words *words, uint32_t n_tokens) {
    return n_tokens >= WORDS_REACH_MAX || words->reach[n_tokens];
}

static bool bench_words_fit(const struct words *words, uint32_t word, uint32_t n_left) {
    return words->cost[word] <= n_left && bench_words_is_reached(words, n_left - words->cost[word]);
}

uint32_t words_put(const struct words *words, struct buf *out, size_t begin, uint64_t seed,
                   uint32_t n_tokens) {
    struct random random = {.state = seed};
    uint32_t n_left = n_tokens, n_put = 0;
    while (!bench_words_is_reached(words, n_left))
        n_left--; /* 0 is reached */
    while (n_left > 0) {
        uint32_t word = (uint32_t)random_below(&random, WORDS_N);
        for (uint32_t i = 0; i < WORDS_N && !bench_words_fit(words, word, n_left); i++)
            word = (word + 1) % WORDS_N;
        if (!bench_words_fit(words, word, n_left)) {
            n_left--; /* from beyond the table into a gap of it */
            continue;
        }
        if (out->n > begin)
            buf_putc(out, ' ');
        buf_append(out, texts[word], strlen(texts[word]));
        n_left -= words->cost[word];
        n_put += words->cost[word];
    }
    return n_put;
}
