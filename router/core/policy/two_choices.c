/* two_choices: the less loaded of two drawn at random (Mitzenmacher 2001): nearly as even as the
 * least loaded of all, without several routers herding onto the same worker between two reports. */
#include "router/core/policy/policy.h"

static uint32_t policy_two_pick(void *state, const struct policy_query *query) {
    (void)state;
    if (query->n == 1)
        return 0;
    uint32_t a = (uint32_t)random_below(query->random, query->n);
    uint32_t b = (uint32_t)random_below(query->random, query->n - 1);
    if (b >= a)
        b++;
    return query->candidates[b].load < query->candidates[a].load ? b : a;
}

const struct policy policy_two_choices = {
    .name = "two_choices",
    .pick = policy_two_pick,
};
