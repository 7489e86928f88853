#include "model/text/tokenizer/files/tokenizer_bytes.h"

#include "base/fingerprint.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 16u /* of a token, with its NUL */

static enum status tokenizer_bytes_encode(const struct tokenizer *tokenizer,
                                          struct tokenizer_scratch *scratch, struct span text,
                                          bool at_start, struct ids *ids) {
    uint32_t n_tokens = tokenizer_n_tokens(tokenizer);
    (void)scratch;
    (void)at_start;
    for (size_t i = 0; i < text.n; i++)
        TRY(ids_push(ids, (uint8_t)text.bytes[i] % n_tokens));
    return STATUS_OK;
}

static const struct tokenizer_kind kind_bytes = {.name = "bytes", .encode = tokenizer_bytes_encode};

static enum status tokenizer_bytes_fill(struct tokenizer *tokenizer, uint32_t n_tokens,
                                        struct span *texts, uint8_t *kinds, char *blob,
                                        struct error *error) {
    static const char text[] = "tokenizer of bytes, v1";
    struct fingerprint fingerprint;
    int n_digits = 4;
    while (n_digits < 8 && n_tokens - 1 >= 1u << 4 * n_digits)
        n_digits++;
    for (uint32_t id = 0; id < n_tokens; id++) {
        char *at = blob + (size_t)id * TEXT_MAX;
        size_t n = 1;
        if (id < 256)
            *at = (char)id;
        else
            n = (size_t)snprintf(at, TEXT_MAX, "<%0*x>", n_digits, id);
        texts[id] = (struct span){at, n};
        kinds[id] = TOKEN_NORMAL;
    }
    tokenizer->kind = &kind_bytes;
    tokenizer->bos_id = tokenizer->eos_id = TOKEN_NONE;
    if (fingerprint_begin(&fingerprint) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    fingerprint_add(&fingerprint, text, sizeof text);
    fingerprint_add(&fingerprint, &n_tokens, sizeof n_tokens); /* it decides everything */
    fingerprint_end(&fingerprint, tokenizer->fingerprint);
    return vocabulary_init(&tokenizer->vocabulary, texts, kinds, NULL, n_tokens, error);
}

enum status tokenizer_open_bytes(uint32_t n_tokens, struct tokenizer **tokenizer,
                                 struct error *error) {
    if (n_tokens > VOCABULARY_TOKENS_MAX)
        return error_set(error, STATUS_LIMIT, "a vocabulary of %u tokens, at most %u are served",
                         n_tokens, VOCABULARY_TOKENS_MAX);
    struct tokenizer *opened = calloc(1, sizeof *opened);
    struct span *texts = calloc(n_tokens, sizeof *texts);
    uint8_t *kinds = malloc(n_tokens);
    char *blob = malloc((size_t)n_tokens * TEXT_MAX);
    enum status status = STATUS_NOMEM;
    if (opened && texts && kinds && blob)
        status = tokenizer_bytes_fill(opened, n_tokens, texts, kinds, blob, error);
    else
        error_set(error, status, "no memory for a tokenizer");
    free(texts);
    free(kinds);
    free(blob);
    if (status != STATUS_OK)
        tokenizer_close(opened);
    else
        *tokenizer = opened;
    return status;
}
