/* tests/sim/oracle.h: what the `hash` model (tokenizer_open_hash()) must answer, and the twists by
 * which a wrong tenant, variant, generator or kind of numerics shows in the tokens. Pure. */
#pragma once

#include "base/random.h"
#include "proto/message.h"
#include "tests/sim/form.h"

#include <stdbool.h>
#include <stdint.h>

/* The model's state after some tokens. */
struct oracle {
    uint64_t entry; /* KV entry of the last token */
    uint64_t fold;  /* of all entries */
    uint32_t n;
};

/* What stands before the first token: tenants (salt) and variants have KV of their own. */
uint64_t oracle_start(uint32_t salt, uint32_t variant);

/* The KV entry of a token behind one whose entry is `previous`. */
static inline uint64_t oracle_entry(uint64_t previous, uint32_t token) {
    return mix64(previous ^ (token + 1));
}

void oracle_push(struct oracle *oracle, uint32_t token);

/* The token that a worker of this numerics class chooses as output number `index`, when all entries
 * fold to `fold`. `banned`: stop ids may not come. `form`: NULL, or what may. */
uint32_t oracle_choose(uint64_t fold, uint32_t numerics, const struct sampling *sampling,
                       uint32_t index, bool banned, const struct form *form);

float oracle_logprob(uint32_t token); /* what the simulated model says of a token */
