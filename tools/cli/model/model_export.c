/* The layout of both files: Hugging Face tokenizers 0.23 and transformers, as they write them for
 * byte-level BPE. */
#include "tools/cli/model/model_export.h"

#include "base/exit.h"
#include "model/gguf/gguf.h"
#include "model/model.h"
#include "model/text/tokenizer/bpe/pretokenize_names.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Texts of a file need not be UTF-8; such a token cannot be spelled in JSON. */
static json_t *export_text_value(struct span text) {
    return json_stringn(text.bytes, text.n);
}

/* The tokens that the model has rows for. */
static json_t *export_build_vocabulary(const struct gguf *gguf, uint32_t n_tokens,
                                       struct error *error) {
    struct gguf_array tokens;
    struct span text;
    json_t *object = json_object();
    if (gguf_array_of(gguf, "tokenizer.ggml.tokens", GGUF_STRING, &tokens, error) != STATUS_OK) {
        json_decref(object);
        return NULL;
    }
    for (uint32_t id = 0; id < n_tokens && gguf_array_next_text(&tokens, &text); id++) {
        char key[VOCABULARY_BYTES_MAX * 2 + 1];
        json_t *is_text = export_text_value(text);
        if (is_text && text.n < sizeof key && !memchr(text.bytes, 0, text.n)) {
            memcpy(key, text.bytes, text.n);
            key[text.n] = 0;
            json_object_set_new(object, key, json_integer(id));
        }
        json_decref(is_text);
    }
    return object;
}

/* Whether a merge, "left right", ends in a token. */
static bool export_has_join(const json_t *vocabulary, struct span merge) {
    char join[VOCABULARY_BYTES_MAX * 2];
    const char *blank = memchr(merge.bytes, ' ', merge.n);
    if (!blank || merge.n > sizeof join)
        return false;
    size_t cut = (size_t)(blank - merge.bytes);
    memcpy(join, merge.bytes, cut);
    memcpy(join + cut, blank + 1, merge.n - cut - 1);
    return json_object_getn(vocabulary, join, merge.n - 1) != NULL;
}

/* Readers refuse a merge that ends in no token: those beyond the rows go with their tokens. */
static json_t *export_build_merges(const struct gguf *gguf, const json_t *vocabulary, bool is_cut) {
    struct gguf_array merges;
    struct span text;
    struct error ignored;
    json_t *list = json_array();
    if (gguf_array_of(gguf, "tokenizer.ggml.merges", GGUF_STRING, &merges, &ignored) == STATUS_OK)
        while (gguf_array_next_text(&merges, &text))
            if (!is_cut || export_has_join(vocabulary, text))
                json_array_append_new(list, export_text_value(text));
    return list;
}

static json_t *export_build_added(const struct tokenizer *tokenizer) {
    json_t *list = json_array();
    for (uint32_t id = 0; id < tokenizer_n_tokens(tokenizer); id++) {
        uint8_t kind = tokenizer->vocabulary.kinds[id];
        json_t *content = export_text_value(tokenizer_bytes(tokenizer, id));
        if ((kind == TOKEN_USER_DEFINED || tokenizer_is_special(tokenizer, id)) && content)
            json_array_append_new(list, json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id",
                                                  (json_int_t)id, "content", content, "single_word",
                                                  0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                                  "special", kind != TOKEN_USER_DEFINED));
        json_decref(content);
    }
    return list;
}

static const struct pretokenize_name *export_cuts_of(const struct gguf *gguf) {
    struct span pre = SPAN("gpt-2");
    struct error ignored;
    return gguf_string(gguf, "tokenizer.ggml.pre", &pre, &ignored) == STATUS_OK
               ? pretokenize_find(pre)
               : NULL;
}

static json_t *export_build_cuts(const struct pretokenize_name *name) {
    json_t *list = json_array();
    for (size_t i = 0; name->patterns[i]; i++)
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                                              "pattern", "Regex", name->patterns[i], "behavior",
                                              "Isolated", "invert", 0));
    json_array_append_new(list,
                          json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                    0, "trim_offsets", 1, "use_regex", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

/* Adds a side's tokens to the pieces of a template and to its table. */
static void export_add_ends(const struct tokenizer *tokenizer, const struct tokenizer_ends *ends,
                            json_t *pieces, json_t *table) {
    for (uint32_t i = 0; i < ends->n; i++) {
        json_t *text = export_text_value(tokenizer_bytes(tokenizer, ends->ids[i]));
        const char *name = text ? json_string_value(text) : "";
        json_array_append_new(
            pieces, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name, "type_id", 0));
        json_object_set_new(table, name,
                            json_pack("{s:s, s:[I], s:[s]}", "id", name, "ids",
                                      (json_int_t)ends->ids[i], "tokens", name));
        json_decref(text);
    }
}

static json_t *export_text_piece(const char *name, int type) {
    return json_pack("{s:{s:s, s:i}}", "Sequence", "id", name, "type_id", type);
}

