/* round_robin: the next slot after the last one chosen, at any load. */
#include "router/core/policy/policy.h"

#include <stdlib.h>

struct round_robin {
    uint32_t next[2]; /* per stage: the first slot to look at */
};

static enum status round_robin_open(uint32_t max_workers, uint64_t seed, void **state) {
    (void)max_workers;
    (void)seed;
    *state = calloc(1, sizeof(struct round_robin));
    return *state ? STATUS_OK : STATUS_NOMEM;
}

static uint32_t round_robin_pick(void *state, const struct policy_query *query) {
    struct round_robin *turns = state;
    uint32_t *next = &turns->next[query->stage];
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < query->n; i++) {
        if (query->candidates[i].slot >= *next) {
            chosen = i;
            break;
        }
    }
    *next = query->candidates[chosen].slot + 1;
    return chosen;
}

const struct policy policy_round_robin = {
    .name = "round_robin",
    .open = round_robin_open,
    .close = free,
    .pick = round_robin_pick,
};
