/* kernels/sampling.h: how a row's next token is chosen: the parameters, the result, and what all
 * backends share: the constants of the order of sums, the edits of logits that touch a few ids only,
 * and the rule which tokens are kept. Pure. */
#pragma once

#include "base/interval.h"
#include "kernels/half.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define SAMPLE_TOP_MAX 20 /* logprobs of the best tokens beside the sampled one */

/* How one row's next token is chosen. Bias, penalties and bans come as edits of logits. */
struct sample_params {
    float temperature; /* 0: greedy (the lowest id among equals) */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint32_t top_k;    /* 0: off */
    float uniform;     /* in [0, 1): drawn by the caller from (seed, choice, position) */
    float presence;    /* subtracted from tokens generated so far */
    float frequency;   /* subtracted per occurrence among the generated */
    float repetition;  /* 1: off; divides positive, multiplies negative logits of seen tokens */
    uint32_t n_seen;   /* length of the two arrays below */
    const uint32_t *seen_ids;    /* borrowed: distinct ids in prompt or output */
    const uint32_t *seen_counts; /* borrowed: occurrences in the output (0: in the prompt only) */
    uint32_t n_bias;
    const uint32_t *bias_ids;    /* borrowed, distinct */
    const float *bias;           /* borrowed: added to the logit; -INFINITY bans the token */
    uint32_t n_allowed;          /* 0: all; else only these may be chosen */
    const uint32_t *allowed_ids; /* borrowed, distinct */
    const uint32_t
        *allowed_bits; /* NULL: all; else only ids whose bit is set may be chosen, as well:
                                     borrowed (sampling_bit_words(n_vocab)), bit id % 32 of word id / 32 */
    uint32_t n_barred; /* ids that are never chosen and never among the best, whatever */
    const struct interval *barred; /* the above says; borrowed, ascending, below n_vocab */
    uint32_t n_top;                /* logprobs wanted: best n_top tokens, 0..SAMPLE_TOP_MAX */
    bool want_logprob;
};

/* Logprobs are the log-softmax of the model's own logits, before everything above: barred ids count
 * in it. */
struct sample_result {
    uint32_t id;
    float logprob;                    /* of id */
    uint32_t n_top;                   /* n_top of the params, or as many as have a probability */
    uint32_t top_ids[SAMPLE_TOP_MAX]; /* best first, lower id first among equals */
    float top_logprobs[SAMPLE_TOP_MAX];
    bool valid; /* false: there is no token to choose */
    /* Not valid, though the row's own logits are numbers: the params left no token. Any other row that is not
     * valid is the model's fault, or the device's. */
    bool emptied;
};

#define SAMPLING_BLOCK  256   /* ids summed together; blocks' sums are added in order */
#define SAMPLING_GREEDY 1e-5f /* temperatures below are greedy: their weights are 0 and 1 anyway */

/* Is the choice among the best few rather than in order of id? */
EVERYWHERE bool sampling_is_filtered(const struct sample_params *params) {
    return params->top_k != 0 || params->top_p < 1.0f || params->min_p > 0.0f;
}

/* Which of the best tokens are kept. A weight is the token's probability over the best one's; `total`
 * is the sum of the weights of all, or of the best top_k, and may be 0 where sampling_wants_total() is false. */

EVERYWHERE bool sampling_wants_total(const struct sample_params *params) {
    return params->top_p < 1.0f;
}

/* Beside the best, no token is kept whose weight is below this. */
EVERYWHERE float sampling_least(const struct sample_params *params, double total) {
    (void)total;
    return params->min_p;
}

/* Does top_k leave tokens out? */
EVERYWHERE bool sampling_is_limited(const struct sample_params *params, uint32_t n_vocab) {
    return params->top_k != 0 && params->top_k < n_vocab;
}

/* No weight below this matters to the choice. The best one's is 1, smaller ones than FLT_MIN were
 * flushed to zero. */
EVERYWHERE float sampling_floor(const struct sample_params *params, uint32_t n_vocab,
                                double total) {
    float least = sampling_least(params, total);
    if (sampling_is_limited(params, n_vocab) && sampling_wants_total(params))
        least = 0.0f; /* all of top_k join the total */
    least = least < 1.0f ? least : 1.0f;
    return least > FLT_MIN ? least : FLT_MIN;
}

