#include "model/text/template/template.h"

#include "model/text/template/jinja/jinja.h"
#include "model/text/template/template_kinds.h"
#include "model/text/template/thought_format.h"
#include "model/text/template/tool_format.h"

#include <stdio.h>

static const struct template_kind *const kinds[] = {
    &template_kind_jinja, &template_kind_chatml, &template_kind_chatglm, &template_kind_baichuan};

enum status template_choose(struct template *chosen, const struct template_source *source,
                            struct error *error) {
    struct template opened = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i]->recognise(source))
            continue;
        opened.kind = kinds[i];
        opened.tool_format = tool_format_of(source->text);
        opened.thought_format = thought_format_of(source->text);
        enum status status = kinds[i]->open(&opened, source, error);
        if (status != STATUS_OK) {
            template_fini(&opened);
            return status;
        }
        break;
    }
    *chosen = opened;
    return STATUS_OK;
}

void template_fini(struct template *chosen) {
    if (!chosen)
        return;
    jinja_free(chosen->program);
    *chosen = (struct template){0};
}

const struct template_kind *template_nth_kind(size_t n) {
    return n < sizeof kinds / sizeof *kinds ? kinds[n] : NULL;
}

void template_chatml(struct template *chosen) {
    *chosen =
        (struct template){.kind = &template_kind_chatml, .as_system = 1u << TEMPLATE_DEVELOPER};
}

/* What a template leaves out is never dropped in silence. */
static enum status template_refuse_dropped(const struct template *chosen,
                                           const struct template_input *input,
                                           struct error *error) {
    bool has_tools = json_array_size(input->tools) > 0;
    unsigned dropped = chosen->dropped | (has_tools ? 0u : chosen->dropped_bare);
    for (size_t i = 0; dropped && i < input->n_messages; i++) {
        enum template_role role = input->messages[i].role;
        char field[48];
        if (!(dropped & 1u << template_role_given(chosen, role)))
            continue;
        snprintf(field, sizeof field, "messages[%zu].role", i);
        return error_field(error, STATUS_UNSUPPORTED, field,
                           "`%s` is %s, and the model's chat template leaves such messages out",
                           field, template_role_name(role));
    }
    return STATUS_OK;
}

enum status template_render(const struct template *chosen, const struct template_input *input,
                            struct template_prompt *prompt, struct error *error) {
    struct template_prompt made = {0};
    if (!chosen->kind && chosen->refusal[0])
        return error_set(error, STATUS_UNSUPPORTED, "the model's chat template cannot be used: %s",
                         chosen->refusal);
    if (!chosen->kind)
        return error_set(error, STATUS_UNSUPPORTED, "the model has no chat template");
    if (input->n_messages == 0)
        return error_field(error, STATUS_INVALID, "messages", "the list of messages is empty");
    if (input->n_messages > TEMPLATE_MESSAGES_MAX)
        return error_field(error, STATUS_LIMIT, "messages", "%zu messages, at most %u are taken",
                           input->n_messages, TEMPLATE_MESSAGES_MAX);
    TRY(template_refuse_dropped(chosen, input, error));
    error_set(error, STATUS_NOMEM, "no memory for the prompt"); /* what adding segments says */
    enum status status = chosen->kind->render(chosen, input, &made, error);
    if (status != STATUS_OK) {
        template_prompt_fini(&made);
        return status;
    }
    *prompt = made;
    return STATUS_OK;
}
