/* Builds tokenizers: from a file's description, from GGUF keys, and the one of `hash`. */
#include "base/assert.h"
#include "model/alphabet.h"
#include "model/gguf.h"
#include "model/tokenizer.h"
#include "model/tokenizer_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#define HASH_TOKENS 65536u

/* Tokens as the bytes they stand for: normal ones are spelled in GPT-2's alphabet, the others as
 * they are. *texts and *blob are the caller's. */
static enum status decode_tokens(const struct tokenizer_source *source, struct span **texts,
                                 char **blob) {
    size_t total = 0;
    for (uint32_t id = 0; id < source->n_tokens; id++)
        total += source->tokens[id].n;
    *texts = calloc((size_t)source->n_tokens + 1, sizeof **texts);
    *blob = malloc(total + 1);
    if (!*texts || !*blob)
        return STATUS_NOMEM;
    char *at = *blob;
    for (uint32_t id = 0; id < source->n_tokens; id++) {
        struct span token = source->tokens[id];
        size_t n;
        (*texts)[id] = token;
        /* A normal token with characters outside the alphabet stands for its own UTF-8. */
        if (source->kinds[id] != TOKEN_NORMAL || !alphabet_decode(token.bytes, token.n, at, &n))
            continue;
        (*texts)[id] = (struct span){at, n};
        at += n;
    }
    return STATUS_OK;
}

static enum status fill_vocabulary(struct tokenizer *tokenizer,
                                   const struct tokenizer_source *source, struct error *error) {
    struct span *texts = NULL;
    char *blob = NULL;
    enum status status = decode_tokens(source, &texts, &blob);
    if (status != STATUS_OK)
        error_set(error, status, "no memory for a vocabulary of %u tokens", source->n_tokens);
    else
        status =
            vocabulary_init(&tokenizer->vocabulary, texts, source->kinds, source->n_tokens, error);
    free(texts);
    free(blob);
    return status;
}

static void hash_span(XXH3_state_t *state, struct span span) {
    uint64_t n = span.n;
    XXH3_128bits_update(state, &n, sizeof n);
    if (n > 0)
        XXH3_128bits_update(state, span.bytes, n);
}

/* Half of the fingerprint: everything that decides which ids a text gets and which bytes an id
 * has. */
static enum status hash_source(const struct tokenizer *tokenizer,
                               const struct tokenizer_source *source, uint64_t seed,
                               uint8_t half[16]) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    uint32_t n_tokens = vocabulary->n_tokens;
    uint32_t ends[3] = {tokenizer->bos_id, tokenizer->eos_id, tokenizer->add_bos};
    XXH128_canonical_t canonical;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return STATUS_NOMEM;
    XXH3_128bits_reset_withSeed(state, seed);
    hash_span(state, (struct span){tokenizer->kind->name, strlen(tokenizer->kind->name)});
    hash_span(state, source->pre);
    XXH3_128bits_update(state, ends, sizeof ends);
    XXH3_128bits_update(state, vocabulary->offsets, ((size_t)n_tokens + 1) * sizeof(uint32_t));
    XXH3_128bits_update(state, vocabulary->bytes, vocabulary->offsets[n_tokens]);
    XXH3_128bits_update(state, vocabulary->kinds, n_tokens);
    for (size_t i = 0; i < source->n_merges; i++)
        hash_span(state, source->merges[i]);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    memcpy(half, canonical.digest, 16);
    return STATUS_OK;
}