/* No further token is kept when the weights of those kept have this sum. */
EVERYWHERE double sampling_enough(const struct sample_params *params, double total) {
    return params->top_p < 1.0f ? (double)params->top_p * total : (double)INFINITY;
}

/* Is the next best token kept, whose weight is p? Of those before it n were kept, with the sum
 * `mass`. */
static inline bool sampling_keeps(const struct sample_params *params, uint32_t n, double mass,
                                  double total, float p) {
    if (n == 0)
        return true;
    return p >= sampling_least(params, total) && !(mass >= sampling_enough(params, total));
}

/* Do the ids that were seen matter? Their arrays may be empty otherwise. */
static inline bool sampling_wants_seen(const struct sample_params *params) {
    return params->presence != 0.0f || params->frequency != 0.0f || params->repetition != 1.0f;
}

/* Does sampling_edit() change the logits? */
EVERYWHERE bool sampling_edits(const struct sample_params *params) {
    return params->n_bias != 0 || params->n_allowed != 0 || params->n_seen != 0;
}

/* Does anything change the logits before the choice? */
EVERYWHERE bool sampling_has_edits(const struct sample_params *params) {
    return sampling_edits(params) || params->allowed_bits;
}

/* Is it by its edits that a row has no token, one whose own logits have this maximum (NaN where one of them is)? */
EVERYWHERE bool sampling_emptied(const struct sample_params *params, float max) {
    return max > -INFINITY && max < INFINITY && sampling_has_edits(params);
}

/* Words of a mask over so many ids. */
EVERYWHERE uint32_t sampling_bit_words(uint32_t n_vocab) {
    return n_vocab / 32 + (n_vocab % 32 != 0);
}

EVERYWHERE bool sampling_has_bit(const uint32_t *bits, uint32_t id) {
    return bits[id / 32] >> id % 32 & 1;
}

/* Takes the barred ids out of the choice: no edit brings back what is -INFINITY. */
static inline void sampling_bar(float *logits, const struct sample_params *params) {
    for (uint32_t i = 0; i < params->n_barred; i++)
        for (uint32_t id = params->barred[i].begin; id < params->barred[i].end; id++)
            logits[id] = -INFINITY;
}

/* An edited logit. What no float holds is the largest one: only a ban takes an id out of the choice. */
EVERYWHERE float sampling_clamped(float x) {
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* Logit x of an id that was seen, `count` times in the output. */
EVERYWHERE float sampling_penalised(const struct sample_params *params, float x, uint32_t count) {
    if (x == -INFINITY)
        return x;
    x = x > 0.0f ? x / params->repetition : x * params->repetition;
    x = x - params->frequency * (float)count;
    return sampling_clamped(count > 0 ? x - params->presence : x);
}

/* Logit x of an id with a bias. */
EVERYWHERE float sampling_biased(float x, float bias) {
    return x > -INFINITY && bias > -INFINITY ? sampling_clamped(x + bias) : -INFINITY;
}

/* Takes out what no bit allows; before the edits, which bring nothing back. */
static inline void sampling_mask(float *logits, uint32_t n_vocab, const uint32_t *bits) {
    for (uint32_t begin = 0; begin < n_vocab; begin += 32) {
        uint32_t n = n_vocab - begin < 32 ? n_vocab - begin : 32;
        for (uint32_t i = 0; bits[begin / 32] != UINT32_MAX && i < n; i++)
            if (!sampling_has_bit(bits, begin + i))
                logits[begin + i] = -INFINITY;
    }
}

/* Applies repetition, frequency and presence, then bias, then the allowed set. Ids at or above n_vocab are
 * ignored. allowed: scratch (n_vocab). */
static inline void sampling_edit(float *logits, uint32_t n_vocab,
                                 const struct sample_params *params, float *allowed) {
    for (uint32_t i = 0; i < params->n_seen; i++) {
        uint32_t id = params->seen_ids[i];
        if (id < n_vocab)
            logits[id] = sampling_penalised(params, logits[id], params->seen_counts[i]);
    }
    for (uint32_t i = 0; i < params->n_bias; i++) {
        uint32_t id = params->bias_ids[i];
        if (id < n_vocab)
            logits[id] = sampling_biased(logits[id], params->bias[i]);
    }
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
