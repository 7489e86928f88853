/* kernels/cpu/sample.c: choosing a token without sorting the vocabulary; the rules and the order of
 * sums are those of kernels/ref/sample.c.
 *
 * One vector pass gives the maximum of each block of 256 ids, one more the weights and the blocks'
 * sums. What may be chosen by top-k, top-p or min-p lies above a threshold known from these, so
 * only a short list goes into a heap, from which the best are taken one by one. */
#include "kernels/cpu/cpu.h"

#include "kernels/sampling.h"

#include <float.h>
#include <stdlib.h>

static uint32_t cpu_sample_count_blocks(uint32_t n_vocab) {
    return (n_vocab + SAMPLING_BLOCK - 1) / SAMPLING_BLOCK;
}

enum status cpu_sampler_init(struct sampler *sampler, uint32_t n_vocab) {
    uint32_t n_blocks = cpu_sample_count_blocks(n_vocab);
    sampler->weights = calloc(n_vocab, sizeof *sampler->weights);
    sampler->raw = calloc(n_vocab, sizeof *sampler->raw);
    sampler->maxima = calloc(n_blocks, sizeof *sampler->maxima);
    sampler->sums = calloc(n_blocks, sizeof *sampler->sums);
    sampler->ids = calloc(n_vocab, sizeof *sampler->ids);
    sampler->candidates = calloc(n_vocab, sizeof *sampler->candidates);
    if (!sampler->weights || !sampler->raw || !sampler->maxima || !sampler->sums || !sampler->ids ||
        !sampler->candidates)
        return STATUS_NOMEM;
    return STATUS_OK;
}

void cpu_sampler_fini(struct sampler *sampler) {
    free(sampler->weights);
    free(sampler->raw);
    free(sampler->maxima);
    free(sampler->sums);
    free(sampler->ids);
    free(sampler->candidates);
}

/* Larger weight first, lower id first among equals. */
static bool cpu_sample_is_before(struct candidate a, struct candidate b) {
    return a.p > b.p || (a.p == b.p && a.id < b.id);
}

