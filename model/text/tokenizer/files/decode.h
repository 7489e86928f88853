/* model/text/tokenizer/files/decode.h: from how a vocabulary spells its tokens to what users see of
 * them.
 *
 * A list of steps, as the decoders of Hugging Face's tokenizers. All of it is done once, for every
 * token, while a model is opened; what depends on a token's place in the text is left to struct
 * tokenizer_head. Owner thread only. */
#pragma once

#include "base/error.h"
#include "base/span.h"
#include "base/status.h"
#include "model/text/tokenizer/bpe/regex.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdint.h>

#define DECODE_STEPS_MAX 16u

struct decode_step {
    enum {
        DECODE_REPLACE,
        DECODE_STRIP,
        DECODE_METASPACE,
        DECODE_BYTE_FALLBACK,
        DECODE_BYTE_LEVEL
    } kind;
    struct regex regex; /* DECODE_REPLACE */
    char text[64];      /* what replaces; what is stripped; the Metaspace's mark (n_text) */
    uint8_t n_text;
    uint8_t n_left;  /* DECODE_STRIP: how often at the front */
    uint8_t n_right; /* and at the end */
};

struct decoder {
    struct decode_step steps[DECODE_STEPS_MAX];
    uint32_t n_steps;
    bool is_fused;  /* what follows sees the whole text as one */
    bool is_joined; /* there is no decoder: tokens are written with blanks between them */
    struct tokenizer_head head;
};

/* All fields zero is a decoder that shows tokens as they are spelled; each of these adds a step.
 * STATUS_UNSUPPORTED for what cannot be done token by token; STATUS_LIMIT. */
NODISCARD enum status decoder_add_replace(struct decoder *decoder, struct span pattern,
                                          bool is_literal, struct span text, struct error *error);
NODISCARD enum status decoder_add_strip(struct decoder *decoder, struct span character,
                                        uint32_t n_left, uint32_t n_right, struct error *error);
NODISCARD enum status decoder_add_metaspace(struct decoder *decoder, struct span mark,
                                            bool strips_first, struct error *error);
/* <0xHH> tokens become bytes. Of a run of them that is not UTF-8 as a whole the library shows every
 * byte as U+FFFD; here the characters in it that are whole stay, since they have been streamed. */
NODISCARD enum status decoder_add_byte_fallback(struct decoder *decoder, struct error *error);
NODISCARD enum status decoder_add_byte_level(struct decoder *decoder, struct error *error);
void decoder_fuse(struct decoder *decoder);
void decoder_join(struct decoder *decoder); /* there is no decoder: blanks between tokens */
void decoder_fini(struct decoder *decoder);

/* Fills tokenizer->shown and tokenizer->head from the tokens as spelled (n_tokens of the
 * vocabulary). Leaves `shown` empty where everything is shown as the vocabulary has it. */
NODISCARD enum status decoder_show(const struct decoder *decoder, const struct span *spelled,
                                   struct tokenizer *tokenizer, struct error *error);
