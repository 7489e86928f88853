/* Baichuan2: the system's text plainly, then for each turn one id and its text, and the assistant's
 * id at the end. No newlines, no BOS (baichuan-inc/Baichuan2-13B-Chat, generation_utils.py). */
#include "model/text/template/template_kinds.h"

#include <stdio.h>

enum { MARKER_USER, MARKER_ASSISTANT };

static const struct template_marker markers[] = {
    [MARKER_USER] = {SPAN("<reserved_106>"), 195},
    [MARKER_ASSISTANT] = {SPAN("<reserved_107>"), 196},
};

static bool baichuan_recognise(const struct template_source *source) {
    return source->text.n == 0 && source->family && strcmp(source->family, "baichuan") == 0;
}

static enum status baichuan_open(struct template *chosen, const struct template_source *source,
                                 struct error *error) {
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++)
        TRY(template_find_marker(source, &markers[i], &chosen->markers[i], error));
    return STATUS_OK;
}

static enum status baichuan_add_marker(const struct template *chosen,
                                       struct template_prompt *prompt, unsigned marker) {
    return template_add_marker(prompt, &markers[marker], chosen->markers[marker]);
}

static enum status baichuan_render(const struct template *chosen,
                                   const struct template_input *input,
                                   struct template_prompt *prompt, struct error *error) {
    TRY(template_refuse_tools(chosen, input, error));
    TRY(template_refuse_calls(chosen, input, error));
    for (size_t i = 0; i < input->n_messages; i++) {
        const struct template_message *message = &input->messages[i];
        bool is_system = message->role == TEMPLATE_SYSTEM || message->role == TEMPLATE_DEVELOPER;
        if ((is_system && i > 0) || message->role == TEMPLATE_TOOL) {
            char field[48];
            snprintf(field, sizeof field, "messages[%zu].role", i);
            return error_field(error, STATUS_INVALID, field,
                               "`%s` is %s, but the format baichuan takes one system message, at "
                               "the beginning, and none of tools",
                               field, template_role_name(message->role));
        }
        if (!is_system)
            TRY(baichuan_add_marker(
                chosen, prompt, message->role == TEMPLATE_USER ? MARKER_USER : MARKER_ASSISTANT));
        TRY(template_add(prompt, (struct template_segment){.kind = TEMPLATE_PLAIN,
                                                           .is_cut = true,
                                                           .text = message->content}));
    }
    if (input->continue_final_message)
        return template_end_in_message(input, prompt, error);
    return input->add_generation_prompt ? baichuan_add_marker(chosen, prompt, MARKER_ASSISTANT)
                                        : STATUS_OK;
}

const struct template_kind template_kind_baichuan = {.name = "baichuan",
                                                     .recognise = baichuan_recognise,
                                                     .open = baichuan_open,
                                                     .render = baichuan_render};
