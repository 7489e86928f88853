#include "model/text/tokenizer/files/tokenizer_extras.h"

#include "base/file.h"
#include "base/json/json_get.h"
#include "base/json/json_text.h"
#include "model/text/tokenizer/vocabulary/vocabulary.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer_extras_files {
    json_t *config;  /* tokenizer_config.json */
    json_t *special; /* special_tokens_map.json */
    json_t *added;   /* added_tokens.json */
    json_t *model;   /* config.json */
};

static enum status tokenizer_extras_load_if_there(const char *folder, const char *name,
                                                  json_t **root, struct error *error) {
    char path[PATH_MAX];
    if (!file_is_there(folder, name, path, sizeof path))
        return STATUS_OK;
    return json_text_load(path, &json_limits_tokenizer, root, error);
}

/* "<s>", {"content": "<s>", ...} or null; anything else is a mistake. */
static enum status tokenizer_extras_read_text(const json_t *root, const char *key,
                                              struct span *text, struct error *error) {
    const json_t *value = json_object_get(root, key);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    if (!value || json_is_null(value) || text->n > 0)
        return STATUS_OK;
    if (!json_is_string(value))
        return error_field(error, STATUS_CORRUPT, key, "%s is not text", key);
    *text = (struct span){json_string_value(value), json_string_length(value)};
    return STATUS_OK;
}

static enum status tokenizer_extras_read_answer(const json_t *root, const char *key,
                                                enum tokenizer_answer *answer,
                                                struct error *error) {
    const struct json_get get = json_get_part(root, error);
    bool is_yes = false;
    TRY(json_get_bool(&get, key, &is_yes));
    if (json_get_member(&get, key))
        *answer = is_yes ? ANSWER_YES : ANSWER_NO;
    return STATUS_OK;
}

/* The same where null counts as false, as Python has it. */
static enum status tokenizer_extras_read_wish(const json_t *root, const char *key,
                                              enum tokenizer_answer *answer, struct error *error) {
    if (json_is_null(json_object_get(root, key)))
        *answer = ANSWER_NO;
    return tokenizer_extras_read_answer(root, key, answer, error);
}

enum status tokenizer_added_flags(const struct json_get *token, uint8_t *flags) {
    static const struct {
        const char *name;
        uint8_t flag;
    } rows[] = {{"single_word", TOKEN_SINGLE_WORD},
                {"lstrip", TOKEN_STRIPS_LEFT},
                {"rstrip", TOKEN_STRIPS_RIGHT},
                {"normalized", TOKEN_NORMALIZED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_set = *flags & rows[i].flag;
        TRY(json_get_bool(token, rows[i].name, &is_set));
        *flags = (uint8_t)(is_set ? *flags | rows[i].flag : *flags & ~rows[i].flag);
    }
    return STATUS_OK;
}

static int token_compare_id(const void *left, const void *right) {
    uint32_t a = ((const struct tokenizer_added *)left)->id;
    uint32_t b = ((const struct tokenizer_added *)right)->id;
    return a < b ? -1 : a > b;
}

static enum status tokenizer_extras_sort(struct tokenizer_extras *extras, struct error *error) {
    qsort(extras->added, extras->n_added, sizeof *extras->added, token_compare_id);
    for (size_t i = 1; i < extras->n_added; i++)
        if (extras->added[i].id == extras->added[i - 1].id)
            return error_set(error, STATUS_CORRUPT, "token %u appears twice", extras->added[i].id);
    return STATUS_OK;
}

static enum status tokenizer_extras_add_token(struct tokenizer_extras *extras,
                                              struct tokenizer_added added, struct error *error) {
    if (added.content.n == 0 || added.content.n > VOCABULARY_BYTES_MAX)
        return error_set(error, STATUS_CORRUPT, "added token %u has %zu bytes, not 1 to %u",
                         added.id, added.content.n, VOCABULARY_BYTES_MAX);
    if (extras->n_added == TOKENIZER_ADDED_MAX)
        return error_set(error, STATUS_LIMIT, "more than %u added tokens", TOKENIZER_ADDED_MAX);
    extras->added[extras->n_added++] = added;
    return STATUS_OK;
}

/* {"151643": {"content": "<|endoftext|>", "special": true, ...}, ...} */
static enum status tokenizer_extras_read_decoder(struct tokenizer_extras *extras,
                                                 const json_t *decoder, struct error *error) {
    const char *key;
    json_t *token;
    json_object_foreach((json_t *)decoder, key, token) {
        const struct json_get get = json_get_part(token, error);
        struct tokenizer_added added = {0};
        char *end;
        unsigned long id = strtoul(key, &end, 10);
        if (*key < '0' || *key > '9' || *end || id >= VOCABULARY_TOKENS_MAX)
            return error_field(error, STATUS_CORRUPT, "added_tokens_decoder",
                               "added_tokens_decoder: \"%.32s\" is not a token id", key);
        added.id = (uint32_t)id;
        TRY(tokenizer_extras_read_text(token, "content", &added.content, error));
        TRY(json_get_bool(&get, "special", &added.is_special));
        TRY(tokenizer_added_flags(&get, &added.flags));
        TRY(tokenizer_extras_add_token(extras, added, error));
    }
    return tokenizer_extras_sort(extras, error);
}

/* added_tokens.json: {"<|im_end|>": 32000, ...} */
static enum status tokenizer_extras_read_added(struct tokenizer_extras *extras, json_t *root,
                                               struct error *error) {
    const char *key;
    json_t *value;
    size_t n_known = extras->n_added;
    json_object_foreach(root, key, value) {
        struct span content = {key, strlen(key)};
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= VOCABULARY_TOKENS_MAX)
            return error_set(error, STATUS_CORRUPT, "token \"%.64s\" has no id", key);
        struct tokenizer_added added = {.id = (uint32_t)id, .content = content};
        if (bsearch(&added, extras->added, n_known, sizeof added, token_compare_id))
            continue;
        TRY(tokenizer_extras_add_token(extras, added, error));
    }
    return tokenizer_extras_sort(extras, error);
}

