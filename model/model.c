#include "model/model.h"

#include "model/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define SAMPLE_BYTES ((uint64_t)64)

/* Half of a file's fingerprint: its size, its whole header (metadata and tensor table), and three
 * samples of each tensor. Two models that differ in a shape, a key, a type or their training differ
 * in this; a few changed weights in the midst of a tensor may not show, which nobody does by
 * accident. Reading all bytes would cost as much as loading them. */
static enum status hash_file(const struct gguf *gguf, uint64_t seed, uint8_t half[16]) {
    XXH128_canonical_t canonical;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return STATUS_NOMEM;
    XXH3_128bits_reset_withSeed(state, seed);
    XXH3_128bits_update(state, &gguf->n_bytes, sizeof gguf->n_bytes);
    XXH3_128bits_update(state, gguf->bytes, gguf->data_offset);
    for (uint32_t i = 0; i < gguf->n_tensors; i++) {
        const struct tensor *tensor = &gguf->tensors[i];
        const unsigned char *data = tensor->data;
        uint64_t n = tensor->n_bytes < SAMPLE_BYTES ? tensor->n_bytes : SAMPLE_BYTES;
        XXH3_128bits_update(state, data, n);
        XXH3_128bits_update(state, data + (tensor->n_bytes - n) / 2, n);
        XXH3_128bits_update(state, data + (tensor->n_bytes - n), n);
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    memcpy(half, canonical.digest, 16);
    return STATUS_OK;
}

/* Completions work without a template that cannot be used; chats are told why. */
static enum status choose_template(struct model *model, struct error *error) {
    struct template_source source = {.text = model->template_source,
                                     .family = model->config.family,
                                     .tokenizer = model->tokenizer,
                                     .n_vocab = model->config.n_vocab};
    enum status status = template_choose(&model->template, &source, error);
    if (status == STATUS_NOMEM)
        return status;
    if (status != STATUS_OK)
        snprintf(model->template.refusal, sizeof model->template.refusal, "%s", error->text);
    for (uint32_t i = 0; i < model->template.n_stop_ids; i++)
        config_add_stop(&model->config, model->template.stop_ids[i]);
    return STATUS_OK;
}

static enum status fill_from_gguf(struct model *model, const char *path, struct error *error) {
    struct model_config *config = &model->config;
    TRY(gguf_open(path, &model->gguf, error));
    /* The numbers are checked before anything is allocated by them. */
    TRY(config_from_gguf(model->gguf, config, error));
    config_name_from_path(config, path);
    TRY(tokenizer_open_gguf(model->gguf, &model->tokenizer, error));
    config_add_stops(config, model->gguf, model->tokenizer);
    memcpy(config->tokenizer_fingerprint, model->tokenizer->fingerprint,
           sizeof config->tokenizer_fingerprint);
    if (gguf_find(model->gguf, "tokenizer.chat_template"))
        TRY(gguf_string(model->gguf, "tokenizer.chat_template", &model->template_source, error));
    TRY(choose_template(model, error));
    if (hash_file(model->gguf, 0, config->fingerprint) != STATUS_OK ||
        hash_file(model->gguf, 1, config->fingerprint + 16) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    /* A router needs nothing more of the file; the samples alone brought in a quarter of it. */
    gguf_drop_pages(model->gguf);
    return STATUS_OK;
}

static enum status fill_hash(struct model *model, struct error *error) {
    struct model_config *config = &model->config;
    TRY(tokenizer_open_hash(&model->tokenizer, error));
    snprintf(config->family, sizeof config->family, "hash");
    snprintf(config->name, sizeof config->name, "hash");
    config->n_vocab = tokenizer_n_tokens(model->tokenizer);
    config->context = MODEL_HASH_CONTEXT;
    config->bos_id = config->eos_id = CONFIG_NO_TOKEN;
    memcpy(config->tokenizer_fingerprint, model->tokenizer->fingerprint,
           sizeof config->tokenizer_fingerprint);
    memcpy(config->fingerprint, model->tokenizer->fingerprint, sizeof config->fingerprint);
    template_chatml(&model->template);
    return config_check(config, error);
}

static enum status fill(struct model *model, const char *path, struct error *error) {
    struct stat info;
    if (strcmp(path, "hash") == 0)
        return fill_hash(model, error);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: folders with config.json are not supported yet; a .gguf file is",
                         path);
    return fill_from_gguf(model, path, error);
}

enum status model_open(const char *path, struct model **model, struct error *error) {
    struct model *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    enum status status = fill(opened, path, error);
    if (status != STATUS_OK)
        model_close(opened);
    else
        *model = opened;
    return status;
}

void model_close(struct model *model) {
    if (!model)
        return;
    template_fini(&model->template);
    tokenizer_close(model->tokenizer);
    gguf_close(model->gguf);
    free(model);
}

const struct tensor *model_find_tensor(const struct model *model, const char *name) {
    return model->gguf ? gguf_tensor(model->gguf, name) : NULL;
}

const struct tensor *model_nth_tensor(const struct model *model, uint32_t n) {
    return model->gguf && n < model->gguf->n_tensors ? &model->gguf->tensors[n] : NULL;
}

enum status model_tensor(const struct model *model, const char *name, uint64_t n_rows,
                         uint64_t n_columns, const struct tensor **tensor, struct error *error) {
    const struct tensor *found = model_find_tensor(model, name);
    if (!found)
        return error_field(error, STATUS_NOT_FOUND, name, "%s: tensor %s is missing",
                           model->config.name, name);
    uint32_t n_dims = n_rows == 0 ? 1 : 2;
    uint64_t rows = n_rows == 0 ? n_columns : n_rows;
    uint64_t columns = n_rows == 0 ? 1 : n_columns;
    if (found->n_dims != n_dims || found->shape[0] != rows || found->shape[1] != columns)
        return error_field(error, STATUS_CORRUPT, name,
                           "%s: tensor %s is (%llu, %llu, ...) in %u dimensions, not (%llu, %llu)",
                           model->config.name, name, (unsigned long long)found->shape[0],
                           (unsigned long long)found->shape[1], found->n_dims,
                           (unsigned long long)rows, (unsigned long long)columns);
    *tensor = found;
    return STATUS_OK;
}
