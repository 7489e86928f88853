/* Our own engine. */
#include "tools/gbench/engine.h"

#include "model/text/grammar/grammar.h"
#include "model/text/grammar/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>

struct ours {
    struct grammar *grammar;
    struct grammar_state *state;
    const struct grammar_mask *mask; /* held: the last one */
};

static void *ours_open(const struct bench_tokens *tokens, char *text, size_t n_text) {
    struct grammar_vocabulary *vocabulary;
    struct error error;
    if (grammar_vocabulary_of(tokens->tokenizer, tokens->n_mask_bytes, &vocabulary, &error) ==
        STATUS_OK)
        return vocabulary;
    snprintf(text, n_text, "%s", error.text);
    return NULL;
}

static void ours_close(void *vocabulary) {
    grammar_vocabulary_free(vocabulary);
}

static void ours_free(void *of) {
    struct ours *ours = of;
    if (!ours)
        return;
    grammar_mask_unref(ours->mask);
    grammar_state_free(ours->state);
    grammar_unref(ours->grammar);
    free(ours);
}

static void *ours_compile(void *vocabulary, const char *schema, bool lenient, char *text,
                          size_t n_text) {
    struct grammar_part part = {
        .kind = GRAMMAR_JSON_SCHEMA, .lenient = lenient, .text = span_of(schema)};
    struct error error = {.text = "out of memory"};
    struct ours *ours = calloc(1, sizeof *ours);
    if (ours &&
        grammar_compile(&part, vocabulary, &grammar_limits, &ours->grammar, &error) == STATUS_OK &&
        grammar_state_new(ours->grammar, 0, &ours->state) == STATUS_OK)
        return ours;
    snprintf(text, n_text, "%s", error.text);
    ours_free(ours);
    return NULL;
}

static bool ours_reset(void *of) {
    struct ours *ours = of;
    grammar_reset(ours->state);
    return true;
}

static const uint32_t *ours_mask(void *of) {
    struct ours *ours = of;
    grammar_mask_unref(ours->mask);
    ours->mask = NULL;
    return grammar_mask(ours->state, &ours->mask) == STATUS_OK ? grammar_mask_bits(ours->mask)
                                                               : NULL;
}

static bool ours_accept(void *of, uint32_t token) {
    struct ours *ours = of;
    return grammar_accept(ours->state, token) == STATUS_OK;
}

static bool ours_may_end(void *of) {
    struct ours *ours = of;
    return grammar_may_end(ours->state);
}

static struct bench_figures ours_figures(void *of) {
    struct grammar_vocabulary *vocabulary = of;
    struct store_figures figures = store_figures(&vocabulary->store);
    return (struct bench_figures){.n_made = figures.n_missed,
                                  .n_bytes = figures.n_bytes,
                                  .n_bytes_max = vocabulary->store.n_bytes_max,
                                  .n_dropped = figures.n_dropped};
}

const struct bench_engine bench_ours = {.name = "tandem",
                                        .open = ours_open,
                                        .close = ours_close,
                                        .compile = ours_compile,
                                        .free = ours_free,
                                        .reset = ours_reset,
                                        .mask = ours_mask,
                                        .accept = ours_accept,
                                        .may_end = ours_may_end,
                                        .figures = ours_figures};
