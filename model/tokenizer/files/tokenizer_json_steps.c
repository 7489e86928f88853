#include "model/tokenizer/files/tokenizer_json_steps.h"

#include "model/json/json_fields.h"
#include "model/tokenizer/bpe/normalize.h"
#include "model/tokenizer/bpe/pretokenize.h"
#include "model/tokenizer/files/decode.h"

#include <jansson.h>

#define NESTING_MAX 8u

/* Reads one item of a section. */
typedef enum status read_item(const json_t *item, struct span type, void *into,
                              struct error *error);

static enum status unknown(struct span type, struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "%.*s is not supported", span_shown(type),
                     type.bytes);
}

/* An item, or a Sequence of items under `key`, or nothing. */
static enum status walk(const json_t *section, const char *key, unsigned depth, read_item *read,
                        void *into, struct error *error) {
    struct span type;
    json_t *list;
    if (!section || json_is_null(section))
        return STATUS_OK;
    if (!json_is_object(section))
        return error_set(error, STATUS_CORRUPT, "no object");
    TRY(json_field_text(section, "type", &type, error));
    if (!span_is(type, "Sequence")) {
        enum status status = read(section, type, into, error);
        if (status == STATUS_CORRUPT)
            error_prefix(error, "%.*s", span_shown(type), type.bytes);
        return status;
    }
    if (depth == NESTING_MAX)
        return error_set(error, STATUS_LIMIT, "Sequences nest deeper than %u", NESTING_MAX);
    TRY(json_field_list(section, key, &list, error));
    for (size_t i = 0; i < json_array_size(list); i++) {
        enum status status = walk(json_array_get(list, i), key, depth + 1, read, into, error);
        if (status == STATUS_OK)
            continue;
        error_prefix(error, "%s[%zu]", key, i);
        return status;
    }
    return STATUS_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static enum status read_pattern(const json_t *item, struct span *pattern, bool *is_literal,
                                struct error *error) {
    const json_t *object = json_object_get(item, "pattern");
    *is_literal = json_object_get(object, "String") != NULL;
    if (!*is_literal && !json_object_get(object, "Regex"))
        return error_field(error, STATUS_CORRUPT, "pattern",
                           "pattern is neither a String nor a Regex");
    TRY(json_field_text(object, *is_literal ? "String" : "Regex", pattern, error));
    if (pattern->n == 0)
        return error_field(error, STATUS_CORRUPT, "pattern", "pattern is empty");
    return STATUS_OK;
}

static enum status read_normalizer(const json_t *item, struct span type, void *into,
                                   struct error *error) {
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
            return normalizer_add(normalizer, plain[i].kind, error);
    if (span_is(type, "Strip")) {
        bool left = true;
        bool right = true;
        TRY(json_field_bool(item, "strip_left", &left, error));
        TRY(json_field_bool(item, "strip_right", &right, error));
        return normalizer_add_strip(normalizer, left, right, error);
    }
    if (span_is(type, "Prepend")) {
        TRY(json_field_text(item, "prepend", &text, error));
        return normalizer_add_prepend(normalizer, text, error);
    }
    if (span_is(type, "Replace")) {
        TRY(read_pattern(item, &pattern, &is_literal, error));
        TRY(json_field_text(item, "content", &text, error));
        return normalizer_add_replace(normalizer, pattern, is_literal, text, error);
    }
    return unknown(type, error);
}

enum status json_read_normalizer(const json_t *section, struct normalizer *normalizer,
                                 struct error *error) {
    return walk(section, "normalizers", 0, read_normalizer, normalizer, error);
}

static enum status read_behaviour(const json_t *item, enum pretokenize_cut *cut,
                                  struct error *error) {
    static const char *const names[] = {[CUT_ISOLATED] = "Isolated",
                                        [CUT_REMOVED] = "Removed",
                                        [CUT_MERGED_PREVIOUS] = "MergedWithPrevious",
                                        [CUT_MERGED_NEXT] = "MergedWithNext",
                                        [CUT_CONTIGUOUS] = "Contiguous"};
    struct span name;
    TRY(json_field_text(item, "behavior", &name, error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!span_is(name, names[i]))
            continue;
        *cut = (enum pretokenize_cut)i;
        return STATUS_OK;
    }
    return error_field(error, STATUS_CORRUPT, "behavior", "behavior is the unknown \"%.*s\"",
                       span_shown(name), name.bytes);
}

static enum status read_split(const json_t *item, struct pretokenizer *pretokenizer,
                              struct error *error) {
    enum pretokenize_cut cut;
    struct span pattern;
    bool is_literal;
    bool is_inverted = false;
    TRY(read_pattern(item, &pattern, &is_literal, error));
    TRY(read_behaviour(item, &cut, error));
    TRY(json_field_bool(item, "invert", &is_inverted, error));
    return pretokenizer_add_split(pretokenizer, pattern, is_literal, cut, is_inverted, error);
}

static enum status read_byte_level(const json_t *item, struct pretokenizer *pretokenizer,
                                   struct error *error) {
    bool add_prefix_space = true;
    bool use_regex = true;
    TRY(json_field_bool(item, "add_prefix_space", &add_prefix_space, error));
    TRY(json_field_bool(item, "use_regex", &use_regex, error));
    return pretokenizer_add_byte_level(pretokenizer, add_prefix_space, use_regex, error);
}

/* "first", "never" or "always"; older files have add_prefix_space instead. */
static enum status read_prepend(const json_t *item, enum pretokenize_prepend *prepend,
                                struct error *error) {
    struct span name;
    bool add_prefix_space = true;
    TRY(json_field_bool(item, "add_prefix_space", &add_prefix_space, error));
    *prepend = add_prefix_space ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (!json_object_get(item, "prepend_scheme"))
        return STATUS_OK;
    TRY(json_field_text(item, "prepend_scheme", &name, error));
    if (span_is(name, "first"))
        *prepend = PREPEND_FIRST;
    else if (span_is(name, "always"))
        *prepend = PREPEND_ALWAYS;
    else if (span_is(name, "never"))
        *prepend = PREPEND_NEVER;
    else
        return error_field(error, STATUS_CORRUPT, "prepend_scheme",
                           "prepend_scheme is the unknown \"%.*s\"", span_shown(name), name.bytes);
    return STATUS_OK;
}

static enum status read_metaspace(const json_t *item, struct pretokenizer *pretokenizer,
                                  struct error *error) {
    enum pretokenize_prepend prepend;
    struct span mark;
    bool split = true;
    TRY(json_field_text(item, "replacement", &mark, error));
    TRY(read_prepend(item, &prepend, error));
    TRY(json_field_bool(item, "split", &split, error));
    return pretokenizer_add_metaspace(pretokenizer, mark, prepend, split, error);
}

static enum status read_pretokenizer(const json_t *item, struct span type, void *into,
                                     struct error *error) {
    struct pretokenizer *pretokenizer = into;
    enum pretokenize_cut cut = CUT_ISOLATED;
    if (span_is(type, "Split"))
        return read_split(item, pretokenizer, error);
    if (span_is(type, "ByteLevel"))
        return read_byte_level(item, pretokenizer, error);
    if (span_is(type, "Metaspace"))
        return read_metaspace(item, pretokenizer, error);
    if (span_is(type, "Digits")) {
        bool individual = false;
        TRY(json_field_bool(item, "individual_digits", &individual, error));
        cut = individual ? CUT_ISOLATED : CUT_CONTIGUOUS;
        return pretokenizer_add_split(pretokenizer, SPAN("\\p{N}"), false, cut, false, error);
    }
    if (span_is(type, "Punctuation")) {
        if (json_object_get(item, "behavior"))
            TRY(read_behaviour(item, &cut, error));
        return pretokenizer_add_split(pretokenizer, SPAN("[\\p{P}$+<=>\\^`|~]"), false, cut, false,
                                      error);
    }
    /* Of these two the words are kept, by Rust's idea of words, which has the joiners. */
    if (span_is(type, "Whitespace"))
        return pretokenizer_add_split(pretokenizer,
                                      SPAN("[\\w\\u200c\\u200d]+|[^\\w\\s\\u200c\\u200d]+"), false,
                                      CUT_REMOVED, true, error);
    if (span_is(type, "WhitespaceSplit"))
        return pretokenizer_add_split(pretokenizer, SPAN("\\s"), false, CUT_REMOVED, false, error);
    return unknown(type, error);
}

enum status json_read_pretokenizer(const json_t *section, struct pretokenizer *pretokenizer,
                                   struct error *error) {
    return walk(section, "pretokenizers", 0, read_pretokenizer, pretokenizer, error);
}

static enum status read_decoder(const json_t *item, struct span type, void *into,
                                struct error *error) {
    struct decoder *decoder = into;
    struct span text;
    if (span_is(type, "ByteLevel"))
        return decoder_add_byte_level(decoder, error);
    if (span_is(type, "ByteFallback"))
        return decoder_add_byte_fallback(decoder, error);
    if (span_is(type, "Fuse")) {
        decoder_fuse(decoder);
        return STATUS_OK;
    }
    if (span_is(type, "Replace")) {
        struct span pattern;
        bool is_literal;
        TRY(read_pattern(item, &pattern, &is_literal, error));
        TRY(json_field_text(item, "content", &text, error));
        return decoder_add_replace(decoder, pattern, is_literal, text, error);
    }
    if (span_is(type, "Strip")) {
        uint32_t n_left;
        uint32_t n_right;
        TRY(json_field_text(item, "content", &text, error));
        TRY(json_field_u32(item, "start", &n_left, error));
        TRY(json_field_u32(item, "stop", &n_right, error));
        return decoder_add_strip(decoder, text, n_left, n_right, error);
    }
    if (span_is(type, "Metaspace")) {
        enum pretokenize_prepend prepend;
        TRY(json_field_text(item, "replacement", &text, error));
        TRY(read_prepend(item, &prepend, error));
        return decoder_add_metaspace(decoder, text, prepend != PREPEND_NEVER, error);
    }
    return unknown(type, error);
}

enum status json_read_decoder(const json_t *section, struct decoder *decoder, struct error *error) {
    if (!section || json_is_null(section)) {
        decoder_join(decoder);
        return STATUS_OK;
    }
    return walk(section, "decoders", 0, read_decoder, decoder, error);
}

/* {"SpecialToken": {"id": "<s>"}}: its id by the list of special tokens. */
static enum status read_special(const json_t *post, const json_t *piece, uint32_t *id,
                                struct error *error) {
    struct span name;
    json_t *ids;
    TRY(json_field_text(piece, "id", &name, error));
    const json_t *special =
        json_object_getn(json_object_get(post, "special_tokens"), name.bytes, name.n);
    if (!special)
        return error_set(error, STATUS_CORRUPT, "special_tokens lacks \"%.*s\"", span_shown(name),
                         name.bytes);
    TRY(json_field_list(special, "ids", &ids, error));
    const json_t *first = json_array_get(ids, 0);
    if (json_array_size(ids) != 1 || !json_is_integer(first) || json_integer_value(first) < 0 ||
        json_integer_value(first) >= UINT32_MAX)
        return error_set(error, STATUS_UNSUPPORTED, "special token \"%.*s\" is not one id",
                         span_shown(name), name.bytes);
    *id = (uint32_t)json_integer_value(first);
    return STATUS_OK;
}

static enum status read_template(const json_t *post, struct json_ends *ends, struct error *error) {
    json_t *pieces;
    bool seen_text = false;
    TRY(json_field_list(post, "single", &pieces, error));
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        const json_t *piece = json_array_get(pieces, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        uint32_t *end = seen_text ? &ends->behind : &ends->before;
        if (!special && (seen_text || !json_object_get(piece, "Sequence")))
            return error_field(error, STATUS_CORRUPT, "single",
                               "single[%zu] is neither a special token nor the one text", i);
        if (!special) {
            seen_text = true;
            continue;
        }
        if (*end != TOKEN_NONE)
            return error_field(error, STATUS_UNSUPPORTED, "single",
                               "more than one special token on a side is not supported");
        TRY(read_special(post, special, end, error));
    }
    if (!seen_text)
        return error_field(error, STATUS_CORRUPT, "single", "single has no place for the text");
    return STATUS_OK;
}

static enum status read_post(const json_t *item, struct span type, void *into,
                             struct error *error) {
    if (span_is(type, "ByteLevel"))
        return STATUS_OK; /* it is about offsets only */
    if (span_is(type, "TemplateProcessing"))
        return read_template(item, into, error);
    return unknown(type, error);
}

enum status json_read_ends(const json_t *section, struct json_ends *ends, struct error *error) {
    *ends = (struct json_ends){TOKEN_NONE, TOKEN_NONE};
    return walk(section, "processors", 0, read_post, ends, error);
}
