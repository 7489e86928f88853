/* model/text/tokenizer/detokenize.h: token ids to text, one at a time, always whole UTF-8
 * characters.
 *
 * A character may be spread over several tokens: bytes that could still become one are held back
 * until the next token decides, or the end does. Bytes that can never become one are written as
 * U+FFFD, one for each longest prefix of a character (Unicode 15, section 3.9, as Python's
 * errors="replace"). All output together is what decoding all bytes at once would give: the blank
 * that some vocabularies put before a text's first word is taken from the very front only
 * (tokenizer->head). A kind of tokenizer may have rules of its own (kind->show). The state is small
 * and may be copied; one owner thread. */
#pragma once

#include "base/buf.h"
#include "base/status.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

struct detokenizer {
    uint8_t held[4]; /* a cut character's first bytes */
    uint8_t n_held;
    uint8_t n_stripped; /* of what tokenizer->head takes from the front */
    bool begun;         /* a token was written; kind->show: nothing more is taken from the front */
    bool is_past_head;  /* nothing more is taken from the front */
    bool skip_special;  /* special tokens write nothing */
    bool replaces_each; /* each byte that is held becomes U+FFFD by itself */
};

static inline void detokenizer_init(struct detokenizer *detokenizer, bool skip_special) {
    *detokenizer = (struct detokenizer){.skip_special = skip_special};
}

/* For an output that goes on with a text that is there already: its first token is shown as any
 * other, with the blank before its word. */
static inline void detokenizer_continue(struct detokenizer *detokenizer) {
    detokenizer->begun = detokenizer->is_past_head = true;
}

/* Appends to out what the id completes. STATUS_INVALID when there is no such id; STATUS_NOMEM or
 * STATUS_LIMIT from out. */
NODISCARD enum status detokenizer_push(struct detokenizer *detokenizer,
                                       const struct tokenizer *tokenizer, uint32_t id,
                                       struct buf *out);

/* The same for an id of the model's vocabulary that the tokenizer may lack (markers that are known
 * by their ids alone, padding in a client's prompt): such an id writes nothing. */
NODISCARD static inline enum status detokenizer_push_any(struct detokenizer *detokenizer,
                                                         const struct tokenizer *tokenizer,
                                                         uint32_t id, struct buf *out) {
    return id < tokenizer_n_tokens(tokenizer) ? detokenizer_push(detokenizer, tokenizer, id, out)
                                              : buf_status(out);
}

/* The end: a cut character becomes U+FFFD. */
NODISCARD enum status detokenizer_flush(struct detokenizer *detokenizer, struct buf *out);
