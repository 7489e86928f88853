#include "model/text/tokenizer/detokenize.h"

#include "base/utf8.h"

#include <string.h>

_Static_assert(sizeof(struct detokenizer) <= 64, "kept once per stream");

static const char replacement[] = "\xef\xbf\xbd";

/* How many bytes at the front, where no valid character begins, one U+FFFD stands for. */
static size_t detokenize_bad_length(const char *bytes, size_t n) {
    for (unsigned length = 3; length > 1; length--)
        if (length <= n && utf8_cut_tail(bytes, length) == length)
            return length;
    return 1;
}

/* Writes whole characters and replacements, for `each` bad byte one; returns where a cut character
 * at the end begins. */
static size_t detokenize_write_text(const char *bytes, size_t n, bool each, struct buf *out) {
    size_t at = 0;
    while (at < n) {
        size_t n_valid = utf8_valid_prefix(bytes + at, n - at);
        buf_append(out, bytes + at, n_valid);
        at += n_valid;
        if (at == n)
            break;
        size_t n_bad = detokenize_bad_length(bytes + at, n - at);
        /* Bytes that reach the end and could go on wait for the next token. */
        if (at + n_bad == n && utf8_cut_tail(bytes + at, n_bad) == n_bad)
            break;
        for (size_t i = 0; i < (each ? n_bad : 1); i++)
            buf_puts(out, replacement);
        at += n_bad;
    }
    return at;
}

/* The first token without any of the characters that stand for blanks, as Metaspace decoders show
 * it. */
static struct span detokenize_bare_token(const struct tokenizer *tokenizer, uint32_t id,
                                         char bytes[VOCABULARY_BYTES_MAX]) {
    const struct tokenizer_head *head = &tokenizer->head;
    struct span spelled = vocabulary_bytes(&tokenizer->vocabulary, id);
    size_t n = 0;
    if (!head->is_bare || !memmem(spelled.bytes, spelled.n, head->strip, head->n_strip))
        return tokenizer_bytes(tokenizer, id);
    for (size_t at = 0; at < spelled.n;) {
        if (spelled.n - at >= head->n_strip &&
            memcmp(spelled.bytes + at, head->strip, head->n_strip) == 0)
            at += head->n_strip;
        else
            bytes[n++] = spelled.bytes[at++];
    }
    return (struct span){bytes, n};
}

/* Takes from the front what the head says; across tokens, since the first ones may be
 * all blanks. */
static struct span detokenize_strip_front(struct detokenizer *detokenizer,
                                          const struct tokenizer_head *head, struct span token) {
    while (!detokenizer->is_past_head && token.n > 0) {
        bool stands = !head->is_bare && detokenizer->n_stripped < head->n_times &&
                      detokenizer->n_held == 0 && token.n >= head->n_strip &&
                      memcmp(token.bytes, head->strip, head->n_strip) == 0;
        if (!stands) {
            detokenizer->is_past_head = true;
            break;
        }
        token.bytes += head->n_strip;
        token.n -= head->n_strip;
        detokenizer->n_stripped++;
    }
    return token;
}

enum status detokenizer_push(struct detokenizer *detokenizer, const struct tokenizer *tokenizer,
                             uint32_t id, struct buf *out) {
    char bare[VOCABULARY_BYTES_MAX];
    char bytes[sizeof detokenizer->held + VOCABULARY_BYTES_MAX];
    if (id >= tokenizer_n_tokens(tokenizer))
        return STATUS_INVALID;
    if (tokenizer->kind->show)
        return tokenizer->kind->show(detokenizer, tokenizer, id, out);
    if (detokenizer->skip_special && tokenizer_is_special(tokenizer, id))
        return STATUS_OK;
    struct span token = detokenizer->begun ? tokenizer_bytes(tokenizer, id)
                                           : detokenize_bare_token(tokenizer, id, bare);
    detokenizer->begun = true;
    token = detokenize_strip_front(detokenizer, &tokenizer->head, token);
    size_t n = detokenizer->n_held;
    memcpy(bytes, detokenizer->held, n);
    if (token.n > 0)
        memcpy(bytes + n, token.bytes, token.n);
    n += token.n;
    detokenizer->replaces_each = tokenizer->head.replaces_each;
    size_t at = detokenize_write_text(bytes, n, detokenizer->replaces_each, out);
    detokenizer->n_held = (uint8_t)(n - at);
    memcpy(detokenizer->held, bytes + at, n - at);
    return buf_status(out);
}

enum status detokenizer_flush(struct detokenizer *detokenizer, struct buf *out) {
    unsigned n = detokenizer->replaces_each ? detokenizer->n_held : detokenizer->n_held > 0;
    while (n-- > 0)
        buf_puts(out, replacement);
    detokenizer->n_held = 0;
    return buf_status(out);
}
