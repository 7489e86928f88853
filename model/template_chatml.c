/* ChatML: <|im_start|>ROLE\nTEXT<|im_end|>\n for each message, and the assistant's opening at the
 * end (OpenAI 2023; used by SmolLM2, the Qwen families, OpenOrca). */
#include "model/template_kinds.h"

static const struct span opening = SPAN("<|im_start|>");
static const struct span closing = SPAN("<|im_end|>");

static bool recognise(struct span source) {
    return memmem(source.bytes, source.n, opening.bytes, opening.n) != NULL;
}

/* A default system line stands in the template as one literal,
 * '<|im_start|>system\n...<|im_end|>\n', its newlines written as such or as \n. */
static enum status open_chatml(struct template *chosen, struct span source, struct error *error) {
    static const char head[] = "<|im_start|>system";
    const char *end = source.bytes + source.n;
    const char *at = source.bytes;
    (void)error;
    while ((at = memmem(at, (size_t)(end - at), head, sizeof head - 1))) {
        at += sizeof head - 1;
        if (at < end && *at == '\n')
            at += 1;
        else if (end - at >= 2 && at[0] == '\\' && at[1] == 'n')
            at += 2;
        else
            continue;
        const char *stop = memmem(at, (size_t)(end - at), closing.bytes, closing.n);
        if (!stop)
            break;
        size_t n = (size_t)(stop - at);
        /* Quotes, braces or escapes: the line is put together at run time, not a literal. */
        bool is_literal = n > 0 && n <= sizeof chosen->system && !memchr(at, '\'', n) &&
                          !memchr(at, '"', n) && !memchr(at, '{', n) && !memchr(at, '\\', n);
        if (!is_literal)
            continue;
        memcpy(chosen->system, at, n);
        chosen->n_system = n;
        break;
    }
    return STATUS_OK;
}

/* The role's name is the template's text, not the user's: the table of roles is closed. */
static enum status add_turn(struct template_prompt *prompt, const char *role, struct span text) {
    TRY(template_add(prompt, true, opening));
    TRY(template_add(prompt, false, (struct span){role, strlen(role)}));
    TRY(template_add(prompt, false, SPAN("\n")));
    TRY(template_add(prompt, false, text));
    TRY(template_add(prompt, true, closing));
    return template_add(prompt, false, SPAN("\n"));
}

static enum status render(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt) {
    if (chosen->n_system > 0 && input->messages[0].role != TEMPLATE_SYSTEM)
        TRY(add_turn(prompt, "system", (struct span){chosen->system, chosen->n_system}));
    for (size_t i = 0; i < input->n_messages; i++)
        TRY(add_turn(prompt, template_role_name(input->messages[i].role),
                     input->messages[i].content));
    if (!input->add_generation_prompt)
        return STATUS_OK;
    TRY(template_add(prompt, true, opening));
    return template_add(prompt, false, SPAN("assistant\n"));
}

const struct template_kind template_kind_chatml = {
    .name = "chatml", .recognise = recognise, .open = open_chatml, .render = render};
