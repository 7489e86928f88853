#include "model/text/tokenizer/files/tokenizer_json_steps.h"

#include "base/json/json_get.h"
#include "model/text/tokenizer/bpe/normalize.h"
#include "model/text/tokenizer/bpe/pretokenize.h"
#include "model/text/tokenizer/files/decode.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"

#include <jansson.h>

#define NESTING_MAX 8u

/* Reads one item of a section. */
typedef enum status read_item(const struct json_get *item, struct span type, void *into);

static enum status unknown(const struct json_get *item, struct span type) {
    return error_set(item->error, STATUS_UNSUPPORTED, "%.*s is not supported", span_shown(type),
                     type.bytes);
}

/* An item, or a Sequence of items under `key`, or nothing. */
static enum status tokenizer_json_steps_walk(const json_t *section, const char *key, unsigned depth,
                                             read_item *read, void *into, struct error *error) {
    const struct json_get item = json_get_part(section, error);
    struct span type;
    const json_t *list;
    if (!section || json_is_null(section))
        return STATUS_OK;
    if (!json_is_object(section))
        return error_set(error, STATUS_CORRUPT, "no object");
    TRY(json_need_text(&item, "type", &type));
    if (!span_is(type, "Sequence")) {
        enum status status = read(&item, type, into);
        if (status == STATUS_CORRUPT)
            error_prefix(error, "%.*s", span_shown(type), type.bytes);
        return status;
    }
    if (depth == NESTING_MAX)
        return error_set(error, STATUS_LIMIT, "Sequences nest deeper than %u", NESTING_MAX);
    TRY(json_need_array(&item, key, &list));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(error_within(
            error,
            tokenizer_json_steps_walk(json_array_get(list, i), key, depth + 1, read, into, error),
            "%s[%zu]", key, i));
    return STATUS_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static enum status read_pattern(const struct json_get *item, struct span *pattern,
                                bool *is_literal) {
    struct json_get object;
    TRY(json_get_object(item, "pattern", &object));
    *is_literal = json_get_member(&object, "String") != NULL;
    if (!*is_literal && !json_get_member(&object, "Regex"))
        return json_get_fail(item, STATUS_CORRUPT, "pattern", "is neither a String nor a Regex");
    TRY(json_need_text(&object, *is_literal ? "String" : "Regex", pattern));
    if (pattern->n == 0)
        return json_get_fail(item, STATUS_CORRUPT, "pattern", "is empty");
    return STATUS_OK;
}

static enum status read_normalizer(const struct json_get *item, struct span type, void *into) {
    static const struct {
        const char *type;
        enum normalize_kind kind;
    } plain[] = {{"NFC", NORMALIZE_NFC},
                 {"NFD", NORMALIZE_NFD},
                 {"NFKC", NORMALIZE_NFKC},
                 {"NFKD", NORMALIZE_NFKD},
                 {"Lowercase", NORMALIZE_LOWERCASE},
                 {"StripAccents", NORMALIZE_STRIP_ACCENTS}};
    struct normalizer *normalizer = into;
    struct span pattern;
    struct span text;
    bool is_literal;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (span_is(type, plain[i].type))
            return normalizer_add(normalizer, plain[i].kind, item->error);
    if (span_is(type, "Strip")) {
        bool left = true;
        bool right = true;
        TRY(json_get_bool(item, "strip_left", &left));
        TRY(json_get_bool(item, "strip_right", &right));
        return normalizer_add_strip(normalizer, left, right, item->error);
    }
    if (span_is(type, "Prepend")) {
        TRY(json_need_text(item, "prepend", &text));
        return normalizer_add_prepend(normalizer, text, item->error);
    }
    if (span_is(type, "Replace")) {
        TRY(read_pattern(item, &pattern, &is_literal));
        TRY(json_need_text(item, "content", &text));
        return normalizer_add_replace(normalizer, pattern, is_literal, text, item->error);
    }
    return unknown(item, type);
}

enum status json_read_normalizer(const json_t *section, struct normalizer *normalizer,
                                 struct error *error) {
    return tokenizer_json_steps_walk(section, "normalizers", 0, read_normalizer, normalizer, error);
}

static enum status read_behaviour(const struct json_get *item, enum pretokenize_cut *cut) {
    static const char *const names[] = {[CUT_ISOLATED] = "Isolated",
                                        [CUT_REMOVED] = "Removed",
                                        [CUT_MERGED_PREVIOUS] = "MergedWithPrevious",
                                        [CUT_MERGED_NEXT] = "MergedWithNext",
                                        [CUT_CONTIGUOUS] = "Contiguous"};
    struct span name;
    TRY(json_need_text(item, "behavior", &name));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!span_is(name, names[i]))
            continue;
        *cut = (enum pretokenize_cut)i;
        return STATUS_OK;
    }
    return json_get_fail(item, STATUS_CORRUPT, "behavior", "is the unknown \"%.*s\"",
                         span_shown(name), name.bytes);
}

