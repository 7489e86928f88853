#include "model/text/textless.h"

#include "model/text/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>

/* A gap of the tokenizer's files is an unused token without bytes (token_table.h). */
static bool textless_has_text(const struct tokenizer *tokenizer, uint32_t id) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    return id < vocabulary->n_tokens &&
           (vocabulary->kinds[id] != TOKEN_UNUSED || vocabulary_bytes(vocabulary, id).n > 0);
}

static bool textless_is_end(const struct textless_model *model, uint32_t id) {
    for (uint32_t i = 0; i < model->n_stop_ids; i++)
        if (model->stop_ids[i] == id)
            return true;
    return false;
}

/* Writes the intervals unless `out` is NULL; gives their number. */
static uint32_t textless_list_intervals(const struct tokenizer *tokenizer,
                                        const struct textless_model *model, struct interval *out) {
    uint32_t n = 0;
    bool is_open = false;
    for (uint32_t id = 0; id < model->n_vocab; id++) {
        bool is_textless = !textless_has_text(tokenizer, id) && !textless_is_end(model, id);
        if (is_textless && !is_open && out)
            out[n].begin = id;
        if (is_textless && out)
            out[is_open ? n - 1 : n].end = id + 1;
        n += is_textless && !is_open;
        is_open = is_textless;
    }
    return n;
}

enum status textless_find(const struct tokenizer *tokenizer, struct textless_model model,
                          struct interval **ids, uint32_t *n) {
    uint32_t n_found = textless_list_intervals(tokenizer, &model, NULL);
    struct interval *found = NULL;
    if (n_found > 0) {
        found = calloc(n_found, sizeof *found);
        if (!found)
            return STATUS_NOMEM;
        textless_list_intervals(tokenizer, &model, found);
    }
    *ids = found;
    *n = n_found;
    return STATUS_OK;
}
