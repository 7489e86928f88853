/* How SentencePiece normalizes (normalizer.cc): user-defined pieces stay as they are, the longest
 * rule of the table replaces, everything else stays; blanks are squeezed and spelled U+2581. */
#include "model/text/tokenizer/spm/spm_call.h"

#include <string.h>

/* What the text's first bytes become, and how many they are. */
static struct span spm_next_part(const struct spm *spm, struct span text, size_t *length) {
    struct span part;
    if (trie_match(&spm->own, text.bytes, text.n, NULL, NULL, length) != TRIE_NONE)
        return (struct span){text.bytes, *length};
    *length = spm_charsmap_match(&spm->charsmap, text, &part);
    if (*length > 0)
        return part;
    *length = spm_char_length(text.bytes, text.n); /* the text is valid UTF-8 */
    return (struct span){text.bytes, *length};
}

static void spm_put_blank(const struct spm *spm, struct buf *out) {
    buf_puts(out, spm->escapes ? SPM_BLANK : " ");
}

static void spm_put_part(const struct spm *spm, struct span part, struct buf *out) {
    while (part.n > 0) {
        const char *blank = spm->escapes ? memchr(part.bytes, ' ', part.n) : NULL;
        size_t n = blank ? (size_t)(blank - part.bytes) : part.n;
        buf_append(out, part.bytes, n);
        if (blank)
            spm_put_blank(spm, out);
        n += blank ? 1 : 0;
        part.bytes += n;
        part.n -= n;
    }
}

static void spm_drop_blanks_behind(const struct spm *spm, struct buf *out) {
    const char *blank = spm->escapes ? SPM_BLANK : " ";
    size_t n = strlen(blank);
    while (out->n >= n && memcmp(out->data + out->n - n, blank, n) == 0)
        out->n -= n;
}

enum status spm_normalize(const struct spm *spm, struct spm_scratch *scratch, struct span text,
                          bool prefix) {
    struct buf *out = &scratch->text;
    bool after_blank = spm->squeezes;
    size_t length = 0;
    buf_clear(out);
    while (spm->squeezes && text.n > 0 && span_is(spm_next_part(spm, text, &length), " ")) {
        text.bytes += length;
        text.n -= length;
    }
    if (text.n == 0)
        return STATUS_OK;
    if (prefix && !spm->suffix)
        spm_put_blank(spm, out);
    while (text.n > 0 && !out->failed) {
        struct span part = spm_next_part(spm, text, &length);
        while (after_blank && part.n > 0 && part.bytes[0] == ' ') {
            part.bytes++;
            part.n--;
        }
        if (part.n > 0) {
            spm_put_part(spm, part, out);
            after_blank = spm->squeezes && part.bytes[part.n - 1] == ' ';
        }
        text.bytes += length;
        text.n -= length;
    }
    if (spm->squeezes)
        spm_drop_blanks_behind(spm, out);
    if (prefix && spm->suffix)
        spm_put_blank(spm, out);
    return buf_status(out);
}
