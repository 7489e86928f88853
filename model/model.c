#include "model/model.h"

#include "base/assert.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/log/log.h"
#include "base/span.h"
#include "model/gguf/gguf.h"
#include "model/model_parts.h"
#include "model/text/textless.h"
#include "model/weights/checkpoint/checkpoint.h"
#include "model/weights/config/config_hub.h"
#include "model/weights/decoder_tensors.h"
#include "model/weights/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status model_fill_from_gguf(struct model *model, const char *path,
                                        struct error *error) {
    struct model_config *config = &model->config;
    struct gguf *gguf;
    TRY(gguf_open(path, &gguf, error));
    TRY(checkpoint_from_gguf(gguf, &model->tensors.checkpoint, error));
    model->tensors.any_format = true;
    model->gguf = gguf;
    /* The numbers are checked before anything is allocated by them. */
    TRY(config_from_gguf(gguf, config, error));
    config_name_from_path(config, path);
    generation_from_gguf(gguf, &model->generation);
    TRY(tokenizer_open_gguf(gguf, &model->tokenizer, error));
    TRY(model_limit_tokens(model, path, error));
    model_add_stops(model);
    TRY(gguf_string(gguf, "tokenizer.chat_template", &model->template_source, error));
    return model_choose_template(model, error);
}

static enum status model_fill_hash(struct model *model, struct error *error) {
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

/* What all models from files have, once their parts are there. */
static enum status model_finish(struct model *model, const char *path, struct error *error) {
    struct model_config *config = &model->config;
    const struct checkpoint *checkpoint = model->tensors.checkpoint;
    struct fingerprint fingerprint;
    /* Ids past the embedding's rows would be read from beyond its end. */
    ASSERT(tokenizer_n_tokens(model->tokenizer) <= config->n_vocab);
    memcpy(config->tokenizer_fingerprint, model->tokenizer->fingerprint,
           sizeof config->tokenizer_fingerprint);
    struct textless_model ids = {config->n_vocab, config->n_stop_ids, config->stop_ids};
    if (textless_find(model->tokenizer, ids, &model->textless, &model->n_textless) != STATUS_OK ||
        fingerprint_begin(&fingerprint) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    checkpoint->kind->hash(checkpoint, &fingerprint);
    fingerprint_end(&fingerprint, config->fingerprint);
    /* A router needs nothing more of the file; the samples alone brought in a quarter of it. */
    checkpoint->kind->drop(checkpoint);
    return STATUS_OK;
}

/* A folder's config.json may be named instead of the folder. */
static bool model_is_folder(const char *path) {
    return file_is_folder(path) || span_ends(span_of(path), ".json");
}

static enum status model_fill_from_files(struct model *model, const char *path,
                                         const struct model_options *options, struct error *error) {
    if (model_is_folder(path)) {
        TRY(model_fill_folder(model, path, options, error));
    } else if (options->dummy) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: a dummy model is made from a folder with a config.json", path);
    } else {
        TRY(model_fill_from_gguf(model, path, error));
    }
    return model_finish(model, path, error);
}

static enum status model_fill(struct model *model, const char *path,
                              const struct model_options *options, struct error *error) {
    if (strcmp(path, "hash") == 0)
        return model_fill_hash(model, error);
    struct hub_found *found = malloc(sizeof *found);
    if (!found)
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    enum status status = hub_find(path, options->dummy, found, error);
    if (status == STATUS_OK)
        status = model_fill_from_files(model, found->path, options, error);
    if (status == STATUS_OK && found->name[0])
        config_set_name(&model->config, found->name, strlen(found->name));
    free(found);
    return status;
}

enum status model_open(const char *path, const struct model_options *options, struct model **model,
                       struct error *error) {
    static const struct model_options defaults;
    struct model *opened = calloc(1, sizeof *opened);
    if (!opened || tensors_init(&opened->tensors, &opened->config) != STATUS_OK) {
        free(opened);
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    }
    enum status status = model_fill(opened, path, options ? options : &defaults, error);
    if (status != STATUS_OK)
        model_close(opened);
    else
        *model = opened;
    return status;
}

/* The rows of the model that lies where a tokenizer does; 0: none, or none that is served. */
static uint32_t model_rows_of(const char *path) {
    struct model_config config = {0};
    struct error ignored;
    struct gguf *gguf;
    if (!file_is_folder(path)) {
        if (!span_ends(span_of(path), ".gguf") || gguf_open(path, &gguf, &ignored) != STATUS_OK)
            return 0;
        enum status status = config_from_gguf(gguf, &config, &ignored);
        gguf_close(gguf);
        return status == STATUS_OK ? config.n_vocab : 0;
    }
    struct config_hub *hub = calloc(1, sizeof *hub);
    bool is_read = hub && config_hub_load(path, hub, &ignored) == STATUS_OK &&
                   config_from_hub(hub, &config, &ignored) == STATUS_OK;
    if (hub)
        config_hub_fini(hub);
    free(hub);
    return is_read ? config.n_vocab : 0;
}

/* With the tokens that its model has; whole where no model is served with it. */
static enum status model_open_tokenizer_at(const char *path, struct tokenizer **tokenizer,
                                           struct error *error) {
    struct remarks remarks = {0};
    struct tokenizer *opened;
    TRY(tokenizer_open_path(path, &opened, error));
    uint32_t n_rows = model_rows_of(path);
    if (n_rows > 0 && tokenizer_limit(opened, n_rows, &remarks, error) == STATUS_NOMEM) {
        tokenizer_close(opened);
        return STATUS_NOMEM;
    }
    *tokenizer = opened;
    return STATUS_OK;
}

void model_log_remarks(const struct model *model) {
    char line[ERROR_TEXT_MAX + 64];
    for (unsigned i = 0; i < model->remarks.n; i++)
        log_warn("a part of the model's files is not used", "reason=%s",
                 log_text(line, sizeof line, model->remarks.lines[i]));
}

enum status model_open_tokenizer(const char *path, struct tokenizer **tokenizer,
                                 struct error *error) {
    if (strcmp(path, "hash") == 0)
        return tokenizer_open_path(path, tokenizer, error);
    /* A folder's own files, or else those inside its .gguf file. */
    struct hub_found *found = calloc(2, sizeof *found), *inside = found + 1;
    if (!found)
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    struct error ignored;
    enum status status = hub_find(path, true, found, error);
    if (status == STATUS_OK)
        status = model_open_tokenizer_at(found->path, tokenizer, error);
    if (status == STATUS_NOT_FOUND && hub_find(path, false, inside, &ignored) == STATUS_OK &&
        strcmp(inside->path, found->path) != 0)
        status = model_open_tokenizer_at(inside->path, tokenizer, error);
    free(found);
    return status;
}

void model_close(struct model *model) {
    if (!model)
        return;
    template_fini(&model->template);
    tokenizer_close(model->tokenizer);
    free(model->textless);
    tensors_fini(&model->tensors);
    buf_fini(&model->template_text);
    free(model);
}

enum status model_check_files(const struct model *model, struct error *error) {
    const struct checkpoint *checkpoint = model->tensors.checkpoint;
    return checkpoint ? checkpoint->kind->check(checkpoint, error) : STATUS_OK;
}

enum status model_check_tensors(const struct model *model, struct error *error) {
    const struct tensors *tensors = &model->tensors;
    return !tensors->checkpoint || tensors_are_dummy(tensors)
               ? STATUS_OK
               : decoder_tensors_check(tensors, error);
}