static enum status read_split(const struct json_get *item, struct pretokenizer *pretokenizer) {
    enum pretokenize_cut cut;
    struct span pattern;
    bool is_literal;
    bool is_inverted = false;
    TRY(read_pattern(item, &pattern, &is_literal));
    TRY(read_behaviour(item, &cut));
    TRY(json_get_bool(item, "invert", &is_inverted));
    return pretokenizer_add_split(pretokenizer, pattern, is_literal, cut, is_inverted, item->error);
}

static enum status read_byte_level(const struct json_get *item, struct pretokenizer *pretokenizer) {
    bool add_prefix_space = true;
    bool use_regex = true;
    TRY(json_get_bool(item, "add_prefix_space", &add_prefix_space));
    TRY(json_get_bool(item, "use_regex", &use_regex));
    return pretokenizer_add_byte_level(pretokenizer, add_prefix_space, use_regex, item->error);
}

/* "first", "never" or "always"; older files have add_prefix_space instead. */
static enum status read_prepend(const struct json_get *item, enum pretokenize_prepend *prepend) {
    struct span name;
    bool add_prefix_space = true;
    TRY(json_get_bool(item, "add_prefix_space", &add_prefix_space));
    *prepend = add_prefix_space ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!json_get_member(item, "prepend_scheme"))
        return STATUS_OK;
    TRY(json_need_text(item, "prepend_scheme", &name));
    if (span_is(name, "first"))
        *prepend = PREPEND_FIRST;
    else if (span_is(name, "always"))
        *prepend = PREPEND_ALWAYS;
    else if (span_is(name, "never"))
        *prepend = PREPEND_NEVER;
    else
        return json_get_fail(item, STATUS_CORRUPT, "prepend_scheme", "is the unknown \"%.*s\"",
                             span_shown(name), name.bytes);
    return STATUS_OK;
}

static enum status read_metaspace(const struct json_get *item, struct pretokenizer *pretokenizer) {
    enum pretokenize_prepend prepend;
    struct span mark;
    bool split = true;
    TRY(json_need_text(item, "replacement", &mark));
    TRY(read_prepend(item, &prepend));
    TRY(json_get_bool(item, "split", &split));
    return pretokenizer_add_metaspace(pretokenizer, mark, prepend, split, item->error);
}

static enum status read_pretokenizer(const struct json_get *item, struct span type, void *into) {
    struct pretokenizer *pretokenizer = into;
    enum pretokenize_cut cut = CUT_ISOLATED;
    if (span_is(type, "Split"))
        return read_split(item, pretokenizer);
    if (span_is(type, "ByteLevel"))
        return read_byte_level(item, pretokenizer);
    if (span_is(type, "Metaspace"))
        return read_metaspace(item, pretokenizer);
    if (span_is(type, "Digits")) {
        bool individual = false;
        TRY(json_get_bool(item, "individual_digits", &individual));
        cut = individual ? CUT_ISOLATED : CUT_CONTIGUOUS;
        return pretokenizer_add_split(pretokenizer, SPAN("\\p{N}"), false, cut, false, item->error);
    }
    if (span_is(type, "Punctuation")) {
        if (json_get_member(item, "behavior"))
            TRY(read_behaviour(item, &cut));
        return pretokenizer_add_split(pretokenizer, SPAN("[\\p{P}$+<=>\\^`|~]"), false, cut, false,
                                      item->error);
    }
    /* Of these two the words are kept, by Rust's idea of words, which has the joiners. */
    if (span_is(type, "Whitespace"))
        return pretokenizer_add_split(pretokenizer,
                                      SPAN("[\\w\\u200c\\u200d]+|[^\\w\\s\\u200c\\u200d]+"), false,
                                      CUT_REMOVED, true, item->error);
    if (span_is(type, "WhitespaceSplit"))
        return pretokenizer_add_split(pretokenizer, SPAN("\\s"), false, CUT_REMOVED, false,
                                      item->error);
    return unknown(item, type);
}

