#include "model/text/tokenizer/bpe/alphabet.h"

#include "base/buf.h"
#include "base/utf8.h"

/* The bytes without a printable character of their own, as three runs. */
int alphabet_byte(uint32_t point) {
    if ((point >= 0x21 && point <= 0x7e) || (point >= 0xa1 && point <= 0xac) ||
        (point >= 0xae && point <= 0xff))
        return (int)point;
    if (point < 0x100 || point > 0x143)
        return -1;
    uint32_t nth = point - 0x100;
    if (nth < 0x21)
        return (int)nth; /* 0x00..0x20 */
    if (nth < 0x21 + 0x22)
        return (int)(nth - 0x21 + 0x7f); /* 0x7f..0xa0 */
    return 0xad;
}

bool alphabet_decode(const char *text, size_t n, char *out, size_t *n_out) {
    size_t written = 0;
    for (size_t at = 0; at < n;) {
        uint32_t point = 0;
        unsigned length = utf8_decode(text + at, n - at, &point);
        int byte = length > 0 ? alphabet_byte(point) : -1;
        if (byte < 0)
            return false;
        out[written++] = (char)byte;
        at += length;
    }
    *n_out = written;
    return true;
}

static uint32_t alphabet_point(uint8_t byte) {
    if (alphabet_byte(byte) >= 0)
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xad ? 0x143 : 0x100u + 0x21 + (byte - 0x7fu);
}

void alphabet_encode(const char *bytes, size_t n, struct buf *out) {
    for (size_t i = 0; i < n; i++) {
        char text[4];
        buf_append(out, text, utf8_encode(alphabet_point((uint8_t)bytes[i]), text));
    }
}
