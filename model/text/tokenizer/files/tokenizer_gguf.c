/* A tokenizer from the tokenizer.ggml.* keys of a GGUF file (ggml-org/ggml docs/gguf.md). */
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/bpe/pretokenize_names.h"
#include "model/text/tokenizer/files/spm_tokenizer.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdlib.h>

/* An array of strings as spans into the mapping; *texts is the caller's. */
static enum status tokenizer_gguf_load_texts(const struct gguf *gguf, const char *key,
                                             uint64_t n_max, struct span **texts, size_t *n,
                                             struct error *error) {
    struct gguf_array array;
    TRY(gguf_array_of(gguf, key, GGUF_STRING, &array, error));
    if (array.n > n_max)
        return error_field(error, STATUS_LIMIT, key, "key %s has more than %llu items", key,
                           (unsigned long long)n_max);
    *n = (size_t)array.n;
    *texts = calloc(*n + 1, sizeof **texts);
    if (!*texts)
        return error_set(error, STATUS_NOMEM, "no memory for %s", key);
    for (size_t i = 0; gguf_array_next_text(&array, &(*texts)[i]);)
        i++;
    return STATUS_OK;
}

/* tokenizer.ggml.token_type, or all normal where the key is absent; *kinds is the caller's. */
static enum status tokenizer_gguf_load_kinds(const struct gguf *gguf, const struct span *tokens,
                                             uint32_t n, uint8_t **kinds, struct error *error) {
    static const char key[] = "tokenizer.ggml.token_type";
    struct gguf_array array;
    *kinds = malloc((size_t)n + 1);
    if (!*kinds)
        return error_set(error, STATUS_NOMEM, "no memory for %s", key);
    memset(*kinds, TOKEN_NORMAL, n);
    if (!gguf_find(gguf, key))
        return STATUS_OK;
    TRY(gguf_array_of(gguf, key, GGUF_I32, &array, error));
    if (array.n != n)
        return error_field(error, STATUS_CORRUPT, key, "%u tokens, but %llu token types", n,
                           (unsigned long long)array.n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t kind = gguf_array_u32(&array, i);
        /* 0 is refused by the vocabulary. */
        (*kinds)[i] = kind > UINT8_MAX ? 0 : vocabulary_kind(tokens[i], (uint8_t)kind);
    }
    return STATUS_OK;
}

static enum status tokenizer_gguf_load_source(const struct gguf *gguf,
                                              struct tokenizer_source *source, struct span **tokens,
                                              struct span **merges, uint8_t **kinds,
                                              struct error *error) {
    size_t n_tokens = 0;
    source->pre = SPAN("gpt-2"); /* files from before the key existed meant this one */
    source->tokens.bos_id = source->tokens.eos_id = TOKEN_NONE;
    TRY(gguf_need(gguf, "tokenizer.ggml.model", error));
    TRY(gguf_string(gguf, "tokenizer.ggml.model", &source->model, error));
    TRY(gguf_string(gguf, "tokenizer.ggml.pre", &source->pre, error));
    TRY(tokenizer_gguf_load_texts(gguf, "tokenizer.ggml.tokens", VOCABULARY_TOKENS_MAX, tokens,
                                  &n_tokens, error));
    source->tokens.n = (uint32_t)n_tokens;
    TRY(tokenizer_gguf_load_kinds(gguf, *tokens, source->tokens.n, kinds, error));
    if (gguf_find(gguf, "tokenizer.ggml.merges"))
        TRY(tokenizer_gguf_load_texts(gguf, "tokenizer.ggml.merges", BPE_MERGES_MAX, merges,
                                      &source->n_merges, error));
    TRY(gguf_u32(gguf, "tokenizer.ggml.bos_token_id", &source->tokens.bos_id, error));
    TRY(gguf_u32(gguf, "tokenizer.ggml.eos_token_id", &source->tokens.eos_id, error));
    const struct pretokenize_name *name = pretokenize_find(source->pre);
    source->tokens.add_bos = name && name->adds_bos && source->tokens.bos_id != TOKEN_NONE;
    TRY(gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &source->tokens.add_bos, error));
    TRY(gguf_bool(gguf, "tokenizer.ggml.add_eos_token", &source->tokens.add_eos, error));
    source->tokens.texts = *tokens;
    source->merges = *merges;
    source->tokens.kinds = *kinds;
    return STATUS_OK;
}

enum status tokenizer_open_gguf(const struct gguf *gguf, struct tokenizer **tokenizer,
                                struct error *error) {
    struct tokenizer_source source = {0};
    struct span *tokens = NULL;
    struct span *merges = NULL;
    uint8_t *kinds = NULL;
    enum status status = tokenizer_gguf_load_source(gguf, &source, &tokens, &merges, &kinds, error);
    if (status == STATUS_OK)
        status = error_within(error,
                              span_is(source.model, "llama")
                                  ? spm_tokenizer_open_gguf(gguf, &source, tokenizer, error)
                                  : tokenizer_open(&source, tokenizer, error),
                              "%s: tokenizer", gguf->name);
    free(tokens);
    free(merges);
    free(kinds);
    return status;
}
