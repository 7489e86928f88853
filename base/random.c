#include "base/random.h"

#include "base/assert.h"

#include <sys/random.h>

uint64_t random_seed(void) {
    uint64_t bits = 0;
    ASSERT(getrandom(&bits, sizeof bits, 0) == (long)sizeof bits);
    return bits;
}
