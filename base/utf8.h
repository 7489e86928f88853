/* base/utf8.h: strict UTF-8 (RFC 3629: no overlong forms, no surrogates, at most
 * U+10FFFF). Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the longest valid prefix that ends at a character's end. */
size_t utf8_valid_prefix(const char *bytes, size_t n);

static inline bool utf8_valid(const char *bytes, size_t n) {
    return utf8_valid_prefix(bytes, n) == n;
}

/* Whether a byte of valid text continues a character. */
static inline bool utf8_is_tail(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Decodes the character at bytes[0..n), n > 0, into *point and returns its length in bytes;
 * 0 when it is not valid UTF-8 or cut short. */
unsigned utf8_decode(const char *bytes, size_t n, uint32_t *point);

/* Writes the character into out (4 bytes) and returns its length. `point` is a valid
 * scalar value. */
unsigned utf8_encode(uint32_t point, char out[4]);

/* How many bytes at the end of bytes[0..n) begin a character that is cut short but could still
 * become valid: 0 to 3. */
unsigned utf8_cut_tail(const char *bytes, size_t n);
