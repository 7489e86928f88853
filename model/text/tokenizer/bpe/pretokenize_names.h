/* model/text/tokenizer/bpe/pretokenize_names.h: what the names in tokenizer.ggml.pre mean. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"

#include <stdbool.h>

struct pretokenizer;

#define PRETOKENIZE_PATTERNS_MAX 7

/* One way of cutting, and what else the tokenizers of that name have in common. */
struct pretokenize_name {
    const char *names; /* with a blank around each */
    /* Applied one after the other, each isolating its matches within what the one before left; in
     * the dialect of regex.h. NULL behind the last. */
    const char *patterns[PRETOKENIZE_PATTERNS_MAX + 1];
    bool is_nfc;         /* text is brought to normal form C first */
    bool ignores_merges; /* a piece that is a token is that token, whatever the merges say */
    bool adds_bos;       /* unless the file says otherwise */
};

/* The name's row; NULL when nothing is known by it. */
const struct pretokenize_name *pretokenize_find(struct span name);

/* Makes a pretokenizer of a row. */
NODISCARD enum status pretokenizer_init(struct pretokenizer *pretokenizer,
                                        const struct pretokenize_name *name, struct error *error);
