/* Makes tokenizers of kind spm from their parts, which may come from any of its files. */
#include "model/text/tokenizer/files/spm_tokenizer.h"

#include "base/fingerprint.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"
#include "model/text/tokenizer/tokenizer_kinds.h"

#include <stdlib.h>

/* What users see of a token, into `to`; returns its length, which is never more than the text's. */
static size_t spm_show_token(const struct spm *spm, struct span text, uint32_t id, char *to) {
    size_t n = 0;
    uint8_t kind = id < spm->n_pieces ? spm->kinds[id] : TOKEN_CONTROL;
    if (kind == TOKEN_BYTE) {
        *to = (char)vocabulary_byte_token(text); /* spm_init() has seen that it is one */
        return 1;
    }
    for (size_t at = 0; at < text.n;) {
        bool is_blank = kind != TOKEN_CONTROL && kind != TOKEN_UNKNOWN &&
                        text.n - at >= SPM_BLANK_N &&
                        memcmp(text.bytes + at, SPM_BLANK, SPM_BLANK_N) == 0;
        to[n++] = is_blank ? ' ' : text.bytes[at];
        at += is_blank ? SPM_BLANK_N : 1;
    }
    return n;
}

static enum status spm_fill_shown(struct tokenizer *tokenizer, struct error *error) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct token_texts *shown = &tokenizer->shown;
    uint32_t n = vocabulary->n_tokens;
    uint32_t at = 0;
    shown->bytes = malloc((size_t)vocabulary->offsets[n] + 1);
    shown->offsets = calloc((size_t)n + 1, sizeof *shown->offsets);
    if (!shown->bytes || !shown->offsets)
        return error_set(error, STATUS_NOMEM, "no memory for a vocabulary of %u tokens", n);
    for (uint32_t id = 0; id < n; id++) {
        shown->offsets[id] = at;
        at += (uint32_t)spm_show_token(tokenizer->own, vocabulary_bytes(vocabulary, id), id,
                                       shown->bytes + at);
    }
    shown->offsets[n] = at;
    return STATUS_OK;
}

/* Everything that decides which ids a text gets and which bytes an id has. */
static enum status spm_fill_fingerprint(struct tokenizer *tokenizer, struct error *error) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    const struct spm *spm = tokenizer->own;
    uint32_t numbers[] = {spm->n_pieces,      spm->unk_id,       spm->algorithm,
                          spm->byte_fallback, spm->prefix,       spm->prefix_always,
                          spm->suffix,        spm->squeezes,     spm->escapes,
                          tokenizer->bos_id,  tokenizer->eos_id, spm->n_unk_surface,
                          spm->own.n_nodes};
    struct fingerprint fingerprint;
    if (fingerprint_begin(&fingerprint) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    fingerprint_add(&fingerprint, "sentencepiece", 13);
    fingerprint_add(&fingerprint, numbers, sizeof numbers);
    fingerprint_add(&fingerprint, &tokenizer->before, sizeof tokenizer->before);
    fingerprint_add(&fingerprint, &tokenizer->behind, sizeof tokenizer->behind);
    fingerprint_add(&fingerprint, spm->unk_surface, spm->n_unk_surface);
    fingerprint_add(&fingerprint, vocabulary->offsets,
                    ((size_t)vocabulary->n_tokens + 1) * sizeof(uint32_t));
    fingerprint_add(&fingerprint, vocabulary->bytes, vocabulary->offsets[vocabulary->n_tokens]);
    fingerprint_add(&fingerprint, vocabulary->kinds, vocabulary->n_tokens);
    fingerprint_add(&fingerprint, vocabulary->flags, vocabulary->n_tokens);
    fingerprint_add(&fingerprint, spm->kinds, spm->n_pieces);
    fingerprint_add(&fingerprint, spm->scores, spm->n_pieces * sizeof *spm->scores);
    fingerprint_add(&fingerprint, spm->charsmap.units,
                    spm->charsmap.n_units * sizeof *spm->charsmap.units);
    fingerprint_add(&fingerprint, spm->charsmap.texts, spm->charsmap.n_texts);
    fingerprint_end(&fingerprint, tokenizer->fingerprint);
    return STATUS_OK;
}

static enum status spm_tokenizer_fill(struct tokenizer *tokenizer, const struct spm_parts *parts,
                                      struct error *error) {
    struct spm *spm = calloc(1, sizeof *spm);
    tokenizer->kind = &tokenizer_kind_spm;
    tokenizer->own = spm;
    if (!spm)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    TRY(tokenizer_set_ends(tokenizer, &parts->tokens, error));
    tokenizer->shrinks =
        parts->source->squeezes || parts->source->charsmap.n > 0 || !parts->source->byte_fallback;
    TRY(vocabulary_init(&tokenizer->vocabulary, parts->tokens.texts, parts->tokens.kinds,
                        parts->tokens.flags, parts->tokens.n, error));
    TRY(spm_init(spm, parts->source, &tokenizer->vocabulary, error));
    TRY(spm_fill_shown(tokenizer, error));
    return spm_fill_fingerprint(tokenizer, error);
}

enum status spm_tokenizer_new(const struct spm_parts *parts, struct tokenizer **tokenizer,
                              struct error *error) {
    struct tokenizer *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    enum status status = spm_tokenizer_fill(opened, parts, error);
    if (status != STATUS_OK)
        tokenizer_close(opened);
    else
        *tokenizer = opened;
    return status;
}
