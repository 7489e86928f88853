/* tests/support/tiny_gguf.h: a tiny llama with random weights as a GGUF file in memory: two layers,
 * three query heads on one key/value head, sizes that are not powers of two; or one that can be cut
 * for several ranks: eight query heads on two, and an inner width of thirteen groups; or one that
 * can be cut too but has heads of ten and widths that fill no groups. The same seed gives the same
 * bytes everywhere. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct tiny_gguf {
    const char *format; /* of the matrices: "f32" "f16" "bf16" "q4_0" "q4_1" "q8_0" */
    uint64_t seed;
    bool tied_head;
    bool wide;             /* the one for several ranks */
    bool odd;              /* the one of odd sizes: "f32", "f16" and "bf16" alone */
    bool large_heads;      /* the one with heads of 64, which attention on tensor cores takes */
    uint32_t context;      /* 0: 512 */
    const char *without;   /* a tensor that is left out, or NULL */
    const char *one_short; /* a tensor that has a row less than it should, or NULL */
};

#define TINY_N_VOCAB 259u /* the 256 bytes and three special tokens */

/* Appends the file. Aborts on an unknown format or when memory is short. */
void tiny_gguf_write(struct buf *file, const struct tiny_gguf *tiny);

struct model;

/* Opens it as a model, from a file that is gone again. Aborts the test on failure; the caller
 * closes it. In tiny_gguf_open.c. */
struct model *tiny_gguf_open(const struct tiny_gguf *tiny);
