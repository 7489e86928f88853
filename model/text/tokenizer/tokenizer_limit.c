/* Tokenizers with more tokens than their model has rows: finetunes name a padding token that nobody
 * trained, CodeLlama's four tokens for filling in are not in its largest models. */
#include "base/assert.h"
#include "base/fingerprint.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdio.h>

#define N_NAMED 4u /* tokens that a remark names */

/* Those without text are gaps of the files. */
static uint32_t tokenizer_count_beyond(const struct vocabulary *vocabulary, uint32_t n_rows) {
    uint32_t n = 0;
    for (uint32_t id = n_rows; id < vocabulary->n_tokens; id++)
        n += vocabulary_bytes(vocabulary, id).n > 0;
    return n;
}

static void tokenizer_remark_tokens(const struct vocabulary *vocabulary, uint32_t n_rows,
                                    struct remarks *remarks) {
    char named[N_NAMED * 128] = "";
    uint32_t n = tokenizer_count_beyond(vocabulary, n_rows);
    uint32_t n_named = 0;
    size_t at = 0;
    if (n == 0) /* places without tokens */
        return;
    for (uint32_t id = n_rows; id < vocabulary->n_tokens && n_named < N_NAMED; id++) {
        struct span text = vocabulary_bytes(vocabulary, id);
        if (text.n == 0)
            continue;
        at += (size_t)snprintf(named + at, sizeof named - at, "%s%u \"%.*s\"", n_named ? ", " : "",
                               id, span_shown(text), text.bytes);
        n_named++;
    }
    if (n > n_named)
        snprintf(named + at, sizeof named - at, " and %u more", n - n_named);
    remarks_add(remarks,
                "the embedding has %u rows, so that %u %s of the tokenizer %s not used: %s", n_rows,
                n, n > 1 ? "tokens" : "token", n > 1 ? "are" : "is", named);
}

static void tokenizer_drop_end(const struct vocabulary *vocabulary, uint32_t n_rows, uint32_t *id,
                               const char *name, struct remarks *remarks) {
    if (*id == TOKEN_NONE || *id < n_rows)
        return;
    struct span text = vocabulary_bytes(vocabulary, *id);
    remarks_add(remarks,
                "the tokenizer's %s is %u \"%.*s\", which has no embedding; it is not used", name,
                *id, span_shown(text), text.bytes);
    *id = TOKEN_NONE;
}

/* Of bos_token and eos_token tokenizer_drop_end() tells. */
static void tokenizer_drop_ends(const struct tokenizer *tokenizer, uint32_t n_rows,
                                struct tokenizer_ends *ends, const char *side,
                                struct remarks *remarks) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < ends->n; i++) {
        uint32_t id = ends->ids[i];
        struct span text = vocabulary_bytes(&tokenizer->vocabulary, id);
        if (id < n_rows)
            ends->ids[n++] = id;
        else if (id != tokenizer->bos_id && id != tokenizer->eos_id)
            remarks_add(
                remarks,
                "the tokenizer puts %u \"%.*s\" %s a text, which has no embedding; it is not used",
                id, span_shown(text), text.bytes, side);
    }
    memset(ends->ids + n, 0, (TOKENIZER_ENDS_MAX - n) * sizeof *ends->ids);
    ends->n = n;
}

enum status tokenizer_limit(struct tokenizer *tokenizer, uint32_t n_rows, struct remarks *remarks,
                            struct error *error) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct fingerprint fingerprint;
    ASSERT(n_rows > 0);
    if (vocabulary->n_tokens <= n_rows)
        return STATUS_OK;
    uint32_t id = tokenizer->kind->reach ? tokenizer->kind->reach(tokenizer, n_rows) : n_rows;
    if (id != TOKEN_NONE) {
        struct span text = vocabulary_bytes(vocabulary, id);
        return error_field(
            error, STATUS_CORRUPT, "vocab_size",
            "the tokenizer makes token %u (\"%.*s\") of plain text, but the embedding "
            "has %u rows",
            id, span_shown(text), text.bytes, n_rows);
    }
    if (fingerprint_begin(&fingerprint) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    fingerprint_add(&fingerprint, tokenizer->fingerprint, sizeof tokenizer->fingerprint);
    fingerprint_add(&fingerprint, &n_rows, sizeof n_rows);
    fingerprint_end(&fingerprint, tokenizer->fingerprint);
    tokenizer_remark_tokens(vocabulary, n_rows, remarks);
    tokenizer_drop_ends(tokenizer, n_rows, &tokenizer->before, "before", remarks);
    tokenizer_drop_ends(tokenizer, n_rows, &tokenizer->behind, "behind", remarks);
    tokenizer_drop_end(vocabulary, n_rows, &tokenizer->bos_id, "bos_token", remarks);
    tokenizer_drop_end(vocabulary, n_rows, &tokenizer->eos_id, "eos_token", remarks);
    if (tokenizer->kind->limit)
        tokenizer->kind->limit(tokenizer, n_rows);
    vocabulary_limit(&tokenizer->vocabulary, n_rows);
    return STATUS_OK;
}
