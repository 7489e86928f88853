/* base/fingerprint.h: 32 bytes that are equal for equal content: XXH3-128 (xxHash 0.8) with the
 * seeds 0 and 1, one behind the other, as canonical bytes. Pure; one owner thread. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct fingerprint {
    void *halves[2]; /* owned: states of the two hashes */
};

/* The caller ends it with fingerprint_end(). STATUS_NOMEM. */
NODISCARD enum status fingerprint_begin(struct fingerprint *fingerprint);
void fingerprint_add(struct fingerprint *fingerprint, const void *bytes, size_t n);
/* Writes what has been added. */
void fingerprint_end(struct fingerprint *fingerprint, uint8_t out[32]);
