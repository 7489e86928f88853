#include "model/model_parts.h"

#include <stdio.h>

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
