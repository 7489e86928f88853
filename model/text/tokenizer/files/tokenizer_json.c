/* tokenizer.json of Hugging Face's tokenizers (0.13 to 0.23): BPE models. */
#include "base/buf.h"
#include "base/json/json_get.h"
#include "base/json/json_text.h"
#include "model/text/tokenizer/files/token_table.h"
#include "model/text/tokenizer/files/tokenizer_class.h"
#include "model/text/tokenizer/files/tokenizer_extras.h"
#include "model/text/tokenizer/files/tokenizer_files.h"
#include "model/text/tokenizer/files/tokenizer_json_steps.h"
#include "model/text/tokenizer/files/tokenizer_parts.h"

#include <jansson.h>
#include <stdlib.h>

/* The file while it is turned into parts. */
struct reading {
    const json_t *root;
    const json_t *model;
    const struct tokenizer_extras *extras;
    struct token_table table;
    struct bpe_merge *merges; /* owned (parts.n_merges) */
    struct buf recipe;        /* owned */
    struct tokenizer_parts parts;
};

static enum status tokenizer_json_read_pipelines(struct reading *reading, struct error *error) {
    static const char *const names[] = {"normalizer", "pre_tokenizer", "decoder"};
    struct tokenizer_parts *parts = &reading->parts;
    for (int i = 0; i < 3; i++) {
        const json_t *section = json_object_get(reading->root, names[i]);
        TRY(error_within(error,
                         i == 0   ? json_read_normalizer(section, &parts->normalizer, error)
                         : i == 1 ? json_read_pretokenizer(section, &parts->pretokenizer, error)
                                  : json_read_decoder(section, &parts->decoder, error),
                         "%s", names[i]));
        char *text = section ? json_dumps(section, JSON_ENCODE_ANY | JSON_SORT_KEYS) : NULL;
        buf_puts(&reading->recipe, text ? text : "null");
        free(text);
    }
    if (buf_status(&reading->recipe) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for the pipelines");
    parts->recipe = (struct span){reading->recipe.data, reading->recipe.n};
    return STATUS_OK;
}

static bool tokenizer_json_is_empty_text(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return !value || json_is_null(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static enum status tokenizer_json_read_options(struct reading *reading, struct error *error) {
    struct bpe_options *options = &reading->parts.options;
    const json_t *model = reading->model;
    const struct json_get get = json_get_part(model, error);
    const json_t *dropout = json_object_get(model, "dropout");
    struct span type = SPAN("BPE"); /* older files do not say it */
    bool byte_fallback = false;
    TRY(json_get_text(&get, "type", SIZE_MAX, &type));
    if (!span_is(type, "BPE"))
        return error_set(error, STATUS_UNSUPPORTED, "model type %.*s is not supported; BPE is",
                         span_shown(type), type.bytes);
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) > 0)
        return error_set(error, STATUS_UNSUPPORTED, "dropout is not supported");
    if (!tokenizer_json_is_empty_text(model, "continuing_subword_prefix"))
        return error_set(error, STATUS_UNSUPPORTED, "continuing_subword_prefix is not supported");
    if (!tokenizer_json_is_empty_text(model, "end_of_word_suffix"))
        return error_set(error, STATUS_UNSUPPORTED, "end_of_word_suffix is not supported");
    TRY(json_get_bool(&get, "fuse_unk", &options->fuse_unknown));
    TRY(json_get_bool(&get, "byte_fallback", &byte_fallback));
    TRY(json_get_bool(&get, "ignore_merges", &options->ignores_merges));
    options->over_chars = !reading->parts.pretokenizer.is_byte_level;
    options->byte_fallback = options->over_chars && byte_fallback;
    reading->parts.spelling = options->over_chars ? SPELLED_AS_IS : SPELLED_IN_ALPHABET;
    return STATUS_OK;
}

enum status json_read_vocabulary(const json_t *vocabulary, struct token_table *table,
                                 struct error *error) {
    const char *key;
    json_t *value;
    if (!json_is_object(vocabulary))
        return error_field(error, STATUS_CORRUPT, "vocab", "vocab is not an object of ids");
    json_object_foreach((json_t *)vocabulary, key, value) {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return error_field(error, STATUS_CORRUPT, "vocab", "vocab: \"%.64s\" has no id", key);
        TRY(token_table_put(table, (uint64_t)json_integer_value(value),
                            (struct span){key, strlen(key)}, error));
    }
    return STATUS_OK;
}

/* "left right" with exactly one blank, or ["left", "right"]. */
static bool tokenizer_json_read_merge(const json_t *item, struct bpe_merge *merge) {
    if (json_is_string(item)) {
        struct span text = {json_string_value(item), json_string_length(item)};
        const char *blank = memchr(text.bytes, ' ', text.n);
        size_t cut = blank ? (size_t)(blank - text.bytes) : 0;
        if (!blank || memchr(blank + 1, ' ', text.n - cut - 1))
            return false;
        *merge = (struct bpe_merge){{text.bytes, cut}, {blank + 1, text.n - cut - 1}};
        return true;
    }
    const json_t *left = json_array_get(item, 0);
    const json_t *right = json_array_get(item, 1);
    if (json_array_size(item) != 2 || !json_is_string(left) || !json_is_string(right))
        return false;
    *merge = (struct bpe_merge){{json_string_value(left), json_string_length(left)},
                                {json_string_value(right), json_string_length(right)}};
    return true;
}

static enum status tokenizer_json_read_merges(struct reading *reading, struct error *error) {
    const struct json_get model = json_get_part(reading->model, error);
    const json_t *list;
    TRY(json_need_array(&model, "merges", &list));
    size_t n = json_array_size(list);
    if (n > BPE_MERGES_MAX)
        return error_field(error, STATUS_LIMIT, "merges", "%zu merges, at most %u are read", n,
                           BPE_MERGES_MAX);
    reading->merges = calloc(n + 1, sizeof *reading->merges);
    if (!reading->merges)
        return error_set(error, STATUS_NOMEM, "no memory for %zu merges", n);
    for (size_t i = 0; i < n; i++)
        if (!tokenizer_json_read_merge(json_array_get(list, i), &reading->merges[i]))
            return error_field(error, STATUS_CORRUPT, "merges", "merges[%zu] is not a pair", i);
    reading->parts.merges = reading->merges;
    reading->parts.n_merges = n;
    return STATUS_OK;
}

static enum status tokenizer_json_read_added(const json_t *item, struct tokenizer_added *added,
                                             struct error *error) {
    const struct json_get get = json_get_part(item, error);
    *added = (struct tokenizer_added){0};
    TRY(json_need_u32(&get, "id", &added->id));
    TRY(json_need_text(&get, "content", &added->content));
    TRY(json_get_bool(&get, "special", &added->is_special));
    added->flags = added->is_special ? 0 : TOKEN_NORMALIZED;
    return tokenizer_added_flags(&get, &added->flags);
}

/* An added token that the vocabulary has too has the vocabulary's id. */
static enum status tokenizer_json_check_added(const struct reading *reading,
                                              const struct tokenizer_added *added,
                                              struct error *error) {
    const json_t *id = json_object_getn(json_object_get(reading->model, "vocab"),
                                        added->content.bytes, added->content.n);
    if (!id || json_integer_value(id) == added->id)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "\"%.*s\" is token %u here and %lld in the vocabulary",
                     span_shown(added->content), added->content.bytes, added->id,
                     (long long)json_integer_value(id));
}

