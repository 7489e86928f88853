/* base/hex.h: hexadecimal digits, of either case. Any thread. */
#pragma once

/* What the digit is worth; -1: it is none. */
static inline int hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}
