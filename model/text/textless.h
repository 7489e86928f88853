/* model/text/textless.h: the ids that no answer may hold: rows of a model's vocabulary for which
 * the tokenizer has no text, and which end no answer either.
 *
 * Embeddings are padded to round sizes (Qwen's has 151,936 rows, its tokenizer 151,665 tokens), and
 * some vocabularies have gaps. Such a row's logit is an accident of training, or random. A token
 * whose text is empty, or hidden because it is special, is a token all the same and
 * may be drawn. */
#pragma once

#include "base/interval.h"
#include "base/status.h"

#include <stdint.h>

struct tokenizer;

/* What the tokenizer does not know of a model. Borrowed. */
struct textless_model {
    uint32_t n_vocab;
    uint32_t n_stop_ids;
    const uint32_t *stop_ids; /* (n_stop_ids) ids that end an answer */
};

/* Fills *ids (owned by the caller; NULL where there is none) with the n intervals of textless ids.
 * STATUS_NOMEM. Pure. */
NODISCARD enum status textless_find(const struct tokenizer *tokenizer, struct textless_model model,
                                    struct interval **ids, uint32_t *n);
