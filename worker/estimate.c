#include "worker/estimate.h"

#include "base/assert.h"

static unsigned class_of(uint32_t n_tokens) {
    unsigned class = 31 - (unsigned)__builtin_clz(n_tokens | 1);
    return class < ESTIMATE_CLASSES ? class : ESTIMATE_CLASSES - 1;
}

uint32_t estimate_us(const struct estimate *estimate, uint32_t n_tokens) {
    unsigned class = class_of(n_tokens);
    double us = 0;
    /* A step of twice the tokens takes at most twice the time: that bounds classes that were never
     * seen, and those whose last steps were slow for reasons that are over. */
    for (unsigned c = 0; c <= class; c++) {
        double own = estimate->us[c];
        us = us > 0 && (own <= 0 || own > 2 * us) ? 2 * us : own;
    }
    for (unsigned above = class + 1; us <= 0 && above < ESTIMATE_CLASSES; above++)
        us = estimate->us[above];
    if (us < 1)
        return 1;
    return us > 3600e6 ? 3600000000u : (uint32_t)us;
}

void estimate_learn(struct estimate *estimate, uint32_t n_tokens, uint64_t us) {
    ASSERT(n_tokens > 0);
    double *mean = &estimate->us[class_of(n_tokens)];
    double new = us > 0 ? (double)us : 1;
    *mean = *mean > 0 ? *mean + (new - *mean) / 8 : new;
}

uint32_t estimate_tokens(const struct estimate *estimate, uint32_t most, uint32_t us) {
    uint32_t best = 16;
    for (uint32_t n = 16; n <= most; n += 16) {
        /* Within a class time grows with the tokens: the mean stands for its middle. */
        unsigned class = class_of(n);
        double scale = (double)n / (1.5 * (double)(1u << class));
        if ((double)estimate_us(estimate, n) * scale > (double)us)
            break;
        best = n;
    }
    return best < most ? best : most;
}
