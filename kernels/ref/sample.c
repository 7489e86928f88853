/* kernels/ref/sample.c: choosing a token, by sorting everything.
 *
 * Sums over the vocabulary are made per block of 256 ids on 16 lanes; the blocks' sums are added in
 * double, in order. Weights are p = exp((logit - max) / temperature), so the best token has exactly
 * 1. With top-k, top-p or min-p the tokens stand in order of weight (lower id first among equals)
 * and their weights are added in that order; without, they stand in order of id. */
#include "kernels/ref/ref.h"
#include "kernels/sampling.h"

#include <stdlib.h>

static bool ref_sample_row_max(const float *x, uint32_t n, float *max) {
    *max = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (isnan(x[i]))
            return false;
        *max = x[i] > *max ? x[i] : *max;
    }
    return *max < INFINITY;
}

/* Sum of p over ids [begin, begin + 256) on 16 lanes. */
static float ref_sample_block_sum(const float *p, uint32_t begin, uint32_t n) {
    float lanes[NUMBERS_LANES] = {0};
    for (uint32_t i = begin; i < begin + SAMPLING_BLOCK && i < n; i++)
        lanes[i % NUMBERS_LANES] += p[i];
    return numbers_tree(lanes);
}

static double ref_sample_sum_weights(const float *p, uint32_t n) {
    double total = 0.0;
    for (uint32_t begin = 0; begin < n; begin += SAMPLING_BLOCK)
        total += (double)ref_sample_block_sum(p, begin, n);
    return total;
}

static int ref_sample_by_weight(const void *a, const void *b) {
    const struct sample_candidate *x = a;
    const struct sample_candidate *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t ref_sample_list_sorted(struct kernels_ctx *ctx, const float *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        ctx->candidates[i] = (struct sample_candidate){.p = p[i], .id = i};
    qsort(ctx->candidates, n, sizeof *ctx->candidates, ref_sample_by_weight);
    return n;
}

/* Logarithm of the sum of exp of all logits. */
static double ref_sample_log_of_total(const float *logits, uint32_t n, float max) {
    float lanes[NUMBERS_LANES];
    double total = 0.0;
    for (uint32_t begin = 0; begin < n; begin += SAMPLING_BLOCK) {
        memset(lanes, 0, sizeof lanes);
        for (uint32_t i = begin; i < begin + SAMPLING_BLOCK && i < n; i++)
            lanes[i % NUMBERS_LANES] += numbers_exp(logits[i] - max);
        total += (double)numbers_tree(lanes);
    }
    return (double)max + numbers_log(total);
}

static void ref_sample_list_best(struct kernels_ctx *ctx, const float *logits, uint32_t n,
                                 uint32_t n_top, double log_total, struct sample_result *result) {
    ref_sample_list_sorted(ctx, logits, n);
    for (uint32_t i = 0; i < n_top && i < n && ctx->candidates[i].p > -INFINITY; i++) {
        result->top_ids[i] = ctx->candidates[i].id;
        result->top_logprobs[i] = (float)((double)ctx->candidates[i].p - log_total);
        result->n_top = i + 1;
    }
}

static uint32_t ref_sample_draw_all(const float *p, uint32_t n, float uniform) {
    double target = (double)uniform * ref_sample_sum_weights(p, n);
    double sum = 0.0;
    uint32_t last = 0;
    for (uint32_t begin = 0; begin < n; begin += SAMPLING_BLOCK) {
        double after = sum + (double)ref_sample_block_sum(p, begin, n);
        for (uint32_t i = begin; after > target && i < begin + SAMPLING_BLOCK && i < n; i++) {
            sum += (double)p[i];
            last = p[i] > 0.0f ? i : last;
            if (sum > target)
                return i;
        }
        if (after > target)
            return last;
        sum = after;
    }
    return last;
}

static uint32_t ref_sample_draw_filtered(struct kernels_ctx *ctx, const float *p, uint32_t n,
                                         const struct sample_params *params) {
    double total = ref_sample_sum_weights(p, n);
    uint32_t count = ref_sample_list_sorted(ctx, p, n);
    if (params->top_k != 0 && params->top_k < count) {
        count = params->top_k;
        total = 0.0;
        for (uint32_t i = 0; i < count; i++)
            total += (double)ctx->candidates[i].p;
    }
    double mass = 0.0;
    uint32_t kept = 0;
    while (kept < count && ctx->candidates[kept].p > 0.0f &&
           sampling_keeps(params, kept, mass, total, ctx->candidates[kept].p))
        mass += (double)ctx->candidates[kept++].p;
    double target = (double)params->uniform * mass;
    double sum = 0.0;
    for (uint32_t i = 0; i < kept; i++) {
        sum += (double)ctx->candidates[i].p;
        if (sum > target)
            return ctx->candidates[i].id;
    }
    return ctx->candidates[kept - 1].id;
}

static bool ref_sample_choose(struct kernels_ctx *ctx, float *x, uint32_t n,
                              const struct sample_params *params, uint32_t *id) {
    float max;
    if (!ref_sample_row_max(x, n, &max) || max == -INFINITY)
        return false;
    if (params->temperature < SAMPLING_GREEDY) {
        for (*id = 0; x[*id] != max;)
            ++*id;
        return true;
    }
    float inverse = 1.0f / params->temperature;
    for (uint32_t i = 0; i < n; i++)
        x[i] = numbers_exp((x[i] - max) * inverse);
    *id = sampling_is_filtered(params) ? ref_sample_draw_filtered(ctx, x, n, params)
                                       : ref_sample_draw_all(x, n, params->uniform);
    return true;
}

void ref_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                const struct sample_params *params, struct sample_result *results) {
    uint32_t saved = numbers_enter();
    for (uint32_t row = 0; row < n_rows; row++, logits += n_vocab, params++, results++) {
        *results = (struct sample_result){0};
        float max;
        if (!ref_sample_row_max(logits, n_vocab, &max))
            continue;
        double log_total = 0.0;
        bool wants = params->want_logprob || params->n_top > 0;
        if (wants)
            log_total = ref_sample_log_of_total(logits, n_vocab, max);
        sampling_bar(logits, params);
        if (params->n_top > 0)
            ref_sample_list_best(ctx, logits, n_vocab, params->n_top, log_total, results);
        memcpy(ctx->raw, logits, n_vocab * sizeof *logits);
        if (params->allowed_bits)
            sampling_mask(logits, n_vocab, params->allowed_bits);
        sampling_edit(logits, n_vocab, params, ctx->allowed);
        results->valid = ref_sample_choose(ctx, logits, n_vocab, params, &results->id);
        results->emptied = !results->valid && sampling_emptied(params, max);
        if (wants && results->valid)
            results->logprob = (float)((double)ctx->raw[results->id] - log_total);
    }
    numbers_leave(saved);
}
