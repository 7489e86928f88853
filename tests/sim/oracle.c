#include "tests/sim/oracle.h"

#include "base/random.h"

uint64_t oracle_start(uint32_t salt, uint32_t variant) {
    return salt == 0 && variant == 0 ? 0 : mix64((uint64_t)salt << 32 | variant);
}

void oracle_push(struct oracle *oracle, uint32_t token) {
    oracle->entry = oracle_entry(oracle->entry, token);
    oracle->fold = mix64(oracle->fold ^ oracle->entry);
    oracle->n++;
}

static bool is_stop(const struct sampling *sampling, uint32_t id) {
    for (uint32_t i = 0; i < sampling->n_stop_ids; i++) {
        if (sampling->stop_ids[i] == id)
            return true;
    }
    return false;
}

uint32_t oracle_choose(uint64_t fold, uint32_t numerics, const struct sampling *sampling,
                       uint32_t index, bool banned, const struct form *form) {
    uint64_t state = numerics == 0 ? fold : mix64(fold + numerics);
    if (sampling->temperature > 0)
        state ^= random_at(sampling->seed, sampling->choice, index);
    uint32_t at = (uint32_t)(state % 65280);
    while ((banned && is_stop(sampling, 256 + at)) || (form && !form_allows(form, 256 + at)))
        at = (at + 1) % 65280; /* the next best */
    return 256 + at;
}

float oracle_logprob(uint32_t token) {
    return -(float)(token % 97) / 8;
}
