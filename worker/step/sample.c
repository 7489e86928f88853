#include "worker/step/sample.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/dump.h"
#include "base/random.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/constraint.h"
#include "worker/step/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(SAMPLE_TOP_MAX == MESSAGE_TOP_MAX, "what kernels answer, messages carry");

/* Most slots never use penalties: the pages of their tables are only taken when touched. */
static enum status sample_take_seen(struct sample *sample) {
    const struct sample_options *options = &sample->options;
    uint64_t words = 2 * (uint64_t)sample->max_seen + sample->index_size;
    uint64_t n_bytes;
    if (options->n_vocab == 0)
        return STATUS_OK;
    if (!checked_mul(words * sizeof(uint32_t), options->max_slots, &n_bytes) ||
        n_bytes > SIZE_MAX / 2)
        return STATUS_NOMEM;
    void *memory = mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return STATUS_NOMEM;
    dump_leave_out(memory, (size_t)n_bytes); /* the tokens of every sequence */
    sample->seen_memory = memory;
    sample->seen_bytes = (size_t)n_bytes;
    for (uint32_t i = 0; i < options->max_slots; i++) {
        uint32_t *at = sample->seen_memory + i * words;
        sample->seen[i] = (struct seen){
            .ids = at, .counts = at + sample->max_seen, .index = at + 2 * (size_t)sample->max_seen};
    }
    return STATUS_OK;
}

enum status sample_init(struct sample *sample, const struct sample_options *options) {
    ASSERT(options->n_ends <= MESSAGE_STOP_IDS_MAX);
    *sample = (struct sample){.options = *options, .index_size = 64};
    for (uint32_t i = 0; i < options->n_ends; i++)
        sample->ends[i] = options->ends[i];
    sample->options.ends = sample->ends;
    sample->barred = calloc((size_t)options->n_barred + 1, sizeof *sample->barred);
    for (uint32_t i = 0; sample->barred && i < options->n_barred; i++)
        sample->barred[i] = options->barred[i];
    sample->options.barred = sample->barred;
    sample->max_seen = options->context < options->n_vocab ? options->context : options->n_vocab;
    while (sample->index_size / 2 < sample->max_seen)
        sample->index_size *= 2;
    size_t n = options->max_seqs;
    sample->params = calloc(n, sizeof *sample->params);
    sample->results = calloc(n, sizeof *sample->results);
    sample->sampled = calloc(n, sizeof *sample->sampled);
    sample->seen = calloc(options->max_slots, sizeof *sample->seen);
    sample->bias_ids = calloc(n * SAMPLE_BIAS_MAX, sizeof *sample->bias_ids);
    sample->bias = calloc(n * SAMPLE_BIAS_MAX, sizeof *sample->bias);
    if (!sample->barred || !sample->params || !sample->results || !sample->sampled ||
        !sample->seen || !sample->bias_ids || !sample->bias ||
        sample_take_seen(sample) != STATUS_OK) {
        sample_fini(sample);
        return STATUS_NOMEM;
    }
    return STATUS_OK;
}

void sample_fini(struct sample *sample) {
    free(sample->barred);
    free(sample->params);
    free(sample->results);
    free(sample->sampled);
    free(sample->seen);
    free(sample->bias_ids);
    free(sample->bias);
    if (sample->seen_memory)
        munmap(sample->seen_memory, sample->seen_bytes);
    memset(sample, 0, sizeof *sample);
}

static void sample_seen_count(struct seen *seen, uint32_t index_size, uint32_t id, bool output) {
    uint32_t at = (uint32_t)mix64(id) & (index_size - 1);
    while (seen->index[at] && seen->ids[seen->index[at] - 1] != id)
        at = (at + 1) & (index_size - 1);
    if (!seen->index[at]) {
        seen->ids[seen->n] = id;
        seen->counts[seen->n] = 0;
        seen->index[at] = ++seen->n;
    }
    seen->counts[seen->index[at] - 1] += output;
}

/* Brings the slot's table up to its sequence. */
static void sample_seen_follow(struct sample *sample, struct seen *seen,
                               const struct sequence_view *view) {
    if (seen->serial != view->serial || seen->n_counted > view->n_tokens) {
        memset(seen->index, 0, sample->index_size * sizeof *seen->index);
        seen->n = seen->n_counted = 0;
        seen->serial = view->serial;
    }
    ASSERT(view->n_tokens <= sample->options.context);
    for (uint32_t i = seen->n_counted; i < view->n_tokens; i++)
        sample_seen_count(seen, sample->index_size, view->ids[i], i >= view->n_prompt);
    seen->n_counted = view->n_tokens;
}

struct edits {
    uint32_t *ids;
    float *bias;
    uint32_t n;
};

static void sample_ban_token(struct edits *edits, uint32_t n_vocab, uint32_t id) {
    if (id >= n_vocab)
        return;
    uint32_t at = 0;
    while (at < edits->n && edits->ids[at] != id)
        at++;
    ASSERT(at < SAMPLE_BIAS_MAX);
    edits->ids[at] = id;
    edits->bias[at] = -INFINITY;
    edits->n += at == edits->n;
}

/* The client's biases with all ends banned on top. */
static void sample_ban_ends(const struct sample *sample, uint32_t row,
                            const struct sampling *sampling, struct sample_params *params) {
    struct edits edits = {.ids = sample->bias_ids + (size_t)row * SAMPLE_BIAS_MAX,
                          .bias = sample->bias + (size_t)row * SAMPLE_BIAS_MAX,
                          .n = sampling->n_bias};
    if (edits.n > 0) {
        memcpy(edits.ids, sampling->bias_ids, edits.n * sizeof *edits.ids);
        memcpy(edits.bias, sampling->bias, edits.n * sizeof *edits.bias);
    }
    for (uint32_t i = 0; i < sample->options.n_ends; i++)
        sample_ban_token(&edits, sample->options.n_vocab, sample->ends[i]);
    for (uint32_t i = 0; i < sampling->n_stop_ids; i++)
        sample_ban_token(&edits, sample->options.n_vocab, sampling->stop_ids[i]);
    params->n_bias = edits.n;
    params->bias_ids = edits.ids;
    params->bias = edits.bias;
}

