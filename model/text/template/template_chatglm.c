/* ChatGLM3: [gMASK] sop, then for each message the role's id, its metadata and a newline, its text;
 * the assistant's id at the end (THUDM/chatglm3-6b, tokenization_chatglm.py). Metadata is empty but
 * for tool calls, which are not rendered. Each piece is tokenized on its own, with its own dummy
 * prefix. Tools stand behind the system's text as indented JSON. */
#include "model/text/template/template_kinds.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdlib.h>

enum { MARKER_MASK, MARKER_SOP, MARKER_SYSTEM, MARKER_USER, MARKER_ASSISTANT, MARKER_OBSERVATION };

static const struct {
    struct span name;
    uint32_t known;
} markers[TEMPLATE_MARKERS_MAX] = {
    [MARKER_MASK] = {SPAN("[gMASK]"), 64790},
    [MARKER_SOP] = {SPAN("sop"), 64792},
    [MARKER_SYSTEM] = {SPAN("<|system|>"), 64794},
    [MARKER_USER] = {SPAN("<|user|>"), 64795},
    [MARKER_ASSISTANT] = {SPAN("<|assistant|>"), 64796},
    [MARKER_OBSERVATION] = {SPAN("<|observation|>"), 64797},
};

/* As in the reference's own server, openai_api_demo/utils.py. */
static const struct span tools_line =
    SPAN("Answer the following questions as best as you can. You have access to the following "
         "tools:");

static bool recognise(const struct template_source *source) {
    return source->text.n == 0 && source->family && strcmp(source->family, "chatglm") == 0;
}

/* "sop" is also a word: only a special token of that name counts. */
static enum status find_marker(const struct template_source *source, unsigned marker, uint32_t *id,
                               struct error *error) {
    struct template_source known = *source;
    if (source->tokenizer &&
        vocabulary_find_special(&source->tokenizer->vocabulary, markers[marker].name) == TOKEN_NONE)
        known.tokenizer = NULL;
    if (known.n_vocab == 0 && source->tokenizer)
        known.n_vocab = tokenizer_n_tokens(source->tokenizer);
    return template_find_marker(&known, markers[marker].name, markers[marker].known, id, error);
}

static enum status open_chatglm(struct template *chosen, const struct template_source *source,
                                struct error *error) {
    for (unsigned i = 0; i < TEMPLATE_MARKERS_MAX; i++)
        TRY(find_marker(source, i, &chosen->markers[i], error));
    chosen->has_metadata = true;
    chosen->stop_ids[chosen->n_stop_ids++] = chosen->markers[MARKER_USER];
    chosen->stop_ids[chosen->n_stop_ids++] = chosen->markers[MARKER_OBSERVATION];
    return STATUS_OK;
}

static enum status add_marker(const struct template *chosen, struct template_prompt *prompt,
                              unsigned marker) {
    return template_add(prompt, (struct template_segment){.kind = TEMPLATE_ID,
                                                          .id = chosen->markers[marker],
                                                          .text = markers[marker].name});
}

static enum status add_text(struct template_prompt *prompt, struct span text, bool is_cut) {
    return template_add(
        prompt, (struct template_segment){.kind = TEMPLATE_PLAIN, .is_cut = is_cut, .text = text});
}

static enum status add_turn(const struct template *chosen, struct template_prompt *prompt,
                            unsigned marker, struct span text, struct span behind) {
    TRY(add_marker(chosen, prompt, marker));
    TRY(add_text(prompt, SPAN("\n"), true));
    TRY(add_text(prompt, text, true));
    return add_text(prompt, behind, text.n == 0);
}

/* "\n" and the tools, into the prompt's own text. */
static enum status write_tools(const json_t *tools, struct template_prompt *prompt,
                               struct span *text) {
    *text = SPAN("");
    if (json_array_size(tools) == 0)
        return STATUS_OK;
    struct buf written;
    char *json = json_dumps(tools, JSON_INDENT(4));
    if (!json)
        return STATUS_NOMEM;
    buf_init(&written, 0);
    buf_printf(&written, "\n%s", json);
    free(json);
    text->n = written.n;
    text->bytes = prompt->text = buf_take(&written);
    buf_fini(&written);
    return prompt->text ? STATUS_OK : STATUS_NOMEM;
}

static unsigned marker_of(enum template_role role) {
    switch (role) {
    case TEMPLATE_SYSTEM:
    case TEMPLATE_DEVELOPER:
        return MARKER_SYSTEM;
    case TEMPLATE_ASSISTANT:
        return MARKER_ASSISTANT;
    case TEMPLATE_TOOL:
        return MARKER_OBSERVATION;
    default:
        return MARKER_USER;
    }
}

static enum status render(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt, struct error *error) {
    struct span tools;
    if (json_array_size(input->documents) > 0)
        return error_field(error, STATUS_UNSUPPORTED, "documents",
                           "the format chatglm has no documents");
    TRY(template_refuse_calls(chosen, input, error));
    TRY(write_tools(input->tools, prompt, &tools));
    TRY(add_marker(chosen, prompt, MARKER_MASK));
    TRY(add_marker(chosen, prompt, MARKER_SOP));
    if (tools.n > 0 && marker_of(input->messages[0].role) != MARKER_SYSTEM) {
        TRY(add_turn(chosen, prompt, MARKER_SYSTEM, tools_line, tools));
        tools = SPAN("");
    }
    for (size_t i = 0; i < input->n_messages; i++)
        TRY(add_turn(chosen, prompt, marker_of(input->messages[i].role), input->messages[i].content,
                     i == 0 ? tools : SPAN("")));
    if (input->continue_final_message)
        return template_end_in_message(input, prompt, error);
    return input->add_generation_prompt ? add_marker(chosen, prompt, MARKER_ASSISTANT) : STATUS_OK;
}

const struct template_kind template_kind_chatglm = {
    .name = "chatglm", .recognise = recognise, .open = open_chatglm, .render = render};
