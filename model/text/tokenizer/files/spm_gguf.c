/* SentencePiece vocabularies in GGUF files: tokenizer.ggml.model "llama", read as llama.cpp reads
 * them (llama-vocab.cpp): always BPE, no table of replacements, user-defined tokens are cut out of
 * the text first, and what follows a special token begins with a blank as a text does. */
#include "model/gguf/gguf.h"
#include "model/text/tokenizer/files/spm_tokenizer.h"

#include <ctype.h>
#include <stdlib.h>

static enum status spm_gguf_load_scores(const struct gguf *gguf, uint32_t n, float *scores,
                                        struct error *error) {
    static const char key[] = "tokenizer.ggml.scores";
    struct gguf_array array;
    TRY(gguf_array_of(gguf, key, GGUF_F32, &array, error));
    if (array.n != n)
        return error_field(error, STATUS_CORRUPT, key, "%u tokens, but %llu scores", n,
                           (unsigned long long)array.n);
    if (n > 0)
        memcpy(scores, array.items, (size_t)n * sizeof *scores);
    return STATUS_OK;
}

/* The bytes, and files from before tokenizer.ggml.token_type existed: there the types follow from
 * the texts and the ids. */
static bool spm_gguf_fix_kinds(const struct tokenizer_tokens *tokens, uint32_t unk_id,
                               bool are_typed, uint8_t *kinds) {
    uint32_t n_bytes = 0;
    for (uint32_t id = 0; id < tokens->n; id++) {
        if (!are_typed && vocabulary_byte_token(tokens->texts[id]) >= 0)
            kinds[id] = TOKEN_BYTE;
        if (!are_typed && (id == tokens->bos_id || id == tokens->eos_id))
            kinds[id] = TOKEN_CONTROL;
        if (!are_typed && id == unk_id)
            kinds[id] = TOKEN_UNKNOWN;
        n_bytes += kinds[id] == TOKEN_BYTE;
    }
    return n_bytes >= 256;
}

static bool spm_gguf_is_one_of(struct span text, const char *const *list) {
    for (; *list; list++)
        if (span_is(text, *list))
            return true;
    return false;
}

/* Phi-3's special tokens take the white space behind them, which no key says: llama.cpp, too, goes
 * by the model's name. */
static void spm_gguf_strip_behind(const struct gguf *gguf, const struct tokenizer_tokens *tokens,
                                  uint8_t *flags) {
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>", NULL};
    struct error error;
    struct span name = {0};
    if (gguf_string(gguf, "general.name", &name, &error) != STATUS_OK)
        return;
    char lower[64];
    size_t n = name.n < sizeof lower - 1 ? name.n : sizeof lower - 1;
    for (size_t i = 0; i < n; i++)
        lower[i] = (char)tolower((unsigned char)name.bytes[i]);
    lower[n] = 0;
    if (!strstr(lower, "phi-3") && !strstr(lower, "phi3"))
        return;
    for (uint32_t id = 0; id < tokens->n; id++)
        if ((tokens->kinds[id] == TOKEN_CONTROL || tokens->kinds[id] == TOKEN_USER_DEFINED) &&
            !spm_gguf_is_one_of(tokens->texts[id], others))
            flags[id] = TOKEN_STRIPS_RIGHT;
}

static enum status spm_gguf_load_flags(const struct gguf *gguf, struct spm_source *source,
                                       struct tokenizer_tokens *tokens, struct error *error) {
    tokens->add_bos = true; /* what llama.cpp takes where the file says nothing */
    source->prefix = true;
    TRY(gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &tokens->add_bos, error));
    TRY(gguf_bool(gguf, "tokenizer.ggml.add_eos_token", &tokens->add_eos, error));
    TRY(gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", &source->prefix, error));
    TRY(gguf_bool(gguf, "tokenizer.ggml.remove_extra_whitespaces", &source->squeezes, error));
    if (!gguf_find(gguf, "tokenizer.ggml.unknown_token_id"))
        return STATUS_OK;
    TRY(gguf_u32(gguf, "tokenizer.ggml.unknown_token_id", &source->unk_id, error));
    if (source->unk_id < tokens->n)
        return STATUS_OK;
    return error_field(error, STATUS_CORRUPT, "unknown_token_id",
                       "unknown_token_id %u is not in the vocabulary of %u", source->unk_id,
                       tokens->n);
}

/* `kinds`: the file's, the vocabulary's and the flags, (n_tokens) each. */
static enum status spm_gguf_build(const struct gguf *gguf, const struct tokenizer_source *common,
                                  float *scores, uint8_t *kinds, struct tokenizer **tokenizer,
                                  struct error *error) {
    struct tokenizer_tokens tokens = common->tokens;
    struct spm_source source = {.algorithm = SPM_BPE,
                                .pieces = tokens.texts,
                                .scores = scores,
                                .kinds = kinds,
                                .n_pieces = tokens.n,
                                .unk_id = TOKEN_NONE,
                                .is_cut = true,
                                .prefix_always = true,
                                .escapes = true,
                                .unk_surface = SPAN(SPM_SURFACE_DEFAULT)};
    uint8_t *flags = kinds + (size_t)2 * tokens.n;
    memcpy(kinds, tokens.kinds, tokens.n);
    tokens.kinds = kinds + tokens.n;
    tokens.flags = flags;
    TRY(spm_gguf_load_scores(gguf, tokens.n, scores, error));
    TRY(spm_gguf_load_flags(gguf, &source, &tokens, error));
    if (tokens.bos_id == TOKEN_NONE)
        tokens.bos_id = 1;
    if (tokens.eos_id == TOKEN_NONE)
        tokens.eos_id = 2;
    source.byte_fallback = spm_gguf_fix_kinds(
        &tokens, source.unk_id, gguf_find(gguf, "tokenizer.ggml.token_type") != NULL, kinds);
    spm_source_kinds(&source, kinds + tokens.n);
    spm_gguf_strip_behind(gguf, &tokens, flags);
    return spm_tokenizer_new(&(struct spm_parts){&source, tokens}, tokenizer, error);
}

enum status spm_tokenizer_open_gguf(const struct gguf *gguf, const struct tokenizer_source *source,
                                    struct tokenizer **tokenizer, struct error *error) {
    float *scores = calloc((size_t)source->tokens.n + 1, sizeof *scores);
    uint8_t *kinds = calloc((size_t)source->tokens.n + 1, 3);
    enum status status = STATUS_NOMEM;
    if (scores && kinds)
        status = spm_gguf_build(gguf, source, scores, kinds, tokenizer, error);
    else
        error_set(error, status, "no memory for a vocabulary of %u tokens", source->tokens.n);
    free(scores);
    free(kinds);
    return status;
}
