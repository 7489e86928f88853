#include "tests/sim/sights.h"

#define SIGHT_TEXT(name, text) text,
static const char *const texts[SIGHT_COUNT] = {SIGHTS(SIGHT_TEXT)};
#undef SIGHT_TEXT

const char *sight_text(enum sight sight) {
    return texts[sight];
}

void sights_add(struct sights *sum, const struct sights *sights) {
    for (uint32_t i = 0; i < SIGHT_COUNT; i++)
        sum->times[i] += sights->times[i];
}

uint32_t sights_print(const struct sights *sights, bool has_tenants, FILE *file) {
    uint32_t n_missing = 0;
    for (uint32_t i = 0; i < SIGHT_COUNT; i++) {
        if (sights->times[i] > 0)
            fprintf(file, "  %10llu  %s\n", (unsigned long long)sights->times[i], texts[i]);
    }
    for (uint32_t i = 0; i < (has_tenants ? SIGHT_COUNT : SIGHT_OF_TENANTS); i++) {
        if (sights->times[i] > 0)
            continue;
        n_missing++;
        fprintf(file, "   never seen: %s\n", texts[i]);
    }
    return n_missing;
}
