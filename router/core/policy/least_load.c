/* least_load: the worker with the fewest sequences. */
#include "router/core/policy/policy.h"

static uint32_t policy_least_pick(void *state, const struct policy_query *query) {
    (void)state;
    return policy_least(query);
}

const struct policy policy_least_load = {
    .name = "least_load",
    .pick = policy_least_pick,
};
