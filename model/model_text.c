/* What the text of a model decides of the whole: its chat template, the ids that end an answer. */
#include "model/model_parts.h"

#include "model/gguf/gguf.h"

#include <stdio.h>
#include <string.h>

enum status model_limit_tokens(struct model *model, const char *path, struct error *error) {
    return error_within(
        error, tokenizer_limit(model->tokenizer, model->config.n_vocab, &model->remarks, error),
        "%s", path);
}

enum status model_choose_template(struct model *model, struct error *error) {
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

static void model_add_stop_tokens(struct model *model) {
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    /* Files often name one end only, while the model was trained with several. */
    static const char *const names[] = {"<|im_end|>", "<|endoftext|>",   "<|eot_id|>",
                                        "<|eom_id|>", "<|end_of_text|>", "<|end|>",
                                        "</s>",       "<end_of_turn>",   "<|endofturn|>"};
    /* Ends of a turn in ChatGLM's form, where other models may know the words otherwise. */
    static const char *const glm_names[] = {"<|user|>", "<|observation|>"};
    struct model_config *config = &model->config;
    const struct vocabulary *vocabulary = &model->tokenizer->vocabulary;
    struct error ignored;
    config_add_stop(config, config->eos_id);
    config_add_stop(config, model->tokenizer->eos_id);
    for (size_t i = 0; model->gguf && i < sizeof keys / sizeof *keys; i++) {
        uint32_t id = CONFIG_NO_TOKEN;
        if (gguf_u32(model->gguf, keys[i], &id, &ignored) == STATUS_OK)
            config_add_stop(config, id);
    }
    /* One that has no row was meant to end answers: others may. */
    if (config->eos_id == CONFIG_NO_TOKEN && vocabulary->n_tokens == vocabulary->n_listed)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        config_add_stop(config, vocabulary_find_special(vocabulary, span_of(names[i])));
    for (size_t i = 0; strcmp(config->family, "chatglm") == 0 && i < 2; i++)
        config_add_stop(config, vocabulary_find_special(vocabulary, span_of(glm_names[i])));
}

void model_add_stops(struct model *model) {
    model_add_stop_tokens(model);
    if (model->config.lacks_stops)
        remarks_add(&model->remarks,
                    "the model's files name more than %u token ids that end an answer: token %u "
                    "and those after it are not used",
                    CONFIG_STOPS_MAX, model->config.first_lacked);
}