/* What adds the tokens around a text, for models that want some; null for the others. */
static json_t *export_build_post_processor(const struct tokenizer *tokenizer) {
    if (tokenizer->before.n + tokenizer->behind.n == 0)
        return json_null();
    json_t *pieces = json_array();
    json_t *table = json_object();
    export_add_ends(tokenizer, &tokenizer->before, pieces, table);
    json_array_append_new(pieces, export_text_piece("A", 0));
    export_add_ends(tokenizer, &tokenizer->behind, pieces, table);
    return json_pack("{s:s, s:o, s:[o, o], s:o}", "type", "TemplateProcessing", "single", pieces,
                     "pair", export_text_piece("A", 0), export_text_piece("B", 1), "special_tokens",
                     table);
}

static json_t *export_build_tokenizer(const struct model *model, struct error *error) {
    const struct pretokenize_name *name = export_cuts_of(model->gguf);
    if (!name) {
        error_set(error, STATUS_UNSUPPORTED, "%s: only byte-level BPE is exported",
                  model->config.name);
        return NULL;
    }
    const struct vocabulary *known = &model->tokenizer->vocabulary;
    json_t *vocabulary = export_build_vocabulary(model->gguf, known->n_tokens, error);
    if (!vocabulary)
        return NULL;
    json_t *bpe = json_pack(
        "{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
        "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
        "ignore_merges", name->ignores_merges, "vocab", vocabulary, "merges",
        export_build_merges(model->gguf, vocabulary, known->n_tokens < known->n_listed));
    json_t *whole = json_pack(
        "{s:s, s:n, s:n, s:o, s:o, s:o, s:o, s:{s:s, s:b, s:b, s:b}, s:o}", "version", "1.0",
        "truncation", "padding", "added_tokens", export_build_added(model->tokenizer), "normalizer",
        name->is_nfc ? json_pack("{s:s}", "type", "NFC") : json_null(), "pre_tokenizer",
        export_build_cuts(name), "post_processor", export_build_post_processor(model->tokenizer),
        "decoder", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1,
        "model", bpe);
    if (!whole)
        error_set(error, STATUS_NOMEM, "the tokenizer cannot be written as JSON");
    return whole;
}

static json_t *export_token_or_null(const struct tokenizer *tokenizer, uint32_t id) {
    json_t *text = id == TOKEN_NONE ? NULL : export_text_value(tokenizer_bytes(tokenizer, id));
    return text ? text : json_null();
}

static json_t *export_build_config(const struct model *model) {
    json_t *chat = model->template_source.n > 0 ? export_text_value(model->template_source) : NULL;
    return json_pack(
        "{s:s, s:o, s:o, s:b, s:b, s:I, s:o}", "tokenizer_class", "PreTrainedTokenizerFast",
        "bos_token", export_token_or_null(model->tokenizer, model->tokenizer->bos_id), "eos_token",
        export_token_or_null(model->tokenizer, model->tokenizer->eos_id), "add_bos_token",
        tokenizer_adds_bos(model->tokenizer), "clean_up_tokenization_spaces", 0, "model_max_length",
        (json_int_t)model->config.context, "chat_template", chat ? chat : json_null());
}

/* Beside its place first, so that no program reads half a file. Takes over `value`. */
static enum status export_write_json(const char *folder, const char *name, json_t *value,
                                     struct error *error) {
    char path[4096];
    char scratch[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int n = snprintf(scratch, sizeof scratch, "%s/.%s.tmp", folder, name);
    bool written = value && n < (int)sizeof scratch && json_dump_file(value, scratch, 0) == 0 &&
                   rename(scratch, path) == 0;
    json_decref(value);
    if (written)
        return STATUS_OK;
    return error_set(error, STATUS_IO, "%s/%s: cannot be written", folder, name);
}

enum status model_export_tokenizer(const struct model *model, const char *folder,
                                   struct error *error) {
    if (!model->gguf)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: a model folder has its tokenizer's files in it: name the folder "
                         "itself where a tokenizer is asked for; only a GGUF file's is exported",
                         model->config.name);
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO, "%s: %s", folder, strerror(errno));
    json_t *whole = export_build_tokenizer(model, error);
    if (!whole)
        return STATUS_NOMEM;
    TRY(export_write_json(folder, "tokenizer.json", whole, error));
    return export_write_json(folder, "tokenizer_config.json", export_build_config(model), error);
}

int model_export(const char *path, const char *folder) {
    struct model *model = NULL;
    struct error error;
    int code = EXIT_CONFIG;
    if (model_open(path, NULL, &model, &error) == STATUS_OK)
        code = model_export_tokenizer(model, folder, &error) == STATUS_OK ? EXIT_SUCCESS
                                                                          : EXIT_FAILURE;
    if (code != EXIT_SUCCESS)
        fprintf(stderr, "%s\n", error.text);
    model_close(model);
    return code;
}
