/* model/text/tokenizer/bpe/normalize.h: what is done to a text before it is cut into pieces.
 *
 * A list of steps, as the normalizers of Hugging Face's tokenizers; normal forms by utf8proc. A
 * struct normalizer is read-only after opening: any thread, each with a scratch of its own. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/bpe/regex.h"

#include <stdbool.h>
#include <stdint.h>

#define NORMALIZE_STEPS_MAX 16u
#define NORMALIZE_TEXT_MAX  1024u               /* bytes of a step's own text */
#define NORMALIZE_BYTES_MAX ((size_t)256 << 20) /* of a normalized text */

enum normalize_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP_ACCENTS, /* drops combining marks */
    NORMALIZE_STRIP,         /* white space at the ends */
    NORMALIZE_PREPEND,       /* puts `text` before a text that is not empty */
    NORMALIZE_REPLACE,       /* each match of `regex` becomes `text` */
};

struct normalize_step {
    enum normalize_kind kind;
    bool left;  /* NORMALIZE_STRIP */
    bool right; /* NORMALIZE_STRIP */
    char *text; /* owned (n_text) */
    size_t n_text;
    struct regex regex;
};

struct normalizer {
    struct normalize_step steps[NORMALIZE_STEPS_MAX];
    uint32_t n_steps;
};

/* What one thread needs. */
struct normalize_scratch {
    struct buf texts[2]; /* owned: a step reads one and writes the other */
};

/* All fields zero is a normalizer that changes nothing; each of these adds a step. STATUS_LIMIT,
 * STATUS_UNSUPPORTED, STATUS_NOMEM. */
NODISCARD enum status normalizer_add(struct normalizer *normalizer, enum normalize_kind kind,
                                     struct error *error);
NODISCARD enum status normalizer_add_strip(struct normalizer *normalizer, bool left, bool right,
                                           struct error *error);
NODISCARD enum status normalizer_add_prepend(struct normalizer *normalizer, struct span text,
                                             struct error *error);
NODISCARD enum status normalizer_add_replace(struct normalizer *normalizer, struct span pattern,
                                             bool is_literal, struct span text,
                                             struct error *error);
void normalizer_fini(struct normalizer *normalizer);

void normalize_scratch_init(struct normalize_scratch *scratch);
void normalize_scratch_fini(struct normalize_scratch *scratch);
void normalize_scratch_trim(struct normalize_scratch *scratch); /* frees what grew large */

/* Normalizes valid UTF-8 text; *out is the text itself or lies in the scratch until its next use.
 * *lost_front tells whether white space was taken from its front. STATUS_LIMIT, STATUS_NOMEM. */
NODISCARD enum status normalize(const struct normalizer *normalizer,
                                struct normalize_scratch *scratch, struct regex_scratch *regex,
                                struct span text, struct span *out, bool *lost_front);

/* How many bytes of white space (Unicode's) stand at the front, or at the end, of valid UTF-8. */
size_t normalize_blank_prefix(struct span text);
size_t normalize_blank_suffix(struct span text);
