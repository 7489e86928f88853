/* tools/bench/rows/prompt_first.h: the scheduler of the published systems, as far as their tables show it: vLLM 0.2
 * (vllm/core/scheduler.py of v0.2.7).
 *
 * A step computes whole prompts while any can be admitted, else one token of every running sequence. The oldest goes
 * first; a sequence without a block is put back and computed again. Pure; one owner thread. */
#pragma once

#include "base/status.h"
#include "worker/device/roofline.h"

struct prompt_first_spec {
    const struct roofline *roofline; /* borrowed */
    double kv_tokens;
    uint32_t max_seqs;       /* 256 */
    uint32_t prefill_tokens; /* of a step's prompts, but for one longer prompt */
    bool pads;               /* to the longest prompt of the step */
    double until_s;          /* 0: to the end of all */
};

/* A request: what comes in, and what became of it. */
struct prompt_first_request {
    double at_s;
    uint32_t n_input, n_output;
    double first_s, end_s; /* 0: not yet */
};

struct prompt_first_result {
    double us[ROOFLINE_TERMS]; /* what the steps' time went to */
    uint64_t n_preempted;
};

/* Requests (n) in the order of their coming. STATUS_NOMEM; STATUS_LIMIT: a request that the KV cache never holds. */
NODISCARD enum status prompt_first_run(const struct prompt_first_spec *spec,
                                       struct prompt_first_request *requests, uint32_t n,
                                       struct prompt_first_result *result);
