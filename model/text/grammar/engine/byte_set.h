/* model/text/grammar/engine/byte_set.h: a set of bytes in four words: bit b % 64 of word b / 64 is byte b.
 * Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline bool byte_set_has(const uint64_t set[4], uint8_t byte) {
    return (set[byte / 64] >> byte % 64 & 1) != 0;
}

static inline void byte_set_add(uint64_t set[4], uint8_t byte) {
    set[byte / 64] |= UINT64_C(1) << byte % 64;
}

/* Whether a byte is in both. */
static inline bool byte_set_meets(const uint64_t a[4], const uint64_t b[4]) {
    return ((a[0] & b[0]) | (a[1] & b[1]) | (a[2] & b[2]) | (a[3] & b[3])) != 0;
}

/* Whether all of b are in a: of ASCII, two words each. */
static inline bool ascii_covers(const uint64_t a[2], const uint64_t b[2]) {
    return ((b[0] & ~a[0]) | (b[1] & ~a[1])) == 0;
}
