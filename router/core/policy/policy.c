#include "router/core/policy/policy.h"

#include "base/assert.h"

#include <stddef.h>
#include <string.h>

extern const struct policy policy_round_robin;
extern const struct policy policy_least_load;
extern const struct policy policy_two_choices;
extern const struct policy policy_prefix_affinity;

const struct policy *const policy_table[] = {
    &policy_round_robin, &policy_least_load, &policy_two_choices, &policy_prefix_affinity, NULL,
};

const struct policy *policy_find(const char *name) {
    for (uint32_t i = 0; policy_table[i]; i++) {
        const struct policy *policy = policy_table[i];
        if (strcmp(policy->name, name) != 0)
            continue;
        ASSERT(!policy->open == !policy->close);
        ASSERT(policy->pick);
        return policy;
    }
    return NULL;
}
