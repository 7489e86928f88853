/* model/text/tokenizer/tokenizer_kinds.h: the members behind struct tokenizer_kind, and what they
 * share: for tokenizer_*.c and the members. */
#pragma once

#include "model/text/tokenizer/spm/spm.h"
#include "model/text/tokenizer/tokenizer.h"

/* Each member has its buffers here. */
struct tokenizer_scratch {
    bool parses_special; /* of the encoding that is under way */
    struct normalize_scratch normalize;
    struct pretokenize_scratch pretokenize;
    struct bpe_scratch bpe;
    struct spm_scratch spm;
};

extern const struct tokenizer_kind tokenizer_kind_bpe; /* byte-level BPE */
extern const struct tokenizer_kind tokenizer_kind_spm; /* SentencePiece */

/* One special token in a text. */
struct special_match {
    uint32_t id;
    size_t begin; /* white space that it takes included */
    size_t end;
    size_t next; /* where the search goes on */
};

/* The first special token at or behind `at`, by the vocabulary's texts or, `normalized`, by those
 * that stand in normalized text; `done` is where the text before it began. False: none. */
bool tokenizer_next_special(const struct tokenizer *tokenizer, struct span text, size_t done,
                            size_t at, bool control, bool normalized, struct special_match *match);
