#include "tools/cli/chat/wrap.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

/* Bytes of the character that begins with this one. Bytes that are no UTF-8 count one each. */
static size_t chat_wrap_length_of(unsigned char first) {
    if (first < 0xc0 || first >= 0xf8)
        return 1;
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

/* Columns of the character that begins here, and how many of the n bytes it has. */
static unsigned chat_wrap_columns_of(const char *at, size_t n, size_t *n_bytes) {
    unsigned char first = (unsigned char)at[0];
    size_t length = chat_wrap_length_of(first);
    uint32_t code = length == 1 ? first : first & (0x7fu >> length);
    *n_bytes = length <= n ? length : n;
    for (size_t i = 1; i < *n_bytes; i++)
        code = (code << 6) | ((unsigned char)at[i] & 0x3fu);
    int width = wcwidth((wchar_t)code);
    return width >= 0 ? (unsigned)width : 1;
}

static unsigned chat_wrap_width_of(const char *word, size_t n) {
    unsigned width = 0;
    for (size_t at = 0, length; at < n; at += length)
        width += chat_wrap_columns_of(word + at, n - at, &length);
    return width;
}

/* The word that has ended, on this line or the next, behind its blanks. */
static void chat_wrap_put_word(struct wrap *wrap, struct buf *out) {
    unsigned width = chat_wrap_width_of(wrap->word, wrap->n_word);
    bool breaks = wrap->width > 0 && wrap->column > 0 && wrap->blanks > 0 &&
                  wrap->column + wrap->blanks + width > wrap->width;
    if (breaks) {
        buf_putc(out, '\n');
        wrap->column = 0;
        wrap->blanks = 0;
    }
    for (; wrap->blanks > 0; wrap->blanks--, wrap->column++)
        buf_putc(out, ' ');
    buf_append(out, wrap->word, wrap->n_word);
    wrap->column += width;
    wrap->n_word = 0;
}

/* Has the last character of these bytes all of its own? */
static bool chat_wrap_is_whole(const char *text, size_t n) {
    size_t at = 0;
    while (at < n)
        at += chat_wrap_length_of((unsigned char)text[at]);
    return at == n;
}

/* A word is held while it may have to go to the next line; once it is begun, the rest follows as it comes. */
static void chat_wrap_take_byte(struct wrap *wrap, char byte, struct buf *out) {
    wrap->word[wrap->n_word++] = byte;
    if (!chat_wrap_is_whole(wrap->word, wrap->n_word) && wrap->n_word < sizeof wrap->word)
        return;
    unsigned width = chat_wrap_width_of(wrap->word, wrap->n_word);
    if (wrap->is_begun) {
        buf_append(out, wrap->word, wrap->n_word);
        wrap->column += width;
        wrap->n_word = 0;
        return;
    }
    if (wrap->column > 0 && wrap->column + wrap->blanks + width <= wrap->width &&
        wrap->n_word < sizeof wrap->word)
        return;
    chat_wrap_put_word(wrap, out);
    wrap->is_begun = true;
}

void wrap_feed(struct wrap *wrap, const char *text, size_t n, struct buf *out) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ' && text[i] != '\n') {
            chat_wrap_take_byte(wrap, text[i], out);
            continue;
        }
        if (wrap->n_word > 0)
            chat_wrap_put_word(wrap, out);
        wrap->is_begun = false;
        if (wrap->width > 0 && wrap->column > wrap->width) /* the terminal has broken it */
            wrap->column = (wrap->column - 1) % wrap->width + 1;
        if (text[i] == ' ') {
            wrap->blanks++;
            continue;
        }
        buf_putc(out, '\n');
        wrap->column = wrap->blanks = 0;
    }
}

void wrap_end(struct wrap *wrap, struct buf *out) {
    if (wrap->n_word > 0)
        chat_wrap_put_word(wrap, out);
    *wrap = (struct wrap){.width = wrap->width};
}