enum status json_read_pretokenizer(const json_t *section, struct pretokenizer *pretokenizer,
                                   struct error *error) {
    return tokenizer_json_steps_walk(section, "pretokenizers", 0, read_pretokenizer, pretokenizer,
                                     error);
}

static enum status read_decoder(const struct json_get *item, struct span type, void *into) {
    struct decoder *decoder = into;
    struct span text;
    if (span_is(type, "ByteLevel"))
        return decoder_add_byte_level(decoder, item->error);
    if (span_is(type, "ByteFallback"))
        return decoder_add_byte_fallback(decoder, item->error);
    if (span_is(type, "Fuse")) {
        decoder_fuse(decoder);
        return STATUS_OK;
    }
    if (span_is(type, "Replace")) {
        struct span pattern;
        bool is_literal;
        TRY(read_pattern(item, &pattern, &is_literal));
        TRY(json_need_text(item, "content", &text));
        return decoder_add_replace(decoder, pattern, is_literal, text, item->error);
    }
    if (span_is(type, "Strip")) {
        uint32_t n_left;
        uint32_t n_right;
        TRY(json_need_text(item, "content", &text));
        TRY(json_need_u32(item, "start", &n_left));
        TRY(json_need_u32(item, "stop", &n_right));
        return decoder_add_strip(decoder, text, n_left, n_right, item->error);
    }
    if (span_is(type, "Metaspace")) {
        enum pretokenize_prepend prepend;
        TRY(json_need_text(item, "replacement", &text));
        TRY(read_prepend(item, &prepend));
        return decoder_add_metaspace(decoder, text, prepend != PREPEND_NEVER, item->error);
    }
    return unknown(item, type);
}

enum status json_read_decoder(const json_t *section, struct decoder *decoder, struct error *error) {
    if (!section || json_is_null(section)) {
        decoder_join(decoder);
        return STATUS_OK;
    }
    return tokenizer_json_steps_walk(section, "decoders", 0, read_decoder, decoder, error);
}

/* {"SpecialToken": {"id": "<s>"}}: its ids by the list of special tokens. */
static enum status read_special(const struct json_get *post, const json_t *piece,
                                struct tokenizer_ends *side) {
    const struct json_get reference = json_get_part(piece, post->error);
    struct span name;
    const json_t *ids;
    TRY(json_need_text(&reference, "id", &name));
    const json_t *tokens = json_get_member(post, "special_tokens");
    const struct json_get special =
        json_get_part(json_object_getn(tokens, name.bytes, name.n), post->error);
    if (!special.object)
        return json_get_fail(post, STATUS_CORRUPT, "special_tokens", "lacks \"%.*s\"",
                             span_shown(name), name.bytes);
    TRY(json_need_array(&special, "ids", &ids));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= UINT32_MAX)
            return error_field(post->error, STATUS_CORRUPT, "special_tokens",
                               "special_tokens: ids[%zu] of \"%.*s\" is not a token id", i,
                               span_shown(name), name.bytes);
        TRY(tokenizer_ends_add(side, (uint32_t)json_integer_value(id), post->error));
    }
    return STATUS_OK;
}

static enum status read_template(const struct json_get *post, struct json_ends *ends) {
    const json_t *pieces;
    bool seen_text = false;
    /* The reference library cannot do it either. */
    if (ends->is_said)
        return error_set(post->error, STATUS_UNSUPPORTED,
                         "a second TemplateProcessing is not supported");
    ends->is_said = true;
    TRY(json_need_array(post, "single", &pieces));
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        if (!special && (seen_text || !json_object_get(piece, "Sequence")))
            return error_field(post->error, STATUS_CORRUPT, "single",
                               "single[%zu] is neither a special token nor the one text", i);
        if (special)
            TRY(read_special(post, special, seen_text ? &ends->behind : &ends->before));
        seen_text |= !special;
    }
    if (!seen_text)
        return json_get_fail(post, STATUS_CORRUPT, "single", "has no place for the text");
    return STATUS_OK;
}

static enum status read_post(const struct json_get *item, struct span type, void *into) {
    if (span_is(type, "ByteLevel"))
        return STATUS_OK; /* it is about offsets only */
    if (span_is(type, "TemplateProcessing"))
        return read_template(item, into);
    return unknown(item, type);
}

enum status json_read_ends(const json_t *section, struct json_ends *ends, struct error *error) {
    *ends = (struct json_ends){0};
    return tokenizer_json_steps_walk(section, "processors", 0, read_post, ends, error);
}
