/* model/tokenizer/files/spm_tokenizer.h: what the makers of SentencePiece tokenizers share. For this
 * folder. */
#pragma once

#include "model/tokenizer/spm/spm.h"
#include "model/tokenizer/tokenizer.h"

struct gguf;

/* All that a tokenizer is made of. Everything is copied. */
struct spm_parts {
    const struct spm_source *source;
    const struct span *texts; /* (n_tokens): the source's pieces, then what stands behind them */
    const uint8_t *kinds;     /* (n_tokens): as the vocabulary shall have them */
    const uint8_t *flags;     /* (n_tokens): enum token_flags; NULL: none */
    uint32_t n_tokens;
    uint32_t bos_id; /* TOKEN_NONE: the model has none */
    uint32_t eos_id;
    bool add_bos;
    bool add_eos;
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
