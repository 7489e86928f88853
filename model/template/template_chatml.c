/* ChatML: <|im_start|>ROLE\nTEXT<|im_end|>\n for each message, and the assistant's opening at the
 * end (OpenAI 2023). For models that ship no template: `hash`, and Qwen of the first generation,
 * whose own code puts a default line first (QwenLM/Qwen, qwen_generation_utils.py). */
#include "model/template/template_kinds.h"

static const struct span opening = SPAN("<|im_start|>");
static const struct span closing = SPAN("<|im_end|>");

static bool recognise(const struct template_source *source) {
    return source->text.n == 0 && source->family &&
           (strcmp(source->family, "qwen") == 0 || strcmp(source->family, "hash") == 0);
}

static enum status open_chatml(struct template *chosen, const struct template_source *source,
                               struct error *error) {
    (void)error;
    if (strcmp(source->family, "qwen") == 0)
        chosen->system = SPAN("You are a helpful assistant.");
    return STATUS_OK;
}

static enum status add(struct template_prompt *prompt, enum template_segment_kind kind,
                       struct span text) {
    return template_add(prompt, (struct template_segment){.kind = kind, .text = text});
}

/* The role's name is the template's text, not the user's: the table of roles is closed. */
static enum status add_turn(struct template_prompt *prompt, const char *role, struct span text) {
    TRY(add(prompt, TEMPLATE_MARKUP, opening));
    TRY(add(prompt, TEMPLATE_PLAIN, (struct span){role, strlen(role)}));
    TRY(add(prompt, TEMPLATE_PLAIN, SPAN("\n")));
    TRY(add(prompt, TEMPLATE_PLAIN, text));
    TRY(add(prompt, TEMPLATE_MARKUP, closing));
    return add(prompt, TEMPLATE_PLAIN, SPAN("\n"));
}

static enum status render(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt, struct error *error) {
    TRY(template_refuse_tools(chosen, input, error));
    if (chosen->system.n > 0 && input->messages[0].role != TEMPLATE_SYSTEM)
        TRY(add_turn(prompt, "system", chosen->system));
    for (size_t i = 0; i < input->n_messages; i++)
        TRY(add_turn(prompt, template_role_name(input->messages[i].role),
                     input->messages[i].content));
    if (!input->add_generation_prompt)
        return STATUS_OK;
    TRY(add(prompt, TEMPLATE_MARKUP, opening));
    return add(prompt, TEMPLATE_PLAIN, SPAN("assistant\n"));
}

const struct template_kind template_kind_chatml = {
    .name = "chatml", .recognise = recognise, .open = open_chatml, .render = render};
