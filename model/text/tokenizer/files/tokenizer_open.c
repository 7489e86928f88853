/* Builds tokenizers of kind bpe from their parts. */
#include "base/fingerprint.h"
#include "model/text/tokenizer/bpe/alphabet.h"
#include "model/text/tokenizer/bpe/pretokenize_names.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"
#include "model/text/tokenizer/tokenizer.h"
#include "model/text/tokenizer/tokenizer_kinds.h"

#include <stdlib.h>

/* Spans in the alphabet as the bytes they stand for, in memory of their own. */
struct decoded {
    char *blob; /* owned */
    size_t n;
};

static enum status tokenizer_decoded_init(struct decoded *decoded, size_t n_bytes) {
    *decoded = (struct decoded){.blob = malloc(n_bytes + 1)};
    return decoded->blob ? STATUS_OK : STATUS_NOMEM;
}

/* A text with characters outside the alphabet stands for its own UTF-8. */
static struct span tokenizer_decode_text(struct decoded *decoded, struct span text,
                                         bool *in_alphabet) {
    size_t n;
    char *at = decoded->blob + decoded->n;
    *in_alphabet = alphabet_decode(text.bytes, text.n, at, &n);
    if (!*in_alphabet)
        return text;
    decoded->n += n;
    return (struct span){at, n};
}

/* Tokens as the bytes they stand for: special ones are spelled as they are. A normal token outside
 * the alphabet is never the end of merges, which know nothing but the alphabet; its bytes may be
 * those of one that is (Command R has such a pair). */
static void tokenizer_decode_tokens(const struct tokenizer_parts *parts, struct decoded *decoded,
                                    struct span *texts, uint8_t *kinds) {
    for (uint32_t id = 0; id < parts->tokens.n; id++) {
        bool in_alphabet = true;
        texts[id] = parts->tokens.texts[id];
        kinds[id] = parts->tokens.kinds[id];
        if (parts->spelling != SPELLED_IN_ALPHABET || kinds[id] != TOKEN_NORMAL)
            continue;
        texts[id] = tokenizer_decode_text(decoded, parts->tokens.texts[id], &in_alphabet);
        if (!in_alphabet)
            kinds[id] = TOKEN_UNUSED;
    }
}

static enum status tokenizer_fill_vocabulary(struct tokenizer *tokenizer,
                                             const struct tokenizer_parts *parts,
                                             struct error *error) {
    struct decoded decoded = {0};
    size_t total = 0;
    for (uint32_t id = 0; id < parts->tokens.n; id++)
        total += parts->tokens.texts[id].n;
    struct span *texts = calloc((size_t)parts->tokens.n + 1, sizeof *texts);
    uint8_t *kinds = malloc((size_t)parts->tokens.n + 1);
    enum status status = texts && kinds ? tokenizer_decoded_init(&decoded, total) : STATUS_NOMEM;
    if (status == STATUS_OK) {
        tokenizer_decode_tokens(parts, &decoded, texts, kinds);
        status = vocabulary_init(&tokenizer->vocabulary, texts, kinds, parts->tokens.flags,
                                 parts->tokens.n, error);
    } else {
        error_set(error, status, "no memory for a vocabulary of %u tokens", parts->tokens.n);
    }
    free(texts);
    free(kinds);
    free(decoded.blob);
    return status;
}

/* A side that is spelled outside the alphabet never comes up; with a blank in it, it is not a side but
 * a broken line, which is for bpe_init() to name. */
static bool tokenizer_is_foreign(struct span side, bool in_alphabet) {
    return !in_alphabet && side.n > 0 && !memchr(side.bytes, ' ', side.n);
}

static enum status tokenizer_fill_merges(struct tokenizer *tokenizer,
                                         const struct tokenizer_parts *parts, struct error *error) {
    if (parts->spelling != SPELLED_IN_ALPHABET)
        return bpe_init(&tokenizer->bpe, &tokenizer->vocabulary, &parts->options, parts->merges,
                        parts->n_merges, error);
    struct decoded decoded = {0};
    size_t total = 0;
    for (size_t i = 0; i < parts->n_merges; i++)
        total += parts->merges[i].left.n + parts->merges[i].right.n;
    struct bpe_merge *merges = calloc(parts->n_merges + 1, sizeof *merges);
    enum status status = merges ? tokenizer_decoded_init(&decoded, total) : STATUS_NOMEM;
    if (status != STATUS_OK) {
        free(merges);
        return error_set(error, status, "no memory for %zu merges", parts->n_merges);
    }
    size_t n = 0;
    for (size_t i = 0; i < parts->n_merges; i++) {
        bool left_in;
        bool right_in;
        merges[n].left = tokenizer_decode_text(&decoded, parts->merges[i].left, &left_in);
        merges[n].right = tokenizer_decode_text(&decoded, parts->merges[i].right, &right_in);
        bool is_lost = tokenizer_is_foreign(merges[n].left, left_in) ||
                       tokenizer_is_foreign(merges[n].right, right_in);
        n += !is_lost;
    }
    status = bpe_init(&tokenizer->bpe, &tokenizer->vocabulary, &parts->options, merges, n, error);
    free(merges);
    free(decoded.blob);
    return status;
}

