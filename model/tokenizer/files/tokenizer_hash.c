/* The tokenizer of the pseudo-model `hash`. */
#include "model/tokenizer/files/tokenizer_parts.h"
#include "model/tokenizer/tokenizer_kinds.h"

#include <stdio.h>
#include <stdlib.h>

#define HASH_TOKENS 65536u

static enum status open_hash(struct tokenizer *tokenizer, struct span *texts, uint8_t *kinds,
                             char *blob, struct error *error) {
    const struct tokenizer_parts parts = {.recipe = SPAN("hash")};
    char *at = blob;
    for (uint32_t id = 0; id < HASH_TOKENS; id++) {
        size_t n = 1;
        if (id < 256)
            *at = (char)id;
        else
            n = (size_t)snprintf(at, 8, "<%04x>", id);
        texts[id] = (struct span){at, n};
        kinds[id] = TOKEN_NORMAL;
        at += n;
    }
    tokenizer->kind = &tokenizer_kind_bytes;
    tokenizer->bos_id = tokenizer->eos_id = TOKEN_NONE;
    TRY(vocabulary_init(&tokenizer->vocabulary, texts, kinds, HASH_TOKENS, error));
    return tokenizer_fingerprint(tokenizer, &parts, error);
}

enum status tokenizer_open_hash(struct tokenizer **tokenizer, struct error *error) {
    struct tokenizer *opened = calloc(1, sizeof *opened);
    struct span *texts = calloc(HASH_TOKENS, sizeof *texts);
    uint8_t *kinds = malloc(HASH_TOKENS);
    char *blob = malloc(HASH_TOKENS * 8);
    enum status status = STATUS_NOMEM;
    if (opened && texts && kinds && blob)
        status = open_hash(opened, texts, kinds, blob, error);
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
