#include "base/fingerprint.h"

#include <string.h>
#include <xxhash.h>

enum status fingerprint_begin(struct fingerprint *fingerprint) {
    for (unsigned i = 0; i < 2; i++)
        fingerprint->halves[i] = XXH3_createState();
    if (!fingerprint->halves[0] || !fingerprint->halves[1]) {
        XXH3_freeState(fingerprint->halves[0]);
        XXH3_freeState(fingerprint->halves[1]);
        return STATUS_NOMEM;
    }
    for (unsigned i = 0; i < 2; i++)
        XXH3_128bits_reset_withSeed(fingerprint->halves[i], i);
    return STATUS_OK;
}

void fingerprint_add(struct fingerprint *fingerprint, const void *bytes, size_t n) {
    for (unsigned i = 0; i < 2 && n > 0; i++)
        XXH3_128bits_update(fingerprint->halves[i], bytes, n);
}

void fingerprint_end(struct fingerprint *fingerprint, uint8_t out[32]) {
    for (unsigned i = 0; i < 2; i++) {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(fingerprint->halves[i]));
        memcpy(out + (size_t)16 * i, canonical.digest, sizeof canonical.digest);
        XXH3_freeState(fingerprint->halves[i]);
    }
}