/* The tokens as they are shown, but for the decoder: those that stand in normalized text are
 * spelled in its form. */
struct spelled {
    struct span *texts; /* owned (n_tokens) */
    struct buf forms;   /* owned: what some of them point into */
};

static enum status tokenizer_normalize_specials(const struct tokenizer *tokenizer,
                                                struct spelled *spelled) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    struct tokenizer_scratch *scratch = tokenizer_scratch_new();
    enum status status = scratch ? STATUS_OK : STATUS_NOMEM;
    for (uint32_t id = 0; status == STATUS_OK && id < vocabulary->n_tokens; id++) {
        struct span text;
        bool lost_front;
        if (!(vocabulary->flags[id] & TOKEN_NORMALIZED))
            continue;
        status = normalize(&tokenizer->normalizer, &scratch->normalize, &scratch->pretokenize.regex,
                           vocabulary_bytes(vocabulary, id), &text, &lost_front);
        if (status != STATUS_OK)
            break;
        buf_append(&spelled->forms, text.bytes, text.n);
        spelled->texts[id].n = text.n; /* its bytes once they no longer move */
    }
    tokenizer_scratch_free(scratch);
    TRY(status);
    return buf_status(&spelled->forms);
}

/* Makes them known in normalized text, too. */
static enum status tokenizer_index_specials(struct tokenizer *tokenizer, struct spelled *spelled,
                                            struct error *error) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t at = 0;
    if (spelled->forms.n == 0)
        return STATUS_OK;
    TRY(trie_init(&tokenizer->normalized_specials, spelled->forms.n, error));
    for (uint32_t id = 0; id < vocabulary->n_tokens; id++) {
        struct span *text = &spelled->texts[id];
        if (!(vocabulary->flags[id] & TOKEN_NORMALIZED))
            continue;
        text->bytes = spelled->forms.data + at;
        at += text->n;
        if (text->n > 0)
            trie_add(&tokenizer->normalized_specials, *text, id);
    }
    return STATUS_OK;
}

static enum status tokenizer_fill_shown(struct tokenizer *tokenizer,
                                        const struct tokenizer_parts *parts, struct error *error) {
    struct spelled spelled = {.texts = calloc((size_t)parts->tokens.n + 1, sizeof(struct span))};
    if (!spelled.texts)
        return error_set(error, STATUS_NOMEM, "no memory for the special tokens");
    buf_init(&spelled.forms, NORMALIZE_BYTES_MAX);
    for (uint32_t id = 0; id < parts->tokens.n; id++)
        spelled.texts[id] = parts->tokens.texts[id];
    enum status status = tokenizer_normalize_specials(tokenizer, &spelled);
    if (status == STATUS_OK)
        status = tokenizer_index_specials(tokenizer, &spelled, error);
    if (status != STATUS_OK)
        error_set(error, status, "the special tokens cannot be normalized");
    else
        status = decoder_show(&parts->decoder, spelled.texts, tokenizer, error);
    free(spelled.texts);
    buf_fini(&spelled.forms);
    return status;
}

static void tokenizer_hash_span(struct fingerprint *fingerprint, struct span span) {
    uint64_t n = span.n;
    fingerprint_add(fingerprint, &n, sizeof n);
    fingerprint_add(fingerprint, span.bytes, n);
}

