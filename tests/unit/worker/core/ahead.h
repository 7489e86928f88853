/* tests/unit/worker/core/ahead.h: a rig of one worker whose steps go ahead: what its two test programs
 * share. */
#pragma once

#include "tests/unit/worker/core/rig.h"

struct rig *ahead_rig(struct engine_config config);

/* A call whose prompt is computed, with its first token. */
struct call *ahead_decoding(struct rig *rig, uint32_t n_prompt, uint32_t max_new);

const struct sequence *ahead_sequence(const struct rig *rig, const struct call *call);
uint32_t ahead_n_used(const struct rig *rig); /* blocks */

/* engine_repeat() answers this, and every ledger holds. */
void ahead_expect(struct rig *rig, enum repeat repeat);

/* Nothing is held any more, and tokens that nobody wants were computed `n_dropped` times. */
void ahead_over(struct rig *rig, uint64_t n_dropped);
