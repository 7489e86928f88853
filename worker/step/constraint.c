#include "worker/step/constraint.h"

#include "base/assert.h"
#include "base/clock.h"
#include "model/text/grammar/grammar.h"
#include "model/text/grammar/vocabulary.h"
#include "worker/core/engine.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_MAX   64                  /* compiled grammars */
#define KEPT_BYTES ((size_t)256 << 20) /* of theirs, together */
#define MASK_BYTES ((size_t)64 << 20)
#define SWEEP_NS   NS_PER_S

/* Work of the masks of one sequence, in steps of some 10 ns (model/text/grammar/grammar.h), of which the first look at a string
 * costs one for each node of the vocabulary's trie. What it has at first is the most that it may save up: a form of text with many
 * kinds of strings needs dozens of such looks before all are known. Who has costly masks all the time ends. */
static uint64_t constraint_steps_max(const struct constraint *constraint) {
    return 2 * GRAMMARS_MASK_STEPS + 64 * (uint64_t)constraint->grammars.vocabulary->n_nodes;
}

/* What each token adds. */
static uint64_t constraint_steps_of_token(const struct constraint *constraint) {
    return GRAMMARS_MASK_STEPS / 50 + constraint->grammars.vocabulary->n_nodes / 4;
}

enum status constraint_init(struct constraint *constraint,
                            const struct constraint_options *options) {
    uint32_t n_words = sampling_bit_words(options->n_vocab);
    *constraint = (struct constraint){.options = *options, .n_words = n_words};
    struct grammars_options grammars = {.tokenizer = options->tokenizer,
                                        .n_jobs_max = 2 * options->max_slots,
                                        .n_kept_max = KEPT_MAX,
                                        .n_bytes_max = KEPT_BYTES,
                                        .n_mask_bytes = MASK_BYTES};
    TRY(grammars_open(&constraint->grammars, &grammars));
    constraint->slots = calloc(options->max_slots, sizeof *constraint->slots);
    constraint->bits = calloc((size_t)options->max_rows * n_words, sizeof *constraint->bits);
    constraint->scratch = calloc(n_words, sizeof *constraint->scratch);
    if (constraint->slots && constraint->bits && constraint->scratch)
        return STATUS_OK;
    constraint_fini(constraint);
    return STATUS_NOMEM;
}

static void constraint_leave(struct constraint *constraint, struct constrained *at) {
    constraint->n_open -= at->serial != 0;
    grammar_state_free(at->state);
    *at = (struct constrained){0};
}

void constraint_fini(struct constraint *constraint) {
    for (uint32_t i = 0; constraint->slots && i < constraint->options.max_slots; i++)
        constraint_leave(constraint, &constraint->slots[i]);
    grammars_close(&constraint->grammars);
    free(constraint->slots);
    free(constraint->bits);
    free(constraint->scratch);
    memset(constraint, 0, sizeof *constraint);
}

static void constraint_take(const struct constraint *constraint, struct constrained *at,
                            const struct grammars_made *made) {
    at->state = made->state;
    at->n_followed = made->n_followed;
    at->n_steps = constraint_steps_max(constraint);
}

enum status constraint_open(struct constraint *constraint, uint32_t slot, uint64_t serial,
                            const struct submit *submit) {
    ASSERT(slot < constraint->options.max_slots && serial != 0);
    const struct sampling *sampling = &submit->sampling;
    struct constrained *at = &constraint->slots[slot];
    struct grammars_made made;
    constraint_leave(constraint, at);
    enum status status = grammars_ask(
        &constraint->grammars, (struct span){(const char *)sampling->grammar, sampling->n_grammar},
        slot, serial, submit->tokens + submit->n_prompt, submit->n_tokens - submit->n_prompt,
        &made);
    if (status != STATUS_OK && status != STATUS_BUSY)
        return status;
    at->serial = serial;
    constraint->n_open++;
    if (status == STATUS_OK)
        constraint_take(constraint, at, &made);
    return status;
}

/* What belongs to sequences that have left their slots. */
static void constraint_sweep(struct constraint *constraint, const struct engine *engine) {
    for (uint32_t i = 0; i < constraint->options.max_slots; i++) {
        struct sequence_view view;
        if (constraint->slots[i].serial == 0)
            continue;
        engine_sequence(engine, i, 0, &view);
        if (view.serial != constraint->slots[i].serial)
            constraint_leave(constraint, &constraint->slots[i]);
    }
}

void constraint_look(struct constraint *constraint, struct engine *engine, uint64_t now_ns) {
    struct grammars_made made;
    while (grammars_next(&constraint->grammars, &made)) {
        struct constrained *at = &constraint->slots[made.slot];
        if (at->serial != made.serial) {
            grammar_state_free(made.state);
            continue;
        }
        constraint_take(constraint, at, &made);
        engine_constrained(engine, now_ns, made.slot, made.serial, made.status);
    }
    if (constraint->n_open > 0 && now_ns - constraint->swept_ns >= SWEEP_NS) {
        constraint->swept_ns = now_ns;
        constraint_sweep(constraint, engine);
    }
}

