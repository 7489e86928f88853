/* The kind of SentencePiece models. What its ids say in text is what SentencePiece makes of them
 * (sentencepiece_processor.cc, Decode). */
#include "base/utf8.h"
#include "model/text/tokenizer/detokenize.h"
#include "model/text/tokenizer/tokenizer_kinds.h"

#include <stdlib.h>

static const char replacement[] = "\xef\xbf\xbd";

/* Bytes that never became a character are replaced one by one. */
static void tokenizer_spm_end_bytes(struct detokenizer *detokenizer, struct buf *out) {
    for (; detokenizer->n_held > 0; detokenizer->n_held--)
        buf_puts(out, replacement);
}

static void tokenizer_spm_push_byte(struct detokenizer *detokenizer, char byte, struct buf *out) {
    char bytes[sizeof detokenizer->held + 1];
    size_t n = detokenizer->n_held;
    size_t at = 0;
    memcpy(bytes, detokenizer->held, n);
    bytes[n++] = byte;
    while (at < n) {
        uint32_t point;
        unsigned length = utf8_decode(bytes + at, n - at, &point);
        if (length == 0 && utf8_cut_tail(bytes + at, n - at) == n - at)
            break; /* the next byte decides */
        if (length > 0)
            buf_append(out, bytes + at, length);
        else
            buf_puts(out, replacement);
        at += length > 0 ? length : 1;
    }
    detokenizer->n_held = (uint8_t)(n - at);
    memcpy(detokenizer->held, bytes + at, n - at);
}

/* The blank that encoding puts before a text is not part of it. Where encoding drops blanks at the
 * front, no piece at the front shows the one it begins with. */
static bool tokenizer_spm_loses_blank(struct detokenizer *detokenizer, const struct spm *spm,
                                      struct span spelled) {
    if (detokenizer->begun || !(spm->prefix || spm->squeezes))
        return false;
    bool is_blank = span_begins(spelled, SPM_BLANK);
    if (is_blank && !spm->squeezes)
        detokenizer->begun = true;
    return is_blank;
}

static enum status tokenizer_spm_encode(const struct tokenizer *tokenizer,
                                        struct tokenizer_scratch *scratch, struct span text,
                                        bool at_start, struct ids *ids) {
    return spm_encode(tokenizer->own, &tokenizer->vocabulary, &scratch->spm, text, at_start, ids);
}

static void tokenizer_spm_close_own(struct tokenizer *tokenizer) {
    spm_fini(tokenizer->own);
    free(tokenizer->own);
    tokenizer->own = NULL;
}

static enum status tokenizer_spm_show(struct detokenizer *detokenizer,
                                      const struct tokenizer *tokenizer, uint32_t id,
                                      struct buf *out) {
    const struct spm *spm = tokenizer->own;
    struct span text = tokenizer_bytes(tokenizer, id);
    struct span spelled = vocabulary_bytes(&tokenizer->vocabulary, id);
    uint8_t kind = tokenizer->vocabulary.kinds[id];
    bool is_special = tokenizer_is_special(tokenizer, id);
    size_t n_before = out->n;
    if (kind == TOKEN_BYTE) {
        tokenizer_spm_push_byte(detokenizer, text.bytes[0], out);
        detokenizer->begun = true;
        detokenizer->replaces_each = true;
        return buf_status(out);
    }
    tokenizer_spm_end_bytes(detokenizer, out);
    if (is_special && detokenizer->skip_special)
        return buf_status(out);
    if (kind == TOKEN_UNKNOWN)
        text = (struct span){spm->unk_surface, spm->n_unk_surface};
    else if (!is_special && tokenizer_spm_loses_blank(detokenizer, spm, spelled))
        text = (struct span){text.bytes + 1, text.n - 1};
    buf_append(out, text.bytes, text.n);
    detokenizer->begun = detokenizer->begun || out->n > n_before;
    return buf_status(out);
}

/* Unused pieces, too, decide what becomes of a text: longer ones are joined from them. */
static uint32_t tokenizer_spm_reach(const struct tokenizer *tokenizer, uint32_t begin) {
    const struct spm *spm = tokenizer->own;
    for (uint32_t id = begin; id < spm->n_pieces; id++) {
        uint8_t kind = tokenizer->vocabulary.kinds[id];
        if (kind == TOKEN_NORMAL || (kind == TOKEN_BYTE && spm->byte_fallback) ||
            (id == spm->unk_id && !spm->byte_fallback))
            return id;
    }
    return TOKEN_NONE;
}

const struct tokenizer_kind tokenizer_kind_spm = {.name = "sentencepiece",
                                                  .encode = tokenizer_spm_encode,
                                                  .close = tokenizer_spm_close_own,
                                                  .reach = tokenizer_spm_reach,
                                                  .show = tokenizer_spm_show};
