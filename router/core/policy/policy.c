#include "router/core/policy/policy.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

static const struct policy *const policies[] = {
    &policy_round_robin,
    &policy_least_load,
    &policy_two_choices,
    &policy_prefix_affinity,
};
#define N_POLICIES (sizeof policies / sizeof policies[0])

const struct policy *policy_at(uint32_t i) {
    return i < N_POLICIES ? policies[i] : NULL;
}

static bool same_name(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

const struct policy *policy_find(const char *name) {
    for (uint32_t i = 0; i < N_POLICIES; i++) {
        const struct policy *policy = policies[i];
        if (!same_name(policy->name, name))
            continue;
        ASSERT(policy->open);
        ASSERT(policy->close);
        ASSERT(policy->pick);
        return policy;
    }
    return NULL;
}

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