static enum status tokenizer_json_add_token(struct reading *reading, const json_t *item,
                                            struct error *error) {
    struct tokenizer_added added;
    TRY(tokenizer_json_read_added(item, &added, error));
    if (added.content.n == 0)
        return STATUS_OK; /* as the library has it: nothing could match it */
    TRY(tokenizer_json_check_added(reading, &added, error));
    return token_table_add(&reading->table, &added, error);
}

static enum status tokenizer_json_read_all_added(struct reading *reading, struct error *error) {
    const struct json_get root = json_get_part(reading->root, error);
    const json_t *list = NULL;
    TRY(json_get_array(&root, "added_tokens", SIZE_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(error_within(error, tokenizer_json_add_token(reading, json_array_get(list, i), error),
                         "added_tokens[%zu]", i));
    return token_table_add_extras(&reading->table, reading->extras, error);
}

static enum status tokenizer_json_read_unknown(struct reading *reading, struct error *error) {
    struct bpe_options *options = &reading->parts.options;
    const struct json_get model = json_get_part(reading->model, error);
    struct span text;
    options->unknown_id = TOKEN_NONE;
    if (!json_get_member(&model, "unk_token"))
        return STATUS_OK;
    TRY(json_need_text(&model, "unk_token", &text));
    options->unknown_id = token_table_find(&reading->table, text);
    if (options->unknown_id == TOKEN_NONE && text.n > 0)
        return json_get_fail(&model, STATUS_CORRUPT, "unk_token",
                             "\"%.*s\" is not in the vocabulary", span_shown(text), text.bytes);
    return STATUS_OK;
}

static enum status tokenizer_json_read_ends(struct reading *reading, struct error *error) {
    struct tokenizer_tokens *tokens = &reading->parts.tokens;
    struct json_ends ends;
    TRY(error_within(error,
                     json_read_ends(json_object_get(reading->root, "post_processor"), &ends, error),
                     "post_processor"));
    *tokens = token_table_tokens(&reading->table);
    tokens->before = ends.before;
    tokens->behind = ends.behind;
    const struct tokenizer_class_file said = {.is_json = true, .says_ends = ends.is_said};
    TRY(tokenizer_class_ends(reading->extras, &said, tokens, error));
    if (tokens->bos_id == TOKEN_NONE && tokens->before.n == 1)
        tokens->bos_id = tokens->before.ids[0];
    if (tokens->eos_id == TOKEN_NONE && tokens->behind.n == 1)
        tokens->eos_id = tokens->behind.ids[0];
    return STATUS_OK;
}

static enum status tokenizer_json_read_model(struct reading *reading, struct error *error) {
    TRY(tokenizer_json_read_options(reading, error));
    TRY(json_read_vocabulary(json_object_get(reading->model, "vocab"), &reading->table, error));
    return tokenizer_json_read_merges(reading, error);
}

static enum status tokenizer_json_read_all(struct reading *reading, struct error *error) {
    reading->model = json_object_get(reading->root, "model");
    if (!json_is_object(reading->model))
        return error_field(error, STATUS_CORRUPT, "model", "model is not an object");
    TRY(tokenizer_json_read_pipelines(reading, error));
    TRY(error_within(error, tokenizer_json_read_model(reading, error), "model"));
    TRY(tokenizer_json_read_all_added(reading, error));
    TRY(tokenizer_json_read_unknown(reading, error));
    return tokenizer_json_read_ends(reading, error);
}

enum status tokenizer_parse_json(const json_t *root, const struct tokenizer_extras *extras,
                                 struct tokenizer **tokenizer, struct error *error) {
    struct reading reading = {.root = root, .extras = extras};
    buf_init(&reading.recipe, 0);
    enum status status = tokenizer_json_read_all(&reading, error);
    if (status == STATUS_OK)
        status = tokenizer_build(&reading.parts, tokenizer, error);
    tokenizer_parts_fini(&reading.parts);
    token_table_fini(&reading.table);
    buf_fini(&reading.recipe);
    free(reading.merges);
    return status;
}

enum status tokenizer_open_json(const char *path, const struct tokenizer_extras *extras,
                                struct tokenizer **tokenizer, struct error *error) {
    json_t *root = NULL;
    TRY(json_text_load(path, &json_limits_tokenizer, &root, error));
    enum status status =
        error_within(error, tokenizer_parse_json(root, extras, tokenizer, error), "%s", path);
    json_decref(root);
    return status;
}
