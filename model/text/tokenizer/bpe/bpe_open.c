/* Fills the table of pairs, from merges or from ranks. */
#include "base/assert.h"
#include "base/random.h"
#include "model/text/tokenizer/bpe/bpe.h"
#include "model/text/tokenizer/bpe/bpe_pairs.h"

#include <stdlib.h>

static enum status bpe_make_table(struct bpe *bpe, size_t n, struct error *error) {
    if (n > BPE_MERGES_MAX)
        return error_set(error, STATUS_LIMIT, "%zu merges, at most %u are read", n, BPE_MERGES_MAX);
    bpe->n_slots = 16;
    while (bpe->n_slots < 2 * n)
        bpe->n_slots *= 2;
    bpe->pairs = malloc((size_t)bpe->n_slots * sizeof *bpe->pairs);
    if (!bpe->pairs)
        return error_set(error, STATUS_NOMEM, "no memory for %zu merges", n);
    memset(bpe->pairs, 0xff, (size_t)bpe->n_slots * sizeof *bpe->pairs); /* left = TOKEN_NONE */
    return STATUS_OK;
}

/* Looks up both sides and their join; how many of the three are there. */
static unsigned bpe_find_merge(const struct vocabulary *vocabulary, const struct bpe_merge *merge,
                               uint32_t (*find)(const struct vocabulary *, struct span),
                               struct bpe_pair *pair) {
    char bytes[2 * VOCABULARY_BYTES_MAX];
    size_t n = merge->left.n + merge->right.n;
    if (merge->left.n > sizeof bytes || n > sizeof bytes)
        return 0;
    if (merge->left.n > 0)
        memcpy(bytes, merge->left.bytes, merge->left.n);
    if (merge->right.n > 0)
        memcpy(bytes + merge->left.n, merge->right.bytes, merge->right.n);
    pair->left = find(vocabulary, merge->left);
    pair->right = find(vocabulary, merge->right);
    pair->merged = find(vocabulary, (struct span){bytes, n});
    return (pair->left != TOKEN_NONE) + (pair->right != TOKEN_NONE) + (pair->merged != TOKEN_NONE);
}

static enum status bpe_fill_from_merges(struct bpe *bpe, const struct bpe_merge *merges, size_t n,
                                        struct error *error) {
    TRY(bpe_make_table(bpe, n, error));
    for (size_t rank = 0; rank < n; rank++) {
        struct bpe_pair pair = {.rank = (uint32_t)rank};
        const struct bpe_merge *merge = &merges[rank];
        if (bpe_find_merge(bpe->vocabulary, merge, vocabulary_find, &pair) < 3) {
            /* By the text of a control token no merge may lead. */
            if (bpe_find_merge(bpe->vocabulary, merge, vocabulary_find_special, &pair) > 0)
                continue;
            return error_set(
                error, STATUS_CORRUPT,
                "merge %zu (\"%.*s\", \"%.*s\") names a text that is not in the vocabulary", rank,
                span_shown(merge->left), merge->left.bytes, span_shown(merge->right),
                merge->right.bytes);
        }
        struct bpe_pair *slot = bpe_find_pair(bpe, pair.left, pair.right);
        if (slot->left == TOKEN_NONE) /* of a pair that is there twice the lower rank counts */
            *slot = pair;
    }
    return STATUS_OK;
}

/* Every way to cut a token into two tokens is a pair; its rank is the token's. With `n_pairs` they
 * are only counted. */
static void bpe_walk_cuts(struct bpe *bpe, size_t *n_pairs) {
    const struct vocabulary *vocabulary = bpe->vocabulary;
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++) {
        struct span token = vocabulary_bytes(vocabulary, id);
        if (vocabulary->kinds[id] != TOKEN_NORMAL)
            continue;
        for (size_t cut = 1; cut < token.n; cut++) {
            struct bpe_pair pair = {.rank = id, .merged = id};
            pair.left = vocabulary_find(vocabulary, (struct span){token.bytes, cut});
            if (pair.left == TOKEN_NONE)
                continue;
            pair.right =
                vocabulary_find(vocabulary, (struct span){token.bytes + cut, token.n - cut});
            if (pair.right == TOKEN_NONE)
                continue;
            if (n_pairs)
                ++*n_pairs;
            else
                *bpe_find_pair(bpe, pair.left, pair.right) = pair;
        }
    }
}

static enum status bpe_fill_from_ranks(struct bpe *bpe, struct error *error) {
    size_t n = 0;
    bpe_walk_cuts(bpe, &n);
    TRY(bpe_make_table(bpe, n, error));
    bpe_walk_cuts(bpe, NULL);
    return STATUS_OK;
}

static void bpe_find_bytes(struct bpe *bpe) {
    const struct vocabulary *vocabulary = bpe->vocabulary;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        bpe->byte_ids[byte] = TOKEN_NONE;
        if (!bpe->options.over_chars)
            bpe->byte_ids[byte] = vocabulary_find(vocabulary, (struct span){&text, 1});
    }
    if (!bpe->options.byte_fallback)
        return;
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++) {
        struct span text = vocabulary_bytes(vocabulary, id);
        int byte = vocabulary->kinds[id] == TOKEN_CONTROL ? -1 : vocabulary_byte_token(text);
        bool upper = byte >= 0 && text.bytes[3] < 'a' && text.bytes[4] < 'a';
        if (upper && bpe->byte_ids[byte] == TOKEN_NONE)
            bpe->byte_ids[byte] = id;
    }
}

enum status bpe_init(struct bpe *bpe, const struct vocabulary *vocabulary,
                     const struct bpe_options *options, const struct bpe_merge *merges, size_t n,
                     struct error *error) {
    *bpe = (struct bpe){.options = *options, .vocabulary = vocabulary, .seed = random_seed()};
    ASSERT(options->over_chars || !options->byte_fallback);
    enum status status = options->by_rank ? bpe_fill_from_ranks(bpe, error)
                                          : bpe_fill_from_merges(bpe, merges, n, error);
    if (status != STATUS_OK) {
        bpe_fini(bpe);
        return status;
    }
    bpe_find_bytes(bpe);
    return STATUS_OK;
}
