/* The choice that several policies fall back on. */
#include "router/core/policy/policy.h"

uint32_t policy_least(const struct policy_query *query) {
    uint32_t best = 0, n_equal = 1;
    for (uint32_t i = 1; i < query->n; i++) {
        uint32_t load = query->candidates[i].load;
        if (load < query->candidates[best].load) {
            best = i;
            n_equal = 1;
        } else if (load == query->candidates[best].load &&
                   random_below(query->random, ++n_equal) == 0) {
            best = i;
        }
    }
    return best;
}