int constraint_fd(const struct constraint *constraint) {
    return constraint->slots ? constraint->grammars.fd : -1;
}

/* Sets the state back to the first n output tokens, or as far as it goes. */
static void constraint_set_back(struct constrained *at, uint32_t n) {
    if (grammar_back(at->state, at->n_followed - n) == STATUS_OK) {
        at->n_followed = n;
        return;
    }
    grammar_reset(at->state);
    at->n_followed = 0;
}

/* Brings the state up to its sequence. */
static void constraint_follow(struct constrained *at, const struct sequence_view *view) {
    uint32_t n = view->n_tokens - view->n_prompt;
    if (n < at->n_followed) {
        constraint_set_back(at, n);
        at->is_lost = false;
    }
    for (; !at->is_lost && at->n_followed < n; at->n_followed++)
        if (grammar_accept(at->state, view->ids[view->n_prompt + at->n_followed]) != STATUS_OK) {
            at->is_lost = true;
            return;
        }
}

static void constraint_put_bit(uint32_t *bits, uint32_t n_vocab, uint32_t id, bool is_set) {
    if (id >= n_vocab)
        return;
    if (is_set)
        bits[id / 32] |= 1u << id % 32;
    else
        bits[id / 32] &= ~(1u << id % 32);
}

static void constraint_put_bits(const struct constraint *constraint, uint32_t *bits,
                                const uint32_t *ids, uint32_t n, bool is_set) {
    for (uint32_t i = 0; i < n; i++)
        constraint_put_bit(bits, constraint->options.n_vocab, ids[i], is_set);
}

/* Text and special tokens that the grammar lets follow: none where there is no telling. */
static void constraint_fill(const struct constraint *constraint, struct constrained *at,
                            uint32_t *bits) {
    const struct grammar_mask *mask;
    uint32_t n_tokens = constraint->grammars.vocabulary->n_tokens;
    ASSERT(n_tokens <= constraint->options.n_vocab);
    uint64_t n_steps = at->n_steps + constraint_steps_of_token(constraint),
             n_most = constraint_steps_max(constraint);
    at->n_steps = n_steps < n_most ? n_steps : n_most;
    if (!at->is_lost && grammar_mask_within(at->state, &at->n_steps, &mask) != STATUS_OK)
        at->is_lost = true;
    if (at->is_lost)
        return;
    memcpy(bits, grammar_mask_bits(mask), sampling_bit_words(n_tokens) * sizeof *bits);
    grammar_mask_unref(mask);
}

/* Is there an id that mask, allowed ids and barred ids leave? (A request's biases are finite.) */
static bool constraint_leaves_any(const struct constraint *constraint,
                                  const struct sample_params *params) {
    uint32_t n_vocab = constraint->options.n_vocab;
    uint32_t *left = constraint->scratch;
    memcpy(left, params->allowed_bits, constraint->n_words * sizeof *left);
    for (uint32_t i = 0; i < params->n_barred; i++)
        for (uint32_t id = params->barred[i].begin; id < params->barred[i].end; id++)
            constraint_put_bit(left, n_vocab, id, false);
    for (uint32_t i = 0; i < params->n_allowed; i++)
        if (params->allowed_ids[i] < n_vocab && sampling_has_bit(left, params->allowed_ids[i]))
            return true;
    for (uint32_t i = 0; params->n_allowed == 0 && i < constraint->n_words; i++)
        if (left[i] != 0)
            return true;
    return false;
}

/* What ends the answer, in the mask of what may follow its text. */
static void constraint_put_ends(const struct constraint *constraint, struct constrained *at,
                                const struct sequence_view *view, struct sample_params *params,
                                uint32_t *bits) {
    const struct constraint_options *options = &constraint->options;
    const struct sampling *sampling = view->sampling;
    bool may_end = !at->is_lost && grammar_may_end(at->state);
    constraint_put_bits(constraint, bits, options->ends, options->n_ends, false);
    if (view->ban_ends || may_end)
        constraint_put_bits(constraint, bits, sampling->stop_ids, sampling->n_stop_ids,
                            !view->ban_ends);
    bool goes_on = view->ban_ends || sampling->ignore_eos;
    if (may_end && !(goes_on && constraint_leaves_any(constraint, params)))
        constraint_put_bits(constraint, bits, options->ends, options->n_ends, true);
}

void constraint_mask(struct constraint *constraint, uint32_t row, uint32_t slot,
                     const struct sequence_view *view, struct sample_params *params) {
    ASSERT(row < constraint->options.max_rows && slot < constraint->options.max_slots);
    struct constrained *at = &constraint->slots[slot];
    uint32_t *bits = constraint->bits + (size_t)row * constraint->n_words;
    uint64_t begin_ns = clock_now_ns();
    params->allowed_bits = bits;
    memset(bits, 0, constraint->n_words * sizeof *bits);
    if (at->serial != view->serial || !at->state)
        return; /* it was given up */
    constraint_follow(at, view);
    constraint_fill(constraint, at, bits);
    constraint_put_ends(constraint, at, view, params, bits);
    constraint->figures.n_masks++;
    constraint->figures.masks_ns += clock_now_ns() - begin_ns;
}
