/* base/checked.h: arithmetic on sizes that come from outside. Each answers false on overflow and
 * then leaves the result untouched, so that a parser can refuse instead of wrapping around. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum) {
    uint64_t result;
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *sum = result;
    return true;
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *product) {
    uint64_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *product = result;
    return true;
}

/* Is [offset, offset + n) inside [0, size)? */
static inline bool checked_range(uint64_t offset, uint64_t n, uint64_t size) {
    return offset <= size && n <= size - offset;
}
