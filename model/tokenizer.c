#include "model/tokenizer.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "model/tokenizer_kinds.h"

#include <stdlib.h>

struct tokenizer_scratch *tokenizer_scratch_new(void) {
    struct tokenizer_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return NULL;
    if (pretokenize_scratch_init(&scratch->pretokenize) != STATUS_OK) {
        free(scratch);
        return NULL;
    }
    return scratch;
}

void tokenizer_scratch_free(struct tokenizer_scratch *scratch) {
    if (!scratch)
        return;
    pretokenize_scratch_fini(&scratch->pretokenize);
    bpe_scratch_fini(&scratch->bpe);
    free(scratch);
}

static enum status encode_bpe(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                              struct span text, bool at_start, struct ids *ids) {
    (void)at_start;
    for (size_t at = 0; at < text.n;) {
        size_t end;
        TRY(pretokenize_next(&tokenizer->pretokenizer, &scratch->pretokenize, text.bytes, text.n,
                             at, &end));
        struct span piece = {text.bytes + at, end - at};
        TRY(bpe_encode(&tokenizer->bpe, &scratch->bpe, piece, ids));
        at = end;
    }
    return STATUS_OK;
}

const struct tokenizer_kind tokenizer_kind_bpe = {.name = "bpe", .encode = encode_bpe};

static enum status encode_bytes(const struct tokenizer *tokenizer,
                                struct tokenizer_scratch *scratch, struct span text, bool at_start,
                                struct ids *ids) {
    (void)at_start;
    (void)tokenizer;
    (void)scratch;
    for (size_t i = 0; i < text.n; i++)
        TRY(ids_push(ids, (uint8_t)text.bytes[i]));
    return STATUS_OK;
}

const struct tokenizer_kind tokenizer_kind_bytes = {.name = "bytes", .encode = encode_bytes};

/* Cuts the special tokens out of the text and encodes what lies between. */
static enum status encode_between(const struct tokenizer *tokenizer,
                                  struct tokenizer_scratch *scratch, struct span text, bool control,
                                  struct ids *ids) {
    const struct vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t begin = 0;
    for (size_t at = 0; at < text.n;) {
        size_t length = 0;
        uint32_t id =
            vocabulary_match_special(vocabulary, text.bytes + at, text.n - at, control, &length);
        if (id == TOKEN_NONE) {
            at++;
            continue;
        }
        struct span before = {text.bytes + begin, at - begin};
        TRY(tokenizer->kind->encode(tokenizer, scratch, before, begin == 0, ids));
        TRY(ids_push(ids, id));
        at += length;
        begin = at;
    }
    struct span rest = {text.bytes + begin, text.n - begin};
    return tokenizer->kind->encode(tokenizer, scratch, rest, begin == 0, ids);
}

static enum status check_text(const struct tokenizer *tokenizer, struct span text,
                              const struct ids *ids, struct error *error) {
    if (text.n > TOKENIZER_TEXT_MAX)
        return error_set(error, STATUS_LIMIT, "the text has %zu bytes, at most %zu are read",
                         text.n, TOKENIZER_TEXT_MAX);
    /* Even if all its tokens were the longest one it would not fit: no work on hopeless texts. */
    if (ids->limit && text.n / tokenizer->vocabulary.n_bytes_max > ids->limit - ids->n)
        return error_set(error, STATUS_LIMIT, "the text has more than %zu tokens", ids->limit);
    size_t n_valid = utf8_valid_prefix(text.bytes, text.n);
    if (n_valid < text.n)
        return error_set(error, STATUS_INVALID, "the text is not valid UTF-8 at byte %zu", n_valid);
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             struct span text, unsigned flags, struct ids *ids,
                             struct error *error) {
    bool control = (flags & TOKENIZER_PARSE_SPECIAL) != 0;
    size_t n_before = ids->n;
    enum status status = STATUS_OK;
    TRY(check_text(tokenizer, text, ids, error));
    if ((flags & TOKENIZER_ADD_BOS) && tokenizer->add_bos)
        status = ids_push(ids, tokenizer->bos_id);
    if (status == STATUS_OK && (control || tokenizer->vocabulary.has_user_defined))
        status = encode_between(tokenizer, scratch, text, control, ids);
    else if (status == STATUS_OK)
        status = tokenizer->kind->encode(tokenizer, scratch, text, true, ids);
    if (status == STATUS_OK && (flags & TOKENIZER_ADD_BOS) && tokenizer->add_eos)
        status = ids_push(ids, tokenizer->eos_id);
    bpe_scratch_trim(&scratch->bpe);
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
