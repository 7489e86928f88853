/* model/text/tokenizer/files/spm_tokenizer.h: what the makers of SentencePiece tokenizers share.
 * For this folder. */
#pragma once

#include "model/text/tokenizer/spm/spm.h"
#include "model/text/tokenizer/tokenizer.h"

struct gguf;

/* All that a tokenizer is made of. Everything is copied. */
struct spm_parts {
    const struct spm_source *source;
    struct tokenizer_tokens
        tokens; /* the source's pieces, then what stands behind them; kinds as the
                                       vocabulary shall have them */
};

/* Errors as tokenizer_open(). */
NODISCARD enum status spm_tokenizer_new(const struct spm_parts *parts, struct tokenizer **tokenizer,
                                        struct error *error);

/* From a GGUF file whose tokenizer.ggml.model is "llama", as llama.cpp reads it; `source` is what
 * such a file has in common with all others. */
NODISCARD enum status spm_tokenizer_open_gguf(const struct gguf *gguf,
                                              const struct tokenizer_source *source,
                                              struct tokenizer **tokenizer, struct error *error);

/* As tokenizer_open_sentencepiece(), of a file in memory; `name` is used in messages. */
NODISCARD enum status spm_tokenizer_parse(struct span bytes, const char *name,
                                          const struct tokenizer_extras *extras,
                                          struct tokenizer **tokenizer, struct error *error);