enum status tokenizer_fingerprint(struct tokenizer *tokenizer, const struct tokenizer_parts *parts,
                                  struct error *error) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    const struct bpe_options *options = &parts->options;
    uint32_t numbers[] = {tokenizer->bos_id,      tokenizer->eos_id,     options->over_chars,
                          options->byte_fallback, options->fuse_unknown, options->ignores_merges,
                          options->by_rank,       options->unknown_id};
    struct fingerprint fingerprint;
    if (fingerprint_begin(&fingerprint) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for a tokenizer");
    tokenizer_hash_span(&fingerprint, span_of(tokenizer->kind->name));
    tokenizer_hash_span(&fingerprint, parts->recipe);
    fingerprint_add(&fingerprint, numbers, sizeof numbers);
    fingerprint_add(&fingerprint, &tokenizer->before, sizeof tokenizer->before);
    fingerprint_add(&fingerprint, &tokenizer->behind, sizeof tokenizer->behind);
    fingerprint_add(&fingerprint, vocabulary->offsets,
                    ((size_t)vocabulary->n_tokens + 1) * sizeof(uint32_t));
    fingerprint_add(&fingerprint, vocabulary->bytes, vocabulary->offsets[vocabulary->n_tokens]);
    fingerprint_add(&fingerprint, vocabulary->kinds, vocabulary->n_tokens);
    fingerprint_add(&fingerprint, vocabulary->flags, vocabulary->n_tokens);
    if (tokenizer->shown.bytes) {
        const uint32_t *offsets = tokenizer->shown.offsets;
        fingerprint_add(&fingerprint, offsets,
                        ((size_t)vocabulary->n_tokens + 1) * sizeof(uint32_t));
        fingerprint_add(&fingerprint, tokenizer->shown.bytes, offsets[vocabulary->n_tokens]);
    }
    for (size_t i = 0; i < parts->n_merges; i++) {
        tokenizer_hash_span(&fingerprint, parts->merges[i].left);
        tokenizer_hash_span(&fingerprint, parts->merges[i].right);
    }
    fingerprint_end(&fingerprint, tokenizer->fingerprint);
    return STATUS_OK;
}

static enum status tokenizer_check_end(uint32_t id, bool is_added, uint32_t n_tokens,
                                       const char *name, const char *flag, struct error *error) {
    if (id != TOKEN_NONE && id >= n_tokens)
        return error_field(error, STATUS_CORRUPT, name, "%s %u is not in the vocabulary of %u",
                           name, id, n_tokens);
    if (is_added && id == TOKEN_NONE)
        return error_field(error, STATUS_CORRUPT, flag, "%s is set, but %s is missing", flag, name);
    return STATUS_OK;
}

enum status tokenizer_ends_add(struct tokenizer_ends *ends, uint32_t id, struct error *error) {
    if (ends->n == TOKENIZER_ENDS_MAX)
        return error_set(error, STATUS_LIMIT, "more than %u special tokens on one side of a text",
                         TOKENIZER_ENDS_MAX);
    ends->ids[ends->n++] = id;
    return STATUS_OK;
}

static enum status tokenizer_add_end(struct tokenizer_ends *ends, uint32_t id, uint32_t n_tokens,
                                     struct error *error) {
    if (id >= n_tokens)
        return error_set(error, STATUS_CORRUPT,
                         "token %u is added to every text, but is not in the vocabulary of %u", id,
                         n_tokens);
    return tokenizer_ends_add(ends, id, error);
}

enum status tokenizer_set_ends(struct tokenizer *tokenizer, const struct tokenizer_tokens *tokens,
                               struct error *error) {
    tokenizer->bos_id = tokens->bos_id;
    tokenizer->eos_id = tokens->eos_id;
    TRY(tokenizer_check_end(tokens->bos_id, tokens->add_bos, tokens->n, "bos_token_id",
                            "add_bos_token", error));
    TRY(tokenizer_check_end(tokens->eos_id, tokens->add_eos, tokens->n, "eos_token_id",
                            "add_eos_token", error));
    if (tokens->add_bos)
        TRY(tokenizer_ends_add(&tokenizer->before, tokens->bos_id, error));
    for (uint32_t i = 0; i < tokens->before.n; i++)
        TRY(tokenizer_add_end(&tokenizer->before, tokens->before.ids[i], tokens->n, error));
    for (uint32_t i = 0; i < tokens->behind.n; i++)
        TRY(tokenizer_add_end(&tokenizer->behind, tokens->behind.ids[i], tokens->n, error));
    return tokens->add_eos ? tokenizer_ends_add(&tokenizer->behind, tokens->eos_id, error)
                           : STATUS_OK;
}

/* Whether a text may lose more than a normal form does (form C makes nine bytes of Hangul three):
 * then its length says nothing about how many tokens it has. */
static bool tokenizer_can_shrink(const struct tokenizer *tokenizer,
                                 const struct bpe_options *options) {
    const struct normalizer *normalizer = &tokenizer->normalizer;
    const struct pretokenizer *pretokenizer = &tokenizer->pretokenizer;
    bool shrinks = options->over_chars || options->fuse_unknown;
    for (uint32_t i = 0; i < normalizer->n_steps; i++)
        shrinks |= normalizer->steps[i].kind > NORMALIZE_NFKD;
    for (uint32_t i = 0; i < pretokenizer->n_steps; i++)
        shrinks |=
            pretokenizer->steps[i].kind == STEP_SPLIT && pretokenizer->steps[i].cut == CUT_REMOVED;
    for (unsigned byte = 0; byte < 256; byte++)
        shrinks |= tokenizer->bpe.byte_ids[byte] == TOKEN_NONE;
    for (uint32_t id = 0; id < tokenizer->vocabulary.n_tokens; id++)
        shrinks |=
            (tokenizer->vocabulary.flags[id] & (TOKEN_STRIPS_LEFT | TOKEN_STRIPS_RIGHT)) != 0;
    return shrinks;
}

