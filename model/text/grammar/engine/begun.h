/* model/text/grammar/engine/begun.h: a character of UTF-8 that is read byte by byte (RFC 3629, section 4). Any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct begun {
    uint32_t point; /* what its bytes say so far */
    uint32_t least; /* of as many bytes */
    uint8_t n_more; /* bytes to come; 0: none is begun */
    uint8_t low;    /* the next one is low..high */
    uint8_t high;
};

static inline bool begun_is_tail(uint8_t byte) {
    return (byte & 0xc0) == 0x80;
}

/* False where no character beyond ASCII begins so. */
static inline bool begun_first(struct begun *begun, uint8_t byte) {
    if (byte < 0xc2 || byte > 0xf4)
        return false;
    uint8_t n_more = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
    *begun = (struct begun){.point = byte & (0x3fu >> n_more),
                            .least = least[n_more],
                            .n_more = n_more,
                            .low = byte == 0xe0   ? 0xa0
                                   : byte == 0xf0 ? 0x90
                                                  : 0x80,
                            .high = byte == 0xed   ? 0x9f
                                    : byte == 0xf4 ? 0x8f
                                                   : 0xbf};
    return true;
}

/* The next byte of a begun one; false where it does not go on so. */
static inline bool begun_next(struct begun *begun, uint8_t byte) {
    if (begun->n_more == 0 || byte < begun->low || byte > begun->high)
        return false;
    begun->point = begun->point << 6 | (byte & 0x3f);
    begun->n_more--;
    begun->low = 0x80;
    begun->high = 0xbf;
    return true;
}
