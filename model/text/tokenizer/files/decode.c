#include "model/text/tokenizer/files/decode.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "model/text/tokenizer/bpe/alphabet.h"

#include <stdlib.h>

#define SHOWN_BYTES_MAX ((size_t)1 << 30)
#define STEP_BYTES_MAX  ((size_t)1 << 20) /* of one token between two steps */

static enum status token_decoder_new_step(struct decoder *decoder, int kind,
                                          struct decode_step **step, struct error *error) {
    if (decoder->n_steps == DECODE_STEPS_MAX)
        return error_set(error, STATUS_LIMIT, "more than %u decoders", DECODE_STEPS_MAX);
    *step = &decoder->steps[decoder->n_steps++];
    **step = (struct decode_step){0};
    (*step)->kind = kind;
    return STATUS_OK;
}

static enum status token_decoder_set_text(struct decode_step *step, struct span text,
                                          struct error *error) {
    if (text.n > sizeof step->text)
        return error_set(error, STATUS_LIMIT,
                         "a decoder's text has %zu bytes, at most %zu are read", text.n,
                         sizeof step->text);
    step->n_text = (uint8_t)text.n;
    if (text.n > 0)
        memcpy(step->text, text.bytes, text.n);
    return STATUS_OK;
}

static enum status token_decoder_check_character(struct span text, const char *what,
                                                 struct error *error) {
    uint32_t point;
    if (text.n == 0 || utf8_decode(text.bytes, text.n, &point) != text.n)
        return error_field(error, STATUS_CORRUPT, what, "a decoder's %s is not one character",
                           what);
    return STATUS_OK;
}

enum status decoder_add_replace(struct decoder *decoder, struct span pattern, bool is_literal,
                                struct span text, struct error *error) {
    struct decode_step *step;
    if (decoder->is_fused)
        return error_set(error, STATUS_UNSUPPORTED,
                         "a Replace decoder after a Fuse or ByteLevel is not supported");
    TRY(token_decoder_new_step(decoder, DECODE_REPLACE, &step, error));
    TRY(token_decoder_set_text(step, text, error));
    return regex_init(&step->regex, pattern, is_literal, error);
}

enum status decoder_add_strip(struct decoder *decoder, struct span character, uint32_t n_left,
                              uint32_t n_right, struct error *error) {
    struct decode_step *step;
    TRY(token_decoder_check_character(character, "content", error));
    if (n_left > UINT8_MAX || n_right > UINT8_MAX)
        return error_set(error, STATUS_LIMIT, "a Strip decoder of more than %u characters",
                         UINT8_MAX);
    if (decoder->is_fused) {
        struct tokenizer_head *head = &decoder->head;
        if (n_right > 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "a Strip decoder for a text's end is not supported");
        if (head->n_times > 0 || head->is_bare)
            return error_set(error, STATUS_UNSUPPORTED, "a second Strip decoder is not supported");
        memcpy(head->strip, character.bytes, character.n);
        head->n_strip = (uint8_t)character.n;
        head->n_times = (uint8_t)n_left;
        return STATUS_OK;
    }
    TRY(token_decoder_new_step(decoder, DECODE_STRIP, &step, error));
    step->n_left = (uint8_t)n_left;
    step->n_right = (uint8_t)n_right;
    return token_decoder_set_text(step, character, error);
}

enum status decoder_add_metaspace(struct decoder *decoder, struct span mark, bool strips_first,
                                  struct error *error) {
    struct decode_step *step;
    TRY(token_decoder_check_character(mark, "replacement", error));
    if (decoder->is_fused)
        return error_set(error, STATUS_UNSUPPORTED,
                         "a Metaspace decoder after a Fuse or ByteLevel is not supported");
    TRY(token_decoder_new_step(decoder, DECODE_METASPACE, &step, error));
    if (strips_first) {
        memcpy(decoder->head.strip, mark.bytes, mark.n);
        decoder->head.n_strip = (uint8_t)mark.n;
        decoder->head.is_bare = true;
    }
    return token_decoder_set_text(step, mark, error);
}

enum status decoder_add_byte_fallback(struct decoder *decoder, struct error *error) {
    struct decode_step *step;
    decoder->head.replaces_each = true;
    return token_decoder_new_step(decoder, DECODE_BYTE_FALLBACK, &step, error);
}

enum status decoder_add_byte_level(struct decoder *decoder, struct error *error) {
    struct decode_step *step;
    if (decoder->is_fused)
        return error_set(error, STATUS_UNSUPPORTED,
                         "a ByteLevel decoder after a Fuse or ByteLevel is not supported");
    decoder->is_fused = true;
    return token_decoder_new_step(decoder, DECODE_BYTE_LEVEL, &step, error);
}

void decoder_fuse(struct decoder *decoder) {
    decoder->is_fused = true;
}

void decoder_join(struct decoder *decoder) {
    decoder->is_joined = true;
    decoder->head = (struct tokenizer_head){.strip = " ", .n_strip = 1, .n_times = 1};
}

void decoder_fini(struct decoder *decoder) {
    if (!decoder)
        return;
    for (uint32_t i = 0; i < decoder->n_steps; i++)
        regex_fini(&decoder->steps[i].regex);
    *decoder = (struct decoder){0};
}

static bool token_decoder_stands_at(struct span text, size_t at, const struct decode_step *step) {
    return step->n_text > 0 && text.n - at >= step->n_text &&
           memcmp(text.bytes + at, step->text, step->n_text) == 0;
}

