/* Which ids merges may give, and what becomes of those that a model has no rows for. */
#include "base/utf8.h"
#include "model/text/tokenizer/bpe/bpe.h"
#include "model/text/tokenizer/bpe/bpe_pairs.h"

static uint32_t bpe_limit_lower(uint32_t found, uint32_t id, uint32_t begin) {
    return id != TOKEN_NONE && id >= begin && id < found ? id : found;
}

/* A token that needs no merge: a whole piece, or a first symbol. */
static bool bpe_limit_stands_alone(const struct bpe *bpe, struct span text) {
    uint32_t point;
    if (text.n == 0)
        return false;
    return bpe->options.ignores_merges ||
           (bpe->options.over_chars && utf8_decode(text.bytes, text.n, &point) == text.n);
}

uint32_t bpe_reach(const struct bpe *bpe, uint32_t begin) {
    const struct vocabulary *vocabulary = bpe->vocabulary;
    uint32_t found = TOKEN_NONE;
    bool has_unknown = false;
    for (unsigned byte = 0; byte < 256; byte++) {
        found = bpe_limit_lower(found, bpe->byte_ids[byte], begin);
        has_unknown |= bpe->byte_ids[byte] == TOKEN_NONE;
    }
    if (has_unknown)
        found = bpe_limit_lower(found, bpe->options.unknown_id, begin);
    for (uint32_t at = 0; at < bpe->n_slots; at++) {
        const struct bpe_pair *pair = &bpe->pairs[at];
        if (pair->left != TOKEN_NONE && vocabulary->kinds[pair->merged] == TOKEN_NORMAL)
            found = bpe_limit_lower(found, pair->merged, begin);
    }
    for (uint32_t id = begin; id < vocabulary->n_tokens && id < found; id++)
        if (vocabulary->kinds[id] == TOKEN_NORMAL &&
            bpe_limit_stands_alone(bpe, vocabulary_bytes(vocabulary, id)))
            return id;
    return found;
}

void bpe_limit(struct bpe *bpe, uint32_t n) {
    for (uint32_t at = 0; at < bpe->n_slots; at++)
        if (bpe->pairs[at].left != TOKEN_NONE && bpe->pairs[at].merged >= n)
            bpe->pairs[at].rank = RANK_NONE; /* an empty slot would cut others off */
}
