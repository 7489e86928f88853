/* Models as they lie on hubs: a folder of config.json, safetensors, tokenizer and chat template. */
#include "base/buf.h"
#include "base/file.h"
#include "base/json/json_text.h"
#include "model/model_parts.h"
#include "model/text/tokenizer/files/tokenizer_bytes.h"
#include "model/weights/checkpoint/checkpoint.h"
#include "model/weights/config/config_hub.h"
#include "model/weights/decoder_names.h"
#include "model/weights/dummy.h"
#include "model/weights/head.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPLATE_BYTES_MAX (1u << 20)

/* chat_template of tokenizer_config.json: a text, or a list of {name, template} of which the one
 * named "default" is for conversations. NULL when there is none. */
static const char *model_folder_template_of(const json_t *config) {
    const json_t *value = json_object_get(config, "chat_template");
    if (json_is_string(value))
        return json_string_value(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(item, "template"));
    }
    return NULL;
}

/* Added tokens make this file of some models long, and flat. */
static enum status model_folder_template_from_config(const char *path, struct buf *text,
                                                     struct error *error) {
    static const struct json_limits limits = {
        .n_bytes = 64u << 20, .depth = 32, .n_values = 4u << 20};
    json_t *config;
    TRY(json_text_load(path, &limits, &config, error));
    const char *found = model_folder_template_of(config);
    if (found)
        buf_puts(text, found);
    json_decref(config);
    if (text->n > TEMPLATE_BYTES_MAX)
        return error_field(error, STATUS_LIMIT, "chat_template",
                           "%s: chat_template is longer than %u bytes", path, TEMPLATE_BYTES_MAX);
    return STATUS_OK;
}

/* What cannot be read counts as absent. */
static enum status model_folder_without(struct model *model, enum status status,
                                        struct error *error) {
    if (status == STATUS_OK || status == STATUS_NOMEM)
        return status;
    buf_clear(&model->template_text);
    remarks_add(&model->remarks, "%s; it is not used", error->text);
    return STATUS_OK;
}

/* A file of its own wins over the key, as newer publishers mean it. */
static enum status model_folder_read_template(struct model *model, const char *folder,
                                              struct error *error) {
    char path[PATH_MAX];
    struct buf *text = &model->template_text;
    if (file_is_there(folder, "chat_template.jinja", path, sizeof path))
        TRY(model_folder_without(model, file_read(path, TEMPLATE_BYTES_MAX, text, error), error));
    if (text->n == 0 && file_is_there(folder, "tokenizer_config.json", path, sizeof path))
        TRY(model_folder_without(model, model_folder_template_from_config(path, text, error),
                                 error));
    return STATUS_OK;
}

static enum status model_folder_load_template(struct model *model, const char *folder,
                                              struct error *error) {
    struct buf *text = &model->template_text;
    TRY(model_folder_read_template(model, folder, error));
    if (buf_status(text) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "%s: no memory for its chat template", folder);
    model->template_source = (struct span){text->data, text->n};
    return STATUS_OK;
}

/* The tokenizer's files, or bytes where there are none and that will do; then the chat template,
 * whose special tokens are looked up in it. */
static enum status model_folder_open_text(struct model *model, const char *folder,
                                          const struct model_options *options,
                                          struct error *error) {
    TRY(model_folder_load_template(model, folder, error));
    enum status status = tokenizer_open_folder(folder, &model->tokenizer, error);
    bool is_optional = (status == STATUS_NOT_FOUND && (options->dummy || options->any_tokenizer)) ||
                       (status == STATUS_UNSUPPORTED && options->any_tokenizer);
    if (is_optional)
        TRY(tokenizer_open_bytes(model->config.n_vocab, &model->tokenizer, error));
    else if (status != STATUS_OK)
        return status;
    for (unsigned i = 0; i < model->tokenizer->remarks.n; i++)
        remarks_add(&model->remarks, "%s", model->tokenizer->remarks.lines[i]);
    TRY(model_limit_tokens(model, folder, error));
    if (!is_optional || !options->dummy || model->template_source.n > 0)
        return model_choose_template(model, error);
    template_chatml(&model->template);
    return STATUS_OK;
}

/* The embedding must be what the numbers say: everything else is sized by them. The families ask
 * for each of the other tensors by its shape. */
static enum status model_folder_check_embedding(const struct model *model, const char *path,
                                                struct error *error) {
    const struct model_config *config = &model->config;
    const struct decoder_names *names = decoder_names_of(config);
    char name[TENSOR_NAME_MAX + 1];
    if (!names)
        return STATUS_OK;
    snprintf(name, sizeof name, "%s.weight", names->embedding);
    const struct tensor *tensor = tensors_find(&model->tensors, name);
    if (tensor && (tensor->n_dims != 2 || tensor->shape[0] != config->n_vocab ||
                   tensor->shape[1] != config->dim))
        return error_field(error, STATUS_CORRUPT, name,
                           "%s: tensor %s is (%llu, %llu), but config.json says (vocab_size "
                           "%u, hidden_size %u)",
                           path, name, (unsigned long long)tensor->shape[0],
                           (unsigned long long)tensor->shape[1], config->n_vocab, config->dim);
    return STATUS_OK;
}

static enum status model_folder_open_config(struct model *model, const char *path,
                                            char folder[PATH_MAX], struct error *error) {
    struct config_hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        return error_set(error, STATUS_NOMEM, "%s: no memory", path);
    enum status status = config_hub_load(path, hub, error);
    if (status == STATUS_OK) {
        status = config_from_hub(hub, &model->config, error);
        /* Older folders say in config.json how to sample. */
        generation_from_json(hub->generation ? hub->generation : hub->config,
                             hub->generation ? hub->generation_file : hub->config_file,
                             &model->generation);
        memcpy(folder, hub->folder, strlen(hub->folder) + 1);
        model->remarks = hub->remarks;
        if (status == STATUS_OK)
            status = model_look_at_config(hub, &model->remarks, error);
        config_hub_fini(hub);
    }
    free(hub);
    return status;
}

enum status model_fill_folder(struct model *model, const char *path,
                              const struct model_options *options, struct error *error) {
    char folder[PATH_MAX];
    char absolute[PATH_MAX];
    struct model_config *config = &model->config;
    TRY(model_folder_open_config(model, path, folder, error));
    config_name_from_path(config, realpath(folder, absolute) ? absolute : folder);
    if (options->dummy)
        TRY(dummy_open(config, options->seed, &model->tensors.checkpoint, error));
    else
        TRY(checkpoint_from_safetensors(folder, &model->tensors.checkpoint, error));
    TRY(model_folder_check_embedding(model, path, error));
    const struct tensor *head = head_untie(config, &model->tensors);
    if (head)
        remarks_add(&model->remarks,
                    "config.json: tie_word_embeddings is not used and should be false: %s is not "
                    "the embedding",
                    head->name);
    TRY(model_folder_open_text(model, folder, options, error));
    TRY(model_look_at_text(model, folder, error));
    if (config->bos_id == CONFIG_NO_TOKEN)
        config->bos_id = model->tokenizer->bos_id;
    if (config->eos_id == CONFIG_NO_TOKEN)
        config->eos_id = model->tokenizer->eos_id;
    model_add_stops(model);
    return STATUS_OK;
}