static void cpu_sample_sift_down(struct candidate *heap, uint32_t n, uint32_t at) {
    struct candidate moving = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && cpu_sample_is_before(heap[child + 1], heap[child]))
            child++;
        if (cpu_sample_is_before(moving, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void cpu_sample_heap_build(struct candidate *heap, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;)
        cpu_sample_sift_down(heap, n, i);
}

/* Moves the best of n to place n - 1 and gives it: the best i of N end at N - 1 - i. */
static struct candidate cpu_sample_heap_pop(struct candidate *heap, uint32_t n) {
    struct candidate best = heap[0];
    heap[0] = heap[n - 1];
    cpu_sample_sift_down(heap, n - 1, 0);
    heap[n - 1] = best;
    return best;
}

/* The rank-th largest of the blocks' maxima: at least `rank` values reach it. */
static float cpu_sample_nth_maximum(struct sampler *sampler, uint32_t n_blocks, uint32_t rank) {
    for (uint32_t i = 0; i < n_blocks; i++)
        sampler->candidates[i] = (struct candidate){sampler->maxima[i], i};
    cpu_sample_heap_build(sampler->candidates, n_blocks);
    float value = 0.0f;
    for (uint32_t i = 0; i < rank; i++)
        value = cpu_sample_heap_pop(sampler->candidates, n_blocks - i).p;
    return value;
}

/* Candidates with x >= threshold, as a heap; gives their number. */
static uint32_t cpu_sample_collect(const struct path *path, struct sampler *sampler, const float *x,
                                   uint32_t n, float threshold) {
    uint32_t count = path->find_at_least(x, n, threshold, sampler->ids);
    for (uint32_t i = 0; i < count; i++)
        sampler->candidates[i] = (struct candidate){x[sampler->ids[i]], sampler->ids[i]};
    cpu_sample_heap_build(sampler->candidates, count);
    return count;
}

static float cpu_sample_max_of(const float *x, uint32_t n) {
    float max = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static double cpu_sample_sum_of(const float *x, uint32_t n) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* Logarithm of the sum of exp of all logits. */
static double cpu_sample_log_of_total(const struct path *path, struct sampler *sampler,
                                      const float *logits, uint32_t n, float max) {
    path->block_exps(logits, n, max, 1.0f, NULL, sampler->sums);
    return (double)max + numbers_log(cpu_sample_sum_of(sampler->sums, cpu_sample_count_blocks(n)));
}

/* The best n_top into the result, none without a probability. Needs the maxima. */
static void cpu_sample_list_best(const struct path *path, struct sampler *sampler,
                                 const float *logits, uint32_t n, uint32_t n_top, double log_total,
                                 struct sample_result *result) {
    uint32_t n_blocks = cpu_sample_count_blocks(n);
    float threshold =
        n_top <= n_blocks ? cpu_sample_nth_maximum(sampler, n_blocks, n_top) : -FLT_MAX;
    threshold = threshold > -FLT_MAX ? threshold : -FLT_MAX;
    uint32_t count = cpu_sample_collect(path, sampler, logits, n, threshold);
    result->n_top = n_top < count ? n_top : count;
    for (uint32_t i = 0; i < result->n_top; i++) {
        struct candidate best = cpu_sample_heap_pop(sampler->candidates, count - i);
        result->top_ids[i] = best.id;
        result->top_logprobs[i] = (float)((double)best.p - log_total);
    }
}

/* Bars ids and brings the maxima of their blocks up to that, each block once. */
static void cpu_sample_bar(const struct path *path, struct sampler *sampler, float *logits,
                           uint32_t n, const struct sample_params *params) {
    uint32_t done = 0; /* blocks before it are right */
    sampling_bar(logits, params);
    for (uint32_t i = 0; i < params->n_barred; i++) {
        uint32_t block = params->barred[i].begin / SAMPLING_BLOCK;
        uint32_t end = cpu_sample_count_blocks(params->barred[i].end);
        for (block = block > done ? block : done; block < end; block++) {
            uint32_t begin = block * SAMPLING_BLOCK;
            uint32_t length = n - begin < SAMPLING_BLOCK ? n - begin : SAMPLING_BLOCK;
            path->block_maxima(logits + begin, length, &sampler->maxima[block]);
        }
        done = end > done ? end : done;
    }
}

static uint32_t cpu_sample_draw_all(const struct sampler *sampler, uint32_t n, float uniform) {
    uint32_t n_blocks = cpu_sample_count_blocks(n);
    double target = (double)uniform * cpu_sample_sum_of(sampler->sums, n_blocks);
    double sum = 0.0;
    for (uint32_t block = 0; block < n_blocks; block++) {
        double after = sum + (double)sampler->sums[block];
        if (!(after > target)) {
            sum = after;
            continue;
        }
        uint32_t last = 0;
        for (uint32_t i = block * SAMPLING_BLOCK; i < n && i < (block + 1) * SAMPLING_BLOCK; i++) {
            sum += (double)sampler->weights[i];
            last = sampler->weights[i] > 0.0f ? i : last;
            if (sum > target)
                return i;
        }
        return last; /* the blocks' sums were rounded on 16 lanes, this one in order */
    }
    return 0;
}

/* Every weight that may be kept is at least this; *sure is false where that is so only if their sum
 * is enough. */
static float cpu_sample_threshold_of(const struct path *path, struct sampler *sampler, uint32_t n,
                                     const struct sample_params *params, double total, bool *sure) {
    float threshold = sampling_floor(params, n, total);
    uint32_t n_blocks = cpu_sample_count_blocks(n);
    bool limited = sampling_is_limited(params, n);
    *sure = true;
    if (limited && params->top_k <= n_blocks) {
        path->block_maxima(sampler->weights, n, sampler->maxima);
        float nth = cpu_sample_nth_maximum(sampler, n_blocks, params->top_k);
        threshold = nth > threshold ? nth : threshold;
    } else if (!limited) { /* all the weights below `tail` have half of what is not needed */
        float tail = (float)((total - sampling_enough(params, total)) / (2.0 * n));
        *sure = !(tail > threshold);
        threshold = tail > threshold ? tail : threshold;
    }
    return threshold;
}

struct kept {
    uint32_t count; /* candidates kept, at the end of the array, best last */
    double mass;
    bool ended; /* by the rule, not because the list was over */
};

static struct kept cpu_sample_keep(struct candidate *candidates, uint32_t n_list, uint32_t n_most,
                                   bool popped, const struct sample_params *params, double total) {
    struct kept kept = {0};
    if (popped) { /* the total is that of the best top_k */
        total = 0.0;
        for (uint32_t i = 0; i < n_most; i++)
            total += (double)cpu_sample_heap_pop(candidates, n_list - i).p;
    }
    while (kept.count < n_most) {
        uint32_t left = n_list - kept.count;
        float p = (popped ? candidates[left - 1] : candidates[0]).p;
        if (!sampling_keeps(params, kept.count, kept.mass, total, p)) {
            kept.ended = true;
            break;
        }
        if (!popped)
            cpu_sample_heap_pop(candidates, left);
        kept.mass += (double)p;
        kept.count++;
    }
    return kept;
}

static uint32_t cpu_sample_draw_filtered(const struct path *path, struct sampler *sampler,
                                         uint32_t n, const struct sample_params *params) {
    double total = cpu_sample_sum_of(sampler->sums, cpu_sample_count_blocks(n));
    bool sure;
    float threshold = cpu_sample_threshold_of(path, sampler, n, params, total, &sure);
    uint32_t count = cpu_sample_collect(path, sampler, sampler->weights, n, threshold);
    bool limited = sampling_is_limited(params, n);
    uint32_t most = limited && params->top_k < count ? params->top_k : count;
    struct kept kept = cpu_sample_keep(sampler->candidates, count, most, limited, params, total);
    if (!kept.ended && !sure) { /* rounding left too small a sum: look at all */
        count = cpu_sample_collect(path, sampler, sampler->weights, n, FLT_MIN);
        kept = cpu_sample_keep(sampler->candidates, count, count, false, params, total);
    }
    double target = (double)params->uniform * kept.mass;
    double sum = 0.0;
    const struct candidate *best = sampler->candidates + count;
    for (uint32_t i = 0; i < kept.count; i++) {
        best--;
        sum += (double)best->p;
        if (sum > target)
            break;
    }
    return best->id;
}

/* Needs the maxima. */
static bool cpu_sample_choose(const struct path *path, struct sampler *sampler, const float *logits,
                              uint32_t n, const struct sample_params *params, uint32_t *id) {
    uint32_t n_blocks = cpu_sample_count_blocks(n);
    float max = cpu_sample_max_of(sampler->maxima, n_blocks);
    if (!(max > -INFINITY && max < INFINITY))
        return false;
    if (params->temperature < SAMPLING_GREEDY) {
        uint32_t block = 0;
        while (sampler->maxima[block] != max)
            block++;
        for (*id = block * SAMPLING_BLOCK; logits[*id] != max;)
            ++*id;
        return true;
    }
    path->block_exps(logits, n, max, 1.0f / params->temperature, sampler->weights, sampler->sums);
    *id = sampling_is_filtered(params) ? cpu_sample_draw_filtered(path, sampler, n, params)
                                       : cpu_sample_draw_all(sampler, n, params->uniform);
    return true;
}

static void cpu_sample_row(const struct path *path, struct sampler *sampler, float *logits,
                           uint32_t n, const struct sample_params *params,
                           struct sample_result *result) {
    *result = (struct sample_result){0};
    if (!path->block_maxima(logits, n, sampler->maxima))
        return;
    float max = cpu_sample_max_of(sampler->maxima, cpu_sample_count_blocks(n));
    if (!(max < INFINITY))
        return;
    bool wants = params->want_logprob || params->n_top > 0;
    double log_total = 0.0;
    if (wants)
        log_total = cpu_sample_log_of_total(path, sampler, logits, n, max);
    cpu_sample_bar(path, sampler, logits, n, params);
    if (params->n_top > 0)
        cpu_sample_list_best(path, sampler, logits, n, params->n_top, log_total, result);
    const float *raw = logits;
    bool is_sound = true;
    if (sampling_has_edits(params)) {
        if (wants)
            raw = memcpy(sampler->raw, logits, n * sizeof *logits);
        if (params->allowed_bits)
            path->mask(logits, n, params->allowed_bits, sampler->maxima);
        sampling_edit(logits, n, params, sampler->weights);
        if (sampling_edits(params))
            is_sound = path->block_maxima(logits, n, sampler->maxima);
    }
    result->valid = is_sound && cpu_sample_choose(path, sampler, logits, n, params, &result->id);
    result->emptied = !result->valid && sampling_emptied(params, max);
    if (wants && result->valid)
        result->logprob = (float)((double)raw[result->id] - log_total);
}

struct sample_job {
    struct kernels_ctx *ctx;
    float *logits;
    uint32_t n_vocab;
    const struct sample_params *params;
    struct sample_result *results;
};

static void cpu_sample_item(void *arg, uint32_t item, uint32_t thread) {
    const struct sample_job *job = arg;
    cpu_sample_row(job->ctx->path, &job->ctx->samplers[thread],
                   job->logits + (size_t)item * job->n_vocab, job->n_vocab, &job->params[item],
                   &job->results[item]);
}

void cpu_sample(struct kernels_ctx *ctx, float *logits, uint32_t n_rows, uint32_t n_vocab,
                const struct sample_params *params, struct sample_result *results) {
    uint32_t saved = numbers_enter();
    struct sample_job job = {ctx, logits, n_vocab, params, results};
    thread_pool_run(ctx->pool, n_rows, cpu_sample_item, &job);
    numbers_leave(saved);
}