static enum status fingerprint(struct tokenizer *tokenizer, const struct tokenizer_source *source,
                               struct error *error) {
    if (hash_source(tokenizer, source, 0, tokenizer->fingerprint) != STATUS_OK ||
        hash_source(tokenizer, source, 1, tokenizer->fingerprint + 16) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    return STATUS_OK;
}

static enum status check_ends(const struct tokenizer_source *source, struct error *error) {
    if (source->bos_id != TOKEN_NONE && source->bos_id >= source->n_tokens)
        return error_field(error, STATUS_CORRUPT, "bos_token_id",
                           "bos_token_id %u is not in the vocabulary of %u", source->bos_id,
                           source->n_tokens);
    if (source->eos_id != TOKEN_NONE && source->eos_id >= source->n_tokens)
        return error_field(error, STATUS_CORRUPT, "eos_token_id",
                           "eos_token_id %u is not in the vocabulary of %u", source->eos_id,
                           source->n_tokens);
    if (source->add_bos && source->bos_id == TOKEN_NONE)
        return error_field(error, STATUS_CORRUPT, "add_bos_token",
                           "add_bos_token is set, but there is no bos_token_id");
    return STATUS_OK;
}

static enum status open_bpe(struct tokenizer *tokenizer, const struct tokenizer_source *source,
                            struct error *error) {
    tokenizer->kind = &tokenizer_kind_bpe;
    tokenizer->bos_id = source->bos_id;
    tokenizer->eos_id = source->eos_id;
    tokenizer->add_bos = source->add_bos;
    TRY(fill_vocabulary(tokenizer, source, error));
    if (tokenizer->vocabulary.n_bytes_max == 0)
        return error_set(error, STATUS_CORRUPT, "all tokens are empty");
    TRY(pretokenizer_init(&tokenizer->pretokenizer, source->pre, error));
    TRY(bpe_init(&tokenizer->bpe, &tokenizer->vocabulary, source->merges, source->n_merges, error));
    return fingerprint(tokenizer, source, error);
}

enum status tokenizer_open(const struct tokenizer_source *source, struct tokenizer **tokenizer,
                           struct error *error) {
    if (!span_is(source->model, "gpt2"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "tokenizer model \"%.*s\" is not supported; gpt2 (byte-level BPE) is",
                         span_shown(source->model), source->model.bytes);
    TRY(check_ends(source, error));
    struct tokenizer *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    enum status status = open_bpe(opened, source, error);
    if (status != STATUS_OK)
        tokenizer_close(opened);
    else
        *tokenizer = opened;
    return status;
}

/* Optional keys keep the value that is there. */
static enum status optional_id(const struct gguf *gguf, const char *key, uint32_t *id,
                               struct error *error) {
    return gguf_find(gguf, key) ? gguf_u32(gguf, key, id, error) : STATUS_OK;
}

/* An array of strings as spans into the mapping; *texts is the caller's. */
static enum status load_texts(const struct gguf *gguf, const char *key, uint64_t n_max,
                              struct span **texts, size_t *n, struct error *error) {
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
static enum status load_kinds(const struct gguf *gguf, uint32_t n, uint8_t **kinds,
                              struct error *error) {
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
        (*kinds)[i] = kind > UINT8_MAX ? 0 : (uint8_t)kind; /* 0 is refused by the vocabulary */
    }
    return STATUS_OK;
}

static enum status load_source(const struct gguf *gguf, struct tokenizer_source *source,
                               struct span **tokens, struct span **merges, uint8_t **kinds,
                               struct error *error) {
    size_t n_tokens = 0;
    source->pre = SPAN("gpt-2"); /* files from before the key existed meant this one */
    source->bos_id = source->eos_id = TOKEN_NONE;
    TRY(gguf_string(gguf, "tokenizer.ggml.model", &source->model, error));
    if (gguf_find(gguf, "tokenizer.ggml.pre"))
        TRY(gguf_string(gguf, "tokenizer.ggml.pre", &source->pre, error));
    TRY(load_texts(gguf, "tokenizer.ggml.tokens", VOCABULARY_TOKENS_MAX, tokens, &n_tokens, error));
    source->n_tokens = (uint32_t)n_tokens;
    TRY(load_kinds(gguf, source->n_tokens, kinds, error));
    if (gguf_find(gguf, "tokenizer.ggml.merges"))
        TRY(load_texts(gguf, "tokenizer.ggml.merges", BPE_MERGES_MAX, merges, &source->n_merges,
                       error));
    TRY(optional_id(gguf, "tokenizer.ggml.bos_token_id", &source->bos_id, error));
    TRY(optional_id(gguf, "tokenizer.ggml.eos_token_id", &source->eos_id, error));
    if (gguf_find(gguf, "tokenizer.ggml.add_bos_token"))
        TRY(gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &source->add_bos, error));
    source->tokens = *tokens;
    source->merges = *merges;
    source->kinds = *kinds;
    return STATUS_OK;
}

enum status tokenizer_open_gguf(const struct gguf *gguf, struct tokenizer **tokenizer,
                                struct error *error) {
    struct tokenizer_source source = {0};
    struct span *tokens = NULL;
    struct span *merges = NULL;
    uint8_t *kinds = NULL;
    enum status status = load_source(gguf, &source, &tokens, &merges, &kinds, error);
    if (status == STATUS_OK) {
        status = tokenizer_open(&source, tokenizer, error);
        if (status != STATUS_OK)
            error_prefix(error, "%s: tokenizer", gguf->name);
    }
    free(tokens);
    free(merges);
    free(kinds);
    return status;
}

static enum status open_hash(struct tokenizer *tokenizer, struct span *texts, uint8_t *kinds,
                             char *blob, struct error *error) {
    struct tokenizer_source source = {.pre = SPAN("hash")};
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
    return fingerprint(tokenizer, &source, error);
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

void tokenizer_close(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    if (tokenizer->kind && tokenizer->kind->close)
        tokenizer->kind->close(tokenizer);
    free(tokenizer->shown.bytes);
    free(tokenizer->shown.offsets);
    bpe_fini(&tokenizer->bpe);
    pretokenizer_fini(&tokenizer->pretokenizer);
    vocabulary_fini(&tokenizer->vocabulary);
    free(tokenizer);
}
