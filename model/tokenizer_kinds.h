/* model/tokenizer_kinds.h: the members behind struct tokenizer_kind, and what they share: for
 * tokenizer_*.c and the members. */
#pragma once

#include "model/tokenizer.h"

/* Each member has its buffers here. */
struct tokenizer_scratch {
    struct pretokenize_scratch pretokenize;
    struct bpe_scratch bpe;
};

extern const struct tokenizer_kind tokenizer_kind_bpe;   /* byte-level BPE */
extern const struct tokenizer_kind tokenizer_kind_bytes; /* a text's bytes are its ids */
