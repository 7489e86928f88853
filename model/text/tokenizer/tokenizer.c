#include "model/text/tokenizer/tokenizer.h"

#include "base/utf8.h"
#include "model/text/tokenizer/tokenizer_kinds.h"

#include <stdlib.h>

void tokenizer_close(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    if (tokenizer->kind && tokenizer->kind->close)
        tokenizer->kind->close(tokenizer);
    free(tokenizer->shown.bytes);
    free(tokenizer->shown.offsets);
    trie_fini(&tokenizer->normalized_specials);
    bpe_fini(&tokenizer->bpe);
    normalizer_fini(&tokenizer->normalizer);
    pretokenizer_fini(&tokenizer->pretokenizer);
    vocabulary_fini(&tokenizer->vocabulary);
    free(tokenizer);
}

struct tokenizer_scratch *tokenizer_scratch_new(void) {
    struct tokenizer_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return NULL;
    normalize_scratch_init(&scratch->normalize);
    if (pretokenize_scratch_init(&scratch->pretokenize) != STATUS_OK) {
        tokenizer_scratch_free(scratch);
        return NULL;
    }
    return scratch;
}

void tokenizer_scratch_free(struct tokenizer_scratch *scratch) {
    if (!scratch)
        return;
    normalize_scratch_fini(&scratch->normalize);
    pretokenize_scratch_fini(&scratch->pretokenize);
    bpe_scratch_fini(&scratch->bpe);
    spm_scratch_fini(&scratch->spm);
    free(scratch);
}

static void tokenizer_scratch_trim(struct tokenizer_scratch *scratch) {
    normalize_scratch_trim(&scratch->normalize);
    pretokenize_scratch_trim(&scratch->pretokenize);
    bpe_scratch_trim(&scratch->bpe);
    spm_scratch_trim(&scratch->spm);
}

/* One encoding by merges: what becomes of each piece. */
struct merging {
    const struct bpe *bpe;
    struct bpe_scratch *scratch;
    struct ids *ids;
};

static enum status tokenizer_merge_piece(void *context, struct span piece) {
    const struct merging *merging = context;
    return bpe_encode(merging->bpe, merging->scratch, piece, merging->ids);
}

static enum status tokenizer_encode_bpe(const struct tokenizer *tokenizer,
                                        struct tokenizer_scratch *scratch, struct span text,
                                        bool at_start, struct ids *ids) {
    struct merging merging = {&tokenizer->bpe, &scratch->bpe, ids};
    struct special_match match;
    struct span rest;
    bool lost_front;
    size_t done = 0;
    TRY(normalize(&tokenizer->normalizer, &scratch->normalize, &scratch->pretokenize.regex, text,
                  &rest, &lost_front));
    at_start = at_start && !lost_front;
    for (size_t at = 0;
         tokenizer_next_special(tokenizer, rest, done, at, scratch->parses_special, true, &match);
         at = match.next) {
        struct span before = {rest.bytes + done, match.begin > done ? match.begin - done : 0};
        TRY(pretokenize(&tokenizer->pretokenizer, &scratch->pretokenize, before,
                        at_start && done == 0, tokenizer_merge_piece, &merging));
        TRY(ids_push(ids, match.id));
        done = match.end;
    }
    rest = (struct span){rest.bytes + done, rest.n - done};
    return pretokenize(&tokenizer->pretokenizer, &scratch->pretokenize, rest, at_start && done == 0,
                       tokenizer_merge_piece, &merging);
}

static uint32_t tokenizer_reach_bpe(const struct tokenizer *tokenizer, uint32_t begin) {
    return bpe_reach(&tokenizer->bpe, begin);
}

static void tokenizer_limit_bpe(struct tokenizer *tokenizer, uint32_t n) {
    bpe_limit(&tokenizer->bpe, n);
}

const struct tokenizer_kind tokenizer_kind_bpe = {.name = "bpe",
                                                  .encode = tokenizer_encode_bpe,
                                                  .reach = tokenizer_reach_bpe,
                                                  .limit = tokenizer_limit_bpe};

