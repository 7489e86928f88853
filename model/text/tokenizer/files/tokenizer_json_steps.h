/* model/text/tokenizer/files/tokenizer_json_steps.h: the pipelines of a tokenizer.json (Hugging
 * Face's tokenizers), for tokenizer_json.c. Each takes its section, which may be NULL or null.
 * STATUS_UNSUPPORTED names what is not done, STATUS_CORRUPT the malformed field; the line says
 * where in the section. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/tokenizer.h"

struct json_t;
struct normalizer;
struct pretokenizer;
struct decoder;

NODISCARD enum status json_read_normalizer(const struct json_t *section,
                                           struct normalizer *normalizer, struct error *error);
NODISCARD enum status json_read_pretokenizer(const struct json_t *section,
                                             struct pretokenizer *pretokenizer,
                                             struct error *error);
NODISCARD enum status json_read_decoder(const struct json_t *section, struct decoder *decoder,
                                        struct error *error);

/* What a post-processor puts around a single text. */
struct json_ends {
    bool is_said; /* there is one that says it, even if that is nothing */
    struct tokenizer_ends before;
    struct tokenizer_ends behind;
};

NODISCARD enum status json_read_ends(const struct json_t *section, struct json_ends *ends,
                                     struct error *error);
