/* least_load: the worker with the fewest sequences. */
#include "router/core/policy/policy.h"

#include <stddef.h>

static enum status nothing_open(uint32_t max_workers, uint64_t seed, void **state) {
    (void)max_workers;
    (void)seed;
    *state = NULL;
    return STATUS_OK;
}

static void nothing_close(void *state) {
    (void)state;
}

static uint32_t least_pick(void *state, const struct policy_query *query) {
    (void)state;
    return policy_least(query);
}

const struct policy policy_least_load = {
    .name = "least_load",
    .open = nothing_open,
    .close = nothing_close,
    .pick = least_pick,
};