void sample_prepare(struct sample *sample, uint32_t row, uint32_t slot,
                    const struct sequence_view *view) {
    const struct sampling *sampling = view->sampling;
    struct sample_params *params = &sample->params[row];
    ASSERT(row < sample->options.max_seqs && slot < sample->options.max_slots);
    uint32_t index = view->n_tokens - view->n_prompt; /* of the new token in the whole answer */
    *params = (struct sample_params){
#define FLOAT(name) .name = sampling->name,
#define U32(name)   .name = sampling->name,
#include "proto/sampling.def"
#undef FLOAT
#undef U32
        .uniform = random_unit(random_at(sampling->seed, sampling->choice, index)),
        .n_bias = sampling->n_bias,
        .bias_ids = sampling->bias_ids,
        .bias = sampling->bias,
        .n_allowed = sampling->n_allowed,
        .allowed_ids = sampling->allowed_ids,
        .n_barred = sample->options.n_barred,
        .barred = sample->barred,
        .n_top = sampling->want_logprobs ? sampling->n_top : 0,
        .want_logprob = sampling->want_logprobs,
    };
    if (sampling_wants_seen(params)) {
        struct seen *seen = &sample->seen[slot];
        sample_seen_follow(sample, seen, view);
        params->n_seen = seen->n;
        params->seen_ids = seen->ids;
        params->seen_counts = seen->counts;
    }
    if (sampling->n_grammar > 0)
        constraint_mask(sample->options.constraint, row, slot, view, params);
    else if (view->ban_ends)
        sample_ban_ends(sample, row, sampling, params);
}

static void sample_give_result(const struct sample *sample, uint32_t row) {
    const struct sample_result *result = &sample->results[row];
    struct sampled *sampled = &sample->sampled[row];
    uint32_t n_top = result->n_top;
    *sampled = (struct sampled){.id = result->id, .valid = result->valid};
    sampled->is_stuck = result->emptied;
    sampled->logprobs.logprob = result->logprob;
    sampled->logprobs.n_top = n_top;
    memcpy(sampled->logprobs.top_ids, result->top_ids, n_top * sizeof result->top_ids[0]);
    memcpy(sampled->logprobs.top_logprobs, result->top_logprobs,
           n_top * sizeof result->top_logprobs[0]);
}

/* The family has named its tokens: each is certain, so its logprob is 0 and it is the only one. */
static void sample_give_forced(struct sampled *sampled, uint32_t id, bool want_top) {
    *sampled = (struct sampled){.id = id, .valid = true};
    sampled->logprobs.n_top = want_top;
    sampled->logprobs.top_ids[0] = id;
}

/* The parameters of all rows; of those of a step ahead the last id is not known. */
static void sample_prepare_rows(struct sample *sample, const struct engine *engine,
                                const struct batch *batch) {
    ASSERT(batch->n_rows <= sample->options.max_seqs);
    for (uint32_t row = 0; row < batch->n_rows; row++) {
        struct sequence_view view;
        uint32_t n_tokens = batch->positions[batch->rows[row]] + 1;
        engine_sequence(engine, batch->slots[row], n_tokens, &view);
        sample_prepare(sample, row, batch->slots[row], &view);
        ASSERT(batch->view.ids || sample->params[row].n_seen == 0);
    }
}

static void sample_force_rows(struct sample *sample, const struct engine *engine,
                              const uint32_t *forced, const struct batch *batch) {
    for (uint32_t row = 0; row < batch->n_rows; row++) {
        struct sequence_view view;
        engine_sequence(engine, batch->slots[row], batch->positions[batch->rows[row]] + 1, &view);
        sample_give_forced(&sample->sampled[row], forced[row],
                           view.sampling->want_logprobs && view.sampling->n_top > 0);
    }
}

static void sample_give_results(struct sample *sample, uint32_t n_rows) {
    for (uint32_t row = 0; row < n_rows; row++)
        sample_give_result(sample, row);
}

void sample_run(struct sample *sample, const struct engine *engine, struct forward *forward,
                const struct batch *batch) {
    const struct rank *rank = &forward->rank;
    if (rank->forced) {
        sample_force_rows(sample, engine, rank->forced, batch);
        return;
    }
    if (batch->n_rows == 0)
        return;
    sample_prepare_rows(sample, engine, batch);
    rank->kernels->sample(rank->ctx, rank->logits, batch->n_rows, sample->options.n_vocab,
                          sample->params, sample->results);
    sample_give_results(sample, batch->n_rows);
}

bool sample_begin(struct sample *sample, const struct engine *engine, struct forward *forward,
                  const struct batch *batch) {
    const struct rank *rank = &forward->rank;
    sample_prepare_rows(sample, engine, batch);
    return rank->kernels->sample_begin(rank->ctx, rank->logits, batch->n_rows,
                                       sample->options.n_vocab, sample->params) == STATUS_OK;
}

void sample_take(struct sample *sample, struct forward *forward, uint32_t n_rows) {
    const struct rank *rank = &forward->rank;
    rank_check(rank, rank->kernels->sample_end(rank->ctx, sample->results));
    sample_give_results(sample, n_rows);
}
