#include "base/utf8.h"

#include "base/assert.h"

/* Length announced by a lead byte, 0 when it cannot lead. */
static unsigned utf8_lead_length(unsigned char lead) {
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    if (lead >= 0xf0 && lead <= 0xf4)
        return 4;
    return 0;
}

/* Whether the second byte keeps the form shortest, no surrogate, and at most U+10FFFF. */
static bool utf8_second_fits(unsigned char lead, unsigned char second) {
    if ((second & 0xc0) != 0x80)
        return false;
    switch (lead) {
    case 0xe0:
        return second >= 0xa0;
    case 0xed:
        return second <= 0x9f;
    case 0xf0:
        return second >= 0x90;
    case 0xf4:
        return second <= 0x8f;
    default:
        return true;
    }
}

unsigned utf8_decode(const char *bytes, size_t n, uint32_t *point) {
    const unsigned char *at = (const unsigned char *)bytes;
    unsigned length = n > 0 ? utf8_lead_length(at[0]) : 0;
    if (length == 0 || length > n)
        return 0;
    if (length == 1) {
        *point = at[0];
        return 1;
    }
    if (!utf8_second_fits(at[0], at[1]))
        return 0;
    uint32_t value = at[0] & (0x7fu >> length);
    for (unsigned i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (at[i] & 0x3fu);
    }
    *point = value;
    return length;
}

size_t utf8_valid_prefix(const char *bytes, size_t n) {
    size_t at = 0;
    while (at < n) {
        uint32_t point;
        unsigned length = utf8_decode(bytes + at, n - at, &point);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

unsigned utf8_encode(uint32_t point, char out[4]) {
    ASSERT(point <= 0x10ffff && (point < 0xd800 || point > 0xdfff));
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

unsigned utf8_cut_tail(const char *bytes, size_t n) {
    for (unsigned back = 1; back <= 3 && back <= n; back++) {
        unsigned char lead = (unsigned char)bytes[n - back];
        unsigned length = utf8_lead_length(lead);
        if (length == 0 && (lead & 0xc0) == 0x80)
            continue; /* a following byte: look further back */
        if (length <= back)
            return 0;
        if (back >= 2 && !utf8_second_fits(lead, (unsigned char)bytes[n - back + 1]))
            return 0;
        return back;
    }
    return 0;
}