/* Cuts the special tokens out of the text and encodes what lies between. */
static enum status tokenizer_encode_between(const struct tokenizer *tokenizer,
                                            struct tokenizer_scratch *scratch, struct span text,
                                            bool at_start, struct ids *ids) {
    const bool control = scratch->parses_special;
    struct special_match match;
    size_t done = 0;
    for (size_t at = 0; tokenizer_next_special(tokenizer, text, done, at, control, false, &match);
         at = match.next) {
        if (match.begin > done) {
            struct span before = {text.bytes + done, match.begin - done};
            TRY(tokenizer->kind->encode(tokenizer, scratch, before, at_start && done == 0, ids));
        }
        TRY(ids_push(ids, match.id));
        done = match.end;
    }
    if (done == text.n && done > 0)
        return STATUS_OK;
    struct span rest = {text.bytes + done, text.n - done};
    return tokenizer->kind->encode(tokenizer, scratch, rest, at_start && done == 0, ids);
}

static enum status tokenizer_check_text(const struct tokenizer *tokenizer, struct span text,
                                        const struct ids *ids, struct error *error) {
    if (text.n > TOKENIZER_TEXT_MAX)
        return error_set(error, STATUS_LIMIT, "the text has %zu bytes, at most %zu are read",
                         text.n, TOKENIZER_TEXT_MAX);
    /* Even if all its tokens were the longest one it would not fit: no work on hopeless texts. A
     * normal form makes at most three bytes one. */
    size_t n_bytes_max = tokenizer->vocabulary.n_bytes_max;
    n_bytes_max *= tokenizer->normalizer.n_steps > 0 ? 4 : 1;
    if (ids->limit && !tokenizer->shrinks && text.n / n_bytes_max > ids->limit - ids->n)
        return error_set(error, STATUS_LIMIT, "the text has more than %zu tokens", ids->limit);
    size_t n_valid = utf8_valid_prefix(text.bytes, text.n);
    if (n_valid < text.n)
        return error_set(error, STATUS_INVALID, "the text is not valid UTF-8 at byte %zu", n_valid);
    return STATUS_OK;
}

static enum status tokenizer_push_ends(const struct tokenizer_ends *ends, struct ids *ids) {
    for (uint32_t i = 0; i < ends->n; i++)
        TRY(ids_push(ids, ends->ids[i]));
    return STATUS_OK;
}

enum status tokenizer_begin(const struct tokenizer *tokenizer, struct ids *ids) {
    return tokenizer_push_ends(&tokenizer->before, ids);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             struct span text, unsigned flags, struct ids *ids,
                             struct error *error) {
    bool control = (flags & TOKENIZER_PARSE_SPECIAL) != 0;
    bool at_start = (flags & TOKENIZER_CONTINUES) == 0;
    size_t n_before = ids->n;
    enum status status = STATUS_OK;
    TRY(tokenizer_check_text(tokenizer, text, ids, error));
    if (flags & TOKENIZER_ADD_BOS)
        status = tokenizer_begin(tokenizer, ids);
    scratch->parses_special = control;
    regex_scratch_begin(&scratch->pretokenize.regex);
    if (status == STATUS_OK && (control || tokenizer->vocabulary.has_user_defined))
        status = tokenizer_encode_between(tokenizer, scratch, text, at_start, ids);
    else if (status == STATUS_OK)
        status = tokenizer->kind->encode(tokenizer, scratch, text, at_start, ids);
    if (status == STATUS_OK && (flags & TOKENIZER_ADD_BOS))
        status = tokenizer_push_ends(&tokenizer->behind, ids);
    tokenizer_scratch_trim(scratch);
    if (status == STATUS_OK)
        return STATUS_OK;
    bool full = ids->limit && ids->n == ids->limit;
    ids->n = n_before;
    if (status == STATUS_NOMEM)
        return error_set(error, status, "no memory to tokenize %zu bytes", text.n);
    if (full)
        return error_set(error, status, "the text has more than %zu tokens", ids->limit);
    return error_set(error, status, "the text takes too many steps to tokenize");
}

uint32_t tokenizer_find(const struct tokenizer *tokenizer, struct span text) {
    uint32_t id = vocabulary_find_special(&tokenizer->vocabulary, text);
    return id != TOKEN_NONE ? id : vocabulary_find(&tokenizer->vocabulary, text);
}
