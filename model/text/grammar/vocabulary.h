/* model/text/grammar/vocabulary.h: a tokenizer's tokens as grammars see them: the bytes of each in a
 * trie, and apart from them the special ones, which no text spells.
 *
 * Built once; then any thread. It keeps the masks and views that were made for it (engine/store.h),
 * for all grammars together, under one bound of memory. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/grammar/engine/store.h"
#include "model/text/grammar/subtrees.h"

#include <stdbool.h>
#include <stdint.h>

struct grammar_vocabulary {
    struct token_node *nodes; /* owned (n_nodes) */
    uint32_t n_nodes;
    uint32_t n_tokens;
    uint32_t n_bytes_max; /* of the longest token in the trie */
    uint32_t *same;    /* owned (n_tokens): the next token of equal bytes, or GRAMMAR_TOKEN_NONE */
    uint32_t *offsets; /* owned (n_tokens + 1): a token's bytes */
    char *bytes;       /* owned */
    uint8_t *is_special; /* owned (n_tokens) */
    struct subtrees subtrees;
    struct store store;
};

struct tokenizer;

/* Tokens by id: texts (n), and which of them are special (n): these are known by their text alone. A
 * token without bytes is in no mask. On success the caller owns *vocabulary. `n_bytes_kept`: the bound of
 * masks. STATUS_LIMIT where a token has over 65,535 bytes, STATUS_NOMEM. */
NODISCARD enum status grammar_vocabulary_new(const struct span *texts, const bool *is_special,
                                             uint32_t n, size_t n_bytes_kept,
                                             struct grammar_vocabulary **vocabulary,
                                             struct error *error);

/* The same of a tokenizer, which may be closed afterwards: control, unknown and unused tokens are
 * special. */
NODISCARD enum status grammar_vocabulary_of(const struct tokenizer *tokenizer, size_t n_bytes_kept,
                                            struct grammar_vocabulary **vocabulary,
                                            struct error *error);

/* No grammar that was compiled for it may be left. */
void grammar_vocabulary_free(struct grammar_vocabulary *vocabulary);

/* The special token of exactly this text, or GRAMMAR_TOKEN_NONE. */
uint32_t grammar_vocabulary_special(const struct grammar_vocabulary *vocabulary, struct span text);

static inline struct span grammar_vocabulary_bytes(const struct grammar_vocabulary *vocabulary,
                                                   uint32_t token) {
    return (struct span){vocabulary->bytes + vocabulary->offsets[token],
                         vocabulary->offsets[token + 1] - vocabulary->offsets[token]};
}