static void token_decoder_strip(const struct decode_step *step, struct span text, struct buf *out) {
    for (unsigned i = 0; i < step->n_left && token_decoder_stands_at(text, 0, step); i++) {
        text.bytes += step->n_text;
        text.n -= step->n_text;
    }
    for (unsigned i = 0; i < step->n_right && text.n >= step->n_text &&
                         token_decoder_stands_at(text, text.n - step->n_text, step);
         i++)
        text.n -= step->n_text;
    buf_append(out, text.bytes, text.n);
}

static void token_decoder_show_metaspace(const struct decode_step *step, struct span text,
                                         struct buf *out) {
    for (size_t at = 0; at < text.n;) {
        if (token_decoder_stands_at(text, at, step)) {
            buf_putc(out, ' ');
            at += step->n_text;
        } else {
            buf_putc(out, text.bytes[at++]);
        }
    }
}

static enum status token_decoder_show_step(const struct decode_step *step,
                                           struct regex_scratch *regex, struct span text,
                                           struct buf *out) {
    char bytes[2 * VOCABULARY_BYTES_MAX];
    size_t n;
    switch (step->kind) {
    case DECODE_REPLACE:
        return regex_replace(&step->regex, regex, text, (struct span){step->text, step->n_text},
                             out);
    case DECODE_STRIP:
        token_decoder_strip(step, text, out);
        break;
    case DECODE_METASPACE:
        token_decoder_show_metaspace(step, text, out);
        break;
    case DECODE_BYTE_FALLBACK:
        if (vocabulary_byte_token(text) >= 0)
            buf_putc(out, (char)vocabulary_byte_token(text));
        else
            buf_append(out, text.bytes, text.n);
        break;
    case DECODE_BYTE_LEVEL:
        /* A token with characters outside the alphabet stands for its own UTF-8. */
        if (text.n <= sizeof bytes && alphabet_decode(text.bytes, text.n, bytes, &n))
            buf_append(out, bytes, n);
        else
            buf_append(out, text.bytes, text.n);
        break;
    }
    return STATUS_OK;
}

struct show {
    const struct decoder *decoder;
    struct regex_scratch regex;
    struct buf texts[2]; /* a step reads one and writes the other */
    struct buf all;
};

static enum status token_decoder_show_token(struct show *show, struct span text) {
    bool is_byte = false;
    for (uint32_t i = 0; i < show->decoder->n_steps; i++) {
        const struct decode_step *step = &show->decoder->steps[i];
        struct buf *to = &show->texts[i % 2];
        /* A byte token is a piece of a character: what comes later does not see it. */
        if (is_byte)
            break;
        is_byte = step->kind == DECODE_BYTE_FALLBACK && vocabulary_byte_token(text) >= 0;
        buf_clear(to);
        TRY(token_decoder_show_step(step, &show->regex, text, to));
        TRY(buf_status(to));
        text = (struct span){to->data ? to->data : "", to->n};
    }
    if (show->decoder->is_joined)
        buf_putc(&show->all, ' ');
    if (text.n + show->decoder->is_joined > VOCABULARY_BYTES_MAX)
        return STATUS_LIMIT;
    buf_append(&show->all, text.bytes, text.n);
    return buf_status(&show->all);
}

static enum status token_decoder_show_all(struct show *show, const struct span *spelled,
                                          struct tokenizer *tokenizer) {
    uint32_t n = tokenizer->vocabulary.n_tokens;
    uint32_t *offsets = calloc((size_t)n + 1, sizeof *offsets);
    bool same = true;
    if (!offsets)
        return STATUS_NOMEM;
    for (uint32_t id = 0; id < n; id++) {
        struct span vocabulary = vocabulary_bytes(&tokenizer->vocabulary, id);
        enum status status = token_decoder_show_token(show, spelled[id]);
        if (status != STATUS_OK) {
            free(offsets);
            return status;
        }
        offsets[id + 1] = (uint32_t)show->all.n;
        size_t n_shown = offsets[id + 1] - offsets[id];
        same =
            same && n_shown == vocabulary.n &&
            (n_shown == 0 || memcmp(show->all.data + offsets[id], vocabulary.bytes, n_shown) == 0);
    }
    tokenizer->head = show->decoder->head;
    if (same || !show->all.data) {
        free(offsets);
        return STATUS_OK;
    }
    char *bytes = buf_take(&show->all);
    if (!bytes) {
        free(offsets);
        return STATUS_NOMEM;
    }
    tokenizer->shown = (struct token_texts){.bytes = bytes, .offsets = offsets};
    return STATUS_OK;
}

enum status decoder_show(const struct decoder *decoder, const struct span *spelled,
                         struct tokenizer *tokenizer, struct error *error) {
    struct show show = {.decoder = decoder};
    enum status status = regex_scratch_init(&show.regex);
    buf_init(&show.texts[0], STEP_BYTES_MAX);
    buf_init(&show.texts[1], STEP_BYTES_MAX);
    buf_init(&show.all, SHOWN_BYTES_MAX);
    if (status == STATUS_OK)
        status = token_decoder_show_all(&show, spelled, tokenizer);
    buf_fini(&show.texts[0]);
    buf_fini(&show.texts[1]);
    buf_fini(&show.all);
    regex_scratch_fini(&show.regex);
    if (status == STATUS_NOMEM)
        return error_set(error, status, "no memory for what the tokens are shown as");
    if (status != STATUS_OK)
        return error_set(error, status, "the text of a token becomes too long");
    return STATUS_OK;
}
