/* model/text/tokenizer/files/tokenizer_parts.h: a tokenizer of kind bpe, taken apart: what every
 * reader of a vocabulary file comes to, in any format. For this folder. */
#pragma once

#include "model/text/tokenizer/files/decode.h"
#include "model/text/tokenizer/tokenizer.h"

/* How tokens and merges are spelled. */
enum tokenizer_spelling { SPELLED_IN_ALPHABET, SPELLED_AS_IS };

/* Spans are borrowed until tokenizer_build() is done; the three pipelines are taken over by it,
 * even when it fails. */
struct tokenizer_parts {
    struct tokenizer_tokens tokens;
    enum tokenizer_spelling spelling;
    const struct bpe_merge *merges; /* (n_merges) as spelled, in order of rank */
    size_t n_merges;
    struct bpe_options options;
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct decoder decoder;
    struct span recipe; /* what tells the pipelines apart, for the fingerprint */
};

/* Errors as tokenizer_open(). */
NODISCARD enum status tokenizer_build(struct tokenizer_parts *parts, struct tokenizer **tokenizer,
                                      struct error *error);

/* Sets tokenizer->fingerprint from everything that decides which ids a text gets and which bytes an id has:
 * what is built and the parts' options, merges and recipe. */
NODISCARD enum status tokenizer_fingerprint(struct tokenizer *tokenizer,
                                            const struct tokenizer_parts *parts,
                                            struct error *error);

/* Sets bos_id, eos_id, before and behind. STATUS_CORRUPT for ids beyond the vocabulary, or none where
 * one is added; STATUS_LIMIT for more than TOKENIZER_ENDS_MAX on a side. */
NODISCARD enum status tokenizer_set_ends(struct tokenizer *tokenizer,
                                         const struct tokenizer_tokens *tokens,
                                         struct error *error);

/* Puts a token last on a side. STATUS_LIMIT past TOKENIZER_ENDS_MAX. */
NODISCARD enum status tokenizer_ends_add(struct tokenizer_ends *ends, uint32_t id,
                                         struct error *error);

/* For parts that are not built after all. */
void tokenizer_parts_fini(struct tokenizer_parts *parts);
