/* model/text/tokenizer/bpe/alphabet.h: the printable alphabet in which GPT-2's vocabulary spells
 * bytes.
 *
 * Source: bytes_to_unicode() of openai/gpt-2 encoder.py: the bytes '!'..'~', 0xa1..0xac and
 * 0xae..0xff stand for the character of their own number; the other 68, in ascending order, for
 * U+0100, U+0101, ... Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The byte that a character of the alphabet stands for, -1 when it is not in the alphabet. */
int alphabet_byte(uint32_t point);

/* Turns text (n) in the alphabet into bytes; out has room for n. False when a character is not in
 * the alphabet or the text is not UTF-8; out is then undefined. */
bool alphabet_decode(const char *text, size_t n, char *out, size_t *n_out);

struct buf;

/* Appends bytes (n) spelled in the alphabet. */
void alphabet_encode(const char *bytes, size_t n, struct buf *out);