static int tokenizer_extras_compare(struct span a, struct span b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.bytes, b.bytes, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static int token_compare_content(const void *a, const void *b) {
    return tokenizer_extras_compare((*(struct tokenizer_added *const *)a)->content,
                                    (*(struct tokenizer_added *const *)b)->content);
}

/* The added tokens of this text, among n by content, are special. */
static void tokenizer_extras_mark(struct tokenizer_added **sorted, size_t n, struct span text) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tokenizer_extras_compare(sorted[middle]->content, text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n && tokenizer_extras_compare(sorted[low]->content, text) == 0; low++)
        sorted[low]->is_special = true;
}

static void tokenizer_extras_mark_list(struct tokenizer_added **sorted, size_t n,
                                       const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (json_is_object(item))
            item = json_object_get(item, "content");
        if (json_is_string(item))
            tokenizer_extras_mark(sorted, n, span_of(json_string_value(item)));
    }
}

/* Tokens that a file names as special are, whether or not they say so themselves. */
static enum status tokenizer_extras_mark_named(struct tokenizer_extras *extras,
                                               struct error *error) {
    static const char *const keys[] = {"additional_special_tokens",
                                       "extra_special_tokens"}; /* as transformers 5 calls it */
    const json_t *files[] = {extras->files->config, extras->files->special};
    const struct span ends[] = {extras->bos, extras->eos, extras->unk, extras->pad};
    size_t n = extras->n_added;
    struct tokenizer_added **sorted = calloc(n + 1, sizeof *sorted);
    if (!sorted)
        return error_set(error, STATUS_NOMEM, "no memory for the added tokens");
    for (size_t i = 0; i < n; i++)
        sorted[i] = &extras->added[i];
    qsort(sorted, n, sizeof *sorted, token_compare_content);
    for (size_t i = 0; i < 4; i++)
        tokenizer_extras_mark_list(sorted, n, json_object_get(files[i % 2], keys[i / 2]));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        tokenizer_extras_mark(sorted, n, ends[i]);
    free(sorted);
    return STATUS_OK;
}

static enum status tokenizer_extras_read_ends(struct tokenizer_extras *extras, const json_t *root,
                                              struct error *error) {
    TRY(tokenizer_extras_read_text(root, "bos_token", &extras->bos, error));
    TRY(tokenizer_extras_read_text(root, "eos_token", &extras->eos, error));
    TRY(tokenizer_extras_read_text(root, "unk_token", &extras->unk, error));
    return tokenizer_extras_read_text(root, "pad_token", &extras->pad, error);
}

/* transformers 5 writes a backend, and neither of the wishes: its classes decide nothing. */
static bool tokenizer_extras_is_by_file(const json_t *config,
                                        const struct tokenizer_extras *extras) {
    const char *backend = json_string_value(json_object_get(config, "backend"));
    return backend && strcmp(backend, "tokenizers") == 0 && extras->add_bos == ANSWER_UNSAID &&
           extras->add_eos == ANSWER_UNSAID;
}

static enum status tokenizer_extras_read_config(struct tokenizer_extras *extras,
                                                const json_t *config, struct error *error) {
    TRY(tokenizer_extras_read_ends(extras, config, error));
    TRY(tokenizer_extras_read_text(config, "tokenizer_class", &extras->class, error));
    TRY(tokenizer_extras_read_wish(config, "add_bos_token", &extras->add_bos, error));
    TRY(tokenizer_extras_read_wish(config, "add_eos_token", &extras->add_eos, error));
    TRY(tokenizer_extras_read_answer(config, "legacy", &extras->legacy, error));
    extras->ends_in_file = tokenizer_extras_is_by_file(config, extras);
    const struct json_get get = json_get_part(config, error);
    struct json_get decoder;
    TRY(json_get_object(&get, "added_tokens_decoder", &decoder));
    return decoder.object ? tokenizer_extras_read_decoder(extras, decoder.object, error)
                          : STATUS_OK;
}

