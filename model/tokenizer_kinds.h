/* model/tokenizer_kinds.h: the members behind struct tokenizer_kind, for tokenizer_open.c. */
#pragma once

#include "model/tokenizer.h"

extern const struct tokenizer_kind tokenizer_kind_bpe;   /* byte-level BPE */
extern const struct tokenizer_kind tokenizer_kind_bytes; /* a text's bytes are its ids */
