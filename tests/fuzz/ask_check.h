/* tests/fuzz/ask_check.h: what later stages rely on in an ask that a dialect has accepted. */
#pragma once

#include "base/assert.h"
#include "router/api/dialect.h"

static inline void ask_check(const struct ask *ask) {
    ASSERT(ask->n_prompts > 0 && ask->n_prompts <= ASK_PROMPTS_MAX);
    ASSERT(ask->n_choices > 0 && ask->n_choices * ask->n_prompts <= ASK_SEQUENCES_MAX);
    ASSERT(ask->n_stops <= ASK_STOPS_MAX);
    for (uint32_t i = 0; i < ask->n_stops; i++)
        ASSERT(ask->stops[i].n > 0 && ask->stops[i].n <= ASK_STOP_BYTES_MAX);
    ASSERT(ask->sampling.n_top <= MESSAGE_TOP_MAX && ask->sampling.n_bias <= MESSAGE_BIAS_MAX);
    ASSERT(ask->sampling.temperature >= 0 && ask->sampling.top_p >= 0);
    ASSERT(!ask->is_chat || ask->chat.input.n_messages > 0);
    for (uint32_t i = 0; i < ask->n_prompts; i++)
        ASSERT(ask->is_chat || ask->prompts[i].is_ids || ask->prompts[i].text.n > 0);
}
