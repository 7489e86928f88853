/* tests/unit/worker/core/pair.h: a rig of two workers that hand over, P prefills and D decodes:
 * what the hand-over's two test programs share. */
#pragma once

#include "tests/unit/worker/core/rig.h"

#define P 0
#define D 1

struct rig *pair_new(uint64_t seed, uint32_t credits);

/* Reserved at D and submitted to both. */
struct call *pair_hand_over(struct rig *rig, uint32_t n_prompt, uint32_t max_new);

const struct kv_pool *pair_pool(const struct rig *rig, uint32_t w);

/* Every ledger holds, and nothing is held for anybody. */
void pair_expect_quiet(struct rig *rig);
