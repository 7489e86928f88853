#include "router/core/roles.h"

#include "router/core/slot.h"

static uint64_t roles_waiting_tokens(const struct slot *slot) {
    return slot->load.prefill_tokens_queued + slot->tokens_unreflected;
}

/* A step as it is announced, or as steps were lately; 0: nothing is known. */
static uint64_t roles_step_us(const struct slot *slot) {
    const struct load *load = &slot->load;
    return load->step_us_expected > load->step_us_typical ? load->step_us_expected
                                                          : load->step_us_typical;
}

static double roles_us_per_token(const struct slot *slot, uint64_t us) {
    uint32_t n_tokens = slot->welcome.chunk_tokens;
    return (double)us / (n_tokens > 0 ? n_tokens : 1);
}

bool roles_prefill_here(const struct slot *from, const struct slot *to, uint32_t n_tokens) {
    uint64_t there = roles_waiting_tokens(from);
    uint64_t here = roles_waiting_tokens(to) + (uint64_t)ROLES_LOCAL_PROMPTS * n_tokens;
    uint64_t from_us = roles_step_us(from), to_us = roles_step_us(to);
    if (from_us == 0 || to_us == 0)
        return there > here;
    /* Steps there that only decode are short: with a prompt's share they are no quicker than the
     * prefill worker's. */
    to_us = to_us > from_us ? to_us : from_us;
    return (double)there * roles_us_per_token(from, from_us) >
           (double)here * roles_us_per_token(to, to_us);
}

bool roles_has_blocks(const struct slot *slot, uint32_t n_tokens) {
    const struct load *load = &slot->load;
    uint64_t per_block = slot->welcome.kv.block_tokens;
    if (load->blocks_total == 0 || per_block == 0)
        return true;
    uint64_t n_tokens_due = n_tokens + roles_waiting_tokens(slot);
    uint64_t n_due = (n_tokens_due + per_block - 1) / per_block + load->n_running;
    return n_due <= (uint64_t)load->blocks_free + load->blocks_cached;
}