/* Reads a helper's members; one that is not as expected counts as absent. The added tokens are part of
 * the vocabulary: what is wrong with them stays an error. */
static enum status tokenizer_extras_read_helper(
    struct tokenizer_extras *extras, const char *folder, const char *name, json_t *root,
    enum status (*read)(struct tokenizer_extras *extras, const json_t *root, struct error *error),
    struct error *error) {
    enum status status;
    size_t n_added = extras->n_added;
    while ((status = read(extras, root, error)) == STATUS_CORRUPT && extras->n_added == n_added &&
           strcmp(error->field, "added_tokens_decoder") != 0 &&
           json_object_del(root, error->field) == 0)
        remarks_add(&extras->remarks, "%s/%s: %s; it is not used", folder, name, error->text);
    return error_within(error, status, "%s/%s", folder, name);
}

/* The class that transformers takes for a type of model. */
static struct span tokenizer_extras_class_of_type(const json_t *type) {
    static const struct {
        const char *type;
        struct span class;
    } rows[] = {{"llama", SPAN("LlamaTokenizer")},    {"mistral", SPAN("LlamaTokenizer")},
                {"qwen2", SPAN("Qwen2Tokenizer")},    {"qwen2_moe", SPAN("Qwen2Tokenizer")},
                {"qwen3", SPAN("Qwen2Tokenizer")},    {"qwen3_moe", SPAN("Qwen2Tokenizer")},
                {"chatglm", SPAN("ChatGLMTokenizer")}};
    const char *name = json_string_value(type);
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].type) == 0)
            return rows[i].class;
    return (struct span){0};
}

/* What is wrong with config.json is for the model's reader to say. */
static void tokenizer_extras_read_model(struct tokenizer_extras *extras, const char *folder) {
    struct error ignored;
    json_t **root = &extras->files->model;
    if (tokenizer_extras_load_if_there(folder, "config.json", root, &ignored) != STATUS_OK)
        return;
    const json_t *class = json_object_get(*root, "tokenizer_class");
    if (json_is_string(class))
        extras->model_class = span_of(json_string_value(class));
    else
        extras->model_class = tokenizer_extras_class_of_type(json_object_get(*root, "model_type"));
}

static enum status tokenizer_extras_read_all(struct tokenizer_extras *extras, const char *folder,
                                             struct error *error) {
    struct tokenizer_extras_files *files = extras->files;
    struct remarks *remarks = &extras->remarks;
    char path[PATH_MAX];
    tokenizer_extras_read_model(extras, folder);
    if (file_is_there(folder, "tokenizer_config.json", path, sizeof path))
        TRY(json_text_load_helper(path, &json_limits_tokenizer, &files->config, remarks, error));
    if (file_is_there(folder, "special_tokens_map.json", path, sizeof path))
        TRY(json_text_load_helper(path, &json_limits_tokenizer, &files->special, remarks, error));
    TRY(tokenizer_extras_load_if_there(folder, "added_tokens.json", &files->added, error));
    size_t n_decoder = json_object_size(json_object_get(files->config, "added_tokens_decoder"));
    size_t n = n_decoder + json_object_size(files->added);
    extras->added = calloc(n + 1, sizeof *extras->added);
    if (!extras->added)
        return error_set(error, STATUS_NOMEM, "%s: no memory for the added tokens", folder);
    TRY(tokenizer_extras_read_helper(extras, folder, "tokenizer_config.json", files->config,
                                     tokenizer_extras_read_config, error));
    TRY(tokenizer_extras_read_helper(extras, folder, "special_tokens_map.json", files->special,
                                     tokenizer_extras_read_ends, error));
    TRY(error_within(error, tokenizer_extras_read_added(extras, files->added, error),
                     "%s/added_tokens.json", folder));
    return tokenizer_extras_mark_named(extras, error);
}

enum status tokenizer_extras_init(struct tokenizer_extras *extras, const char *folder,
                                  struct error *error) {
    *extras = (struct tokenizer_extras){0};
    extras->files = calloc(1, sizeof *extras->files);
    if (!extras->files)
        return error_set(error, STATUS_NOMEM, "%s: no memory", folder);
    enum status status = tokenizer_extras_read_all(extras, folder, error);
    if (status != STATUS_OK) {
        tokenizer_extras_fini(extras);
        return status;
    }
    return STATUS_OK;
}

void tokenizer_extras_fini(struct tokenizer_extras *extras) {
    if (!extras)
        return;
    if (extras->files) {
        json_decref(extras->files->config);
        json_decref(extras->files->special);
        json_decref(extras->files->added);
        json_decref(extras->files->model);
    }
    free(extras->files);
    free(extras->added);
    *extras = (struct tokenizer_extras){0};
}
