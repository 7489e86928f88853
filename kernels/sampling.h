/* kernels/sampling.h: what all backends share when they choose tokens: the constants of the order of
 * sums, and the edits of logits that touch a few ids only. Pure. */
#pragma once

#include "kernels/half.h"
#include "kernels/kernels.h"

#include <math.h>

#define SAMPLING_BLOCK  256   /* ids summed together; blocks' sums are added in order */
#define SAMPLING_GREEDY 1e-5f /* temperatures below are greedy: their weights are 0 and 1 anyway */

/* Is the choice among the best few rather than in order of id? */
EVERYWHERE bool sampling_is_filtered(const struct sample_params *params) {
    return params->top_k != 0 || params->top_p < 1.0f || params->min_p > 0.0f;
}

/* Does anything change the logits before the choice? */
EVERYWHERE bool sampling_has_edits(const struct sample_params *params) {
    return params->n_bias != 0 || params->n_allowed != 0 || params->n_seen != 0;
}

/* Takes the barred ids out of the choice: no edit brings back what is -INFINITY. */
static inline void sampling_bar(float *logits, const struct sample_params *params) {
    for (uint32_t i = 0; i < params->n_barred; i++)
        for (uint32_t id = params->barred[i].begin; id < params->barred[i].end; id++)
            logits[id] = -INFINITY;
}

/* Logit x of an id that was seen, `count` times in the output. */
EVERYWHERE float sampling_penalised(const struct sample_params *params, float x, uint32_t count) {
    x = x > 0.0f ? x / params->repetition : x * params->repetition;
    x = x - params->frequency * (float)count;
    return count > 0 ? x - params->presence : x;
}

/* Applies repetition, frequency and presence, then bias, then the allowed set. Ids at or above
 * n_vocab are ignored. allowed: scratch (n_vocab). */
static inline void sampling_edit(float *logits, uint32_t n_vocab,
                                 const struct sample_params *params, float *allowed) {
    for (uint32_t i = 0; i < params->n_seen; i++) {
        uint32_t id = params->seen_ids[i];
        if (id < n_vocab)
            logits[id] = sampling_penalised(params, logits[id], params->seen_counts[i]);
    }
    for (uint32_t i = 0; i < params->n_bias; i++)
        if (params->bias_ids[i] < n_vocab)
            logits[params->bias_ids[i]] += params->bias[i];
    if (params->n_allowed == 0)
        return;
    uint32_t n_allowed = params->n_allowed < n_vocab ? params->n_allowed : n_vocab;
    for (uint32_t i = 0; i < n_allowed; i++)
        allowed[i] = params->allowed_ids[i] < n_vocab ? logits[params->allowed_ids[i]] : -INFINITY;
    for (uint32_t id = 0; id < n_vocab; id++)
        logits[id] = -INFINITY;
    for (uint32_t i = 0; i < n_allowed; i++)
        if (params->allowed_ids[i] < n_vocab)
            logits[params->allowed_ids[i]] = allowed[i];
}