static enum status tokenizer_open_build(struct tokenizer *tokenizer, struct tokenizer_parts *parts,
                                        struct error *error) {
    tokenizer->kind = &tokenizer_kind_bpe;
    TRY(tokenizer_set_ends(tokenizer, &parts->tokens, error));
    TRY(tokenizer_fill_vocabulary(tokenizer, parts, error));
    if (tokenizer->vocabulary.n_bytes_max == 0)
        return error_set(error, STATUS_CORRUPT, "all tokens are empty");
    TRY(tokenizer_fill_merges(tokenizer, parts, error));
    tokenizer->shrinks = tokenizer_can_shrink(tokenizer, &parts->options);
    TRY(tokenizer_fill_shown(tokenizer, parts, error));
    return tokenizer_fingerprint(tokenizer, parts, error);
}

void tokenizer_parts_fini(struct tokenizer_parts *parts) {
    normalizer_fini(&parts->normalizer);
    pretokenizer_fini(&parts->pretokenizer);
    decoder_fini(&parts->decoder);
}

enum status tokenizer_build(struct tokenizer_parts *parts, struct tokenizer **tokenizer,
                            struct error *error) {
    struct tokenizer *opened = calloc(1, sizeof *opened);
    enum status status = STATUS_NOMEM;
    if (opened) {
        opened->normalizer = parts->normalizer;
        opened->pretokenizer = parts->pretokenizer;
        parts->normalizer = (struct normalizer){0};
        parts->pretokenizer = (struct pretokenizer){0};
        status = tokenizer_open_build(opened, parts, error);
    } else {
        error_set(error, status, "no memory for a tokenizer");
    }
    tokenizer_parts_fini(parts);
    if (status != STATUS_OK)
        tokenizer_close(opened);
    else
        *tokenizer = opened;
    return status;
}

/* "left right": a merge without a blank has an empty side, which no vocabulary has. */
static void tokenizer_split_merge(struct span text, struct bpe_merge *merge) {
    const char *blank = text.n > 0 ? memchr(text.bytes, ' ', text.n) : NULL;
    size_t cut = blank ? (size_t)(blank - text.bytes) : text.n;
    merge->left = (struct span){text.bytes, cut};
    merge->right =
        (struct span){text.bytes + cut + (blank != NULL), text.n - cut - (blank != NULL)};
}

static enum status tokenizer_fill_parts(const struct tokenizer_source *source,
                                        const struct pretokenize_name *name,
                                        struct bpe_merge *merges, struct tokenizer_parts *parts,
                                        struct error *error) {
    for (size_t i = 0; i < source->n_merges; i++)
        tokenizer_split_merge(source->merges[i], &merges[i]);
    if (name->is_nfc)
        TRY(normalizer_add(&parts->normalizer, NORMALIZE_NFC, error));
    TRY(decoder_add_byte_level(&parts->decoder, error));
    return pretokenizer_init(&parts->pretokenizer, name, error);
}

enum status tokenizer_open(const struct tokenizer_source *source, struct tokenizer **tokenizer,
                           struct error *error) {
    const struct pretokenize_name *name = pretokenize_find(source->pre);
    if (!span_is(source->model, "gpt2"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "tokenizer model \"%.*s\" is not supported; gpt2 (byte-level BPE) "
                         "and llama (SentencePiece) are",
                         span_shown(source->model), source->model.bytes);
    if (!name)
        return error_set(error, STATUS_UNSUPPORTED, "pre-tokenizer \"%.*s\" is not known",
                         span_shown(source->pre), source->pre.bytes);
    if (source->n_merges > BPE_MERGES_MAX)
        return error_set(error, STATUS_LIMIT, "%zu merges, at most %u are read", source->n_merges,
                         BPE_MERGES_MAX);
    struct bpe_merge *merges = calloc(source->n_merges + 1, sizeof *merges);
    if (!merges)
        return error_set(error, STATUS_NOMEM, "no memory for %zu merges", source->n_merges);
    struct tokenizer_parts parts = {
        .tokens = source->tokens,
        .merges = merges,
        .n_merges = source->n_merges,
        .options = {.ignores_merges = name->ignores_merges, .unknown_id = TOKEN_NONE},
        .recipe = source->pre};
    enum status status = tokenizer_fill_parts(source, name, merges, &parts, error);
    if (status == STATUS_OK)
        status = tokenizer_build(&parts, tokenizer, error);
    tokenizer_parts_fini(&parts);
    free(merges);
    return status;
}
