/* ChatML: <|im_start|>ROLE\nTEXT<|im_end|>\n for each message, and the assistant's opening at the
 * end (OpenAI 2023). For models that ship no template: `hash`, and Qwen of the first generation,
 * whose own code puts a default line first (QwenLM/Qwen, qwen_generation_utils.py). Calls of tools
 * in a history stand behind the text as most ChatML models were taught them since (NousResearch,
 * Hermes Function Calling): <tool_call>\nJSON\n</tool_call>. */
#include "model/text/template/template_kinds.h"

#include <stdlib.h>

static const struct span opening = SPAN("<|im_start|>");
static const struct span closing = SPAN("<|im_end|>");

static bool chatml_recognise(const struct template_source *source) {
    return source->text.n == 0 && source->family &&
           (strcmp(source->family, "qwen") == 0 || strcmp(source->family, "hash") == 0);
}

static enum status chatml_open(struct template *chosen, const struct template_source *source,
                               struct error *error) {
    (void)error;
    chosen->as_system = 1u << TEMPLATE_DEVELOPER;
    if (strcmp(source->family, "qwen") == 0)
        chosen->system = SPAN("You are a helpful assistant.");
    return STATUS_OK;
}

static enum status chatml_add(struct template_prompt *prompt, enum template_segment_kind kind,
                              struct span text) {
    return template_add(prompt, (struct template_segment){.kind = kind, .text = text});
}

/* What each call of the messages says, in order, each text with a NUL behind it, into the prompt's
 * own text. JSON has no NUL of its own. */
static enum status chatml_write_calls(const struct template_input *input,
                                      struct template_prompt *prompt) {
    enum status status = STATUS_OK;
    struct buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < input->n_messages; i++) {
        const json_t *message = json_array_get(input->json_messages, i);
        const json_t *calls = json_object_get(message, "tool_calls");
        for (size_t k = 0; k < json_array_size(calls) && status == STATUS_OK; k++) {
            const json_t *call = json_array_get(calls, k);
            const json_t *function = json_object_get(call, "function");
            char *json = json_dumps(function ? function : call, JSON_ENCODE_ANY);
            if (json)
                buf_append(&text, json, strlen(json) + 1);
            else
                status = STATUS_NOMEM;
            free(json);
        }
    }
    if (status == STATUS_OK)
        status = buf_status(&text);
    if (status == STATUS_OK && text.n > 0 && !(prompt->text = buf_take(&text)))
        status = STATUS_NOMEM;
    buf_fini(&text);
    return status;
}

/* The calls of message `i`; *at is where their texts begin, and then where the next ones do. */
static enum status chatml_add_calls(const struct template_input *input, size_t i,
                                    struct template_prompt *prompt, const char **at) {
    const json_t *calls = json_object_get(json_array_get(input->json_messages, i), "tool_calls");
    for (size_t k = 0; k < json_array_size(calls); k++) {
        struct span text = {*at, strlen(*at)};
        TRY(chatml_add(prompt, TEMPLATE_MARKUP, SPAN("\n<tool_call>\n")));
        TRY(chatml_add(prompt, TEMPLATE_PLAIN, text));
        TRY(chatml_add(prompt, TEMPLATE_MARKUP, SPAN("\n</tool_call>")));
        *at += text.n + 1;
    }
    return STATUS_OK;
}

/* The role's name is the template's text, not the user's: the table of roles is closed. */
static enum status chatml_open_turn(struct template_prompt *prompt, const char *role,
                                    struct span text) {
    TRY(chatml_add(prompt, TEMPLATE_MARKUP, opening));
    TRY(chatml_add(prompt, TEMPLATE_PLAIN, (struct span){role, strlen(role)}));
    TRY(chatml_add(prompt, TEMPLATE_PLAIN, SPAN("\n")));
    return chatml_add(prompt, TEMPLATE_PLAIN, text);
}

static enum status chatml_close_turn(struct template_prompt *prompt) {
    TRY(chatml_add(prompt, TEMPLATE_MARKUP, closing));
    return chatml_add(prompt, TEMPLATE_PLAIN, SPAN("\n"));
}

static enum status chatml_render(const struct template *chosen, const struct template_input *input,
                                 struct template_prompt *prompt, struct error *error) {
    TRY(template_refuse_tools(chosen, input, error));
    TRY(chatml_write_calls(input, prompt));
    const char *calls = prompt->text;
    if (chosen->system.n > 0 &&
        template_role_given(chosen, input->messages[0].role) != TEMPLATE_SYSTEM) {
        TRY(chatml_open_turn(prompt, "system", chosen->system));
        TRY(chatml_close_turn(prompt));
    }
    for (size_t i = 0; i < input->n_messages; i++) {
        enum template_role role = template_role_given(chosen, input->messages[i].role);
        TRY(chatml_open_turn(prompt, template_role_name(role), input->messages[i].content));
        TRY(chatml_add_calls(input, i, prompt, &calls));
        TRY(chatml_close_turn(prompt));
    }
    if (input->continue_final_message)
        return template_end_in_message(input, prompt, error);
    if (!input->add_generation_prompt)
        return STATUS_OK;
    TRY(chatml_add(prompt, TEMPLATE_MARKUP, opening));
    return chatml_add(prompt, TEMPLATE_PLAIN, SPAN("assistant\n"));
}

const struct template_kind template_kind_chatml = {
    .name = "chatml", .recognise = chatml_recognise, .open = chatml_open, .render = chatml_render};
