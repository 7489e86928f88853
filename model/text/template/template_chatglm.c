/* ChatGLM3: [gMASK] sop, then for each message the role's id, its metadata and a newline, its text;
 * the assistant's id at the end (THUDM/chatglm3-6b, tokenization_chatglm.py). Metadata is empty but
 * for a call, which is a turn of its own: the tool's name, and a block of Python. Each piece is
 * tokenized on its own, with its own dummy prefix. Tools stand behind the system's text as indented
 * JSON, functions without what other models have around them. */
#include "model/text/template/formats/formats.h"
#include "model/text/template/template_calls.h"
#include "model/text/template/template_kinds.h"
#include "model/text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

enum { MARKER_MASK, MARKER_SOP, MARKER_SYSTEM, MARKER_USER, MARKER_ASSISTANT, MARKER_OBSERVATION };

static const struct template_marker markers[TEMPLATE_MARKERS_MAX] = {
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

static bool chatglm_recognise(const struct template_source *source) {
    return source->text.n == 0 && source->family && strcmp(source->family, "chatglm") == 0;
}

/* "sop" is also a word: only a special token of that name counts. */
static enum status chatglm_find_marker(const struct template_source *source, unsigned marker,
                                       uint32_t *id, struct error *error) {
    struct template_source known = *source;
    if (source->tokenizer &&
        vocabulary_find_special(&source->tokenizer->vocabulary, markers[marker].name) == TOKEN_NONE)
        known.tokenizer = NULL;
    if (known.n_vocab == 0 && source->tokenizer)
        known.n_vocab = tokenizer_n_tokens(source->tokenizer);
    return template_find_marker(&known, &markers[marker], id, error);
}

static enum status chatglm_open(struct template *chosen, const struct template_source *source,
                                struct error *error) {
    for (unsigned i = 0; i < TEMPLATE_MARKERS_MAX; i++)
        TRY(chatglm_find_marker(source, i, &chosen->markers[i], error));
    chosen->has_metadata = true;
    chosen->tool_format = &tool_format_chatglm3;
    chosen->stop_ids[chosen->n_stop_ids++] = chosen->markers[MARKER_USER];
    chosen->stop_ids[chosen->n_stop_ids++] = chosen->markers[MARKER_OBSERVATION];
    return STATUS_OK;
}

static enum status chatglm_add_marker(const struct template *chosen, struct template_prompt *prompt,
                                      unsigned marker) {
    return template_add_marker(prompt, &markers[marker], chosen->markers[marker]);
}

static enum status chatglm_add_text(struct template_prompt *prompt, struct span text, bool is_cut) {
    return template_add(
        prompt, (struct template_segment){.kind = TEMPLATE_PLAIN, .is_cut = is_cut, .text = text});
}

static enum status chatglm_add_turn(const struct template *chosen, struct template_prompt *prompt,
                                    unsigned marker, struct span text, struct span behind) {
    TRY(chatglm_add_marker(chosen, prompt, marker));
    TRY(chatglm_add_text(prompt, SPAN("\n"), true));
    TRY(chatglm_add_text(prompt, text, true));
    return chatglm_add_text(prompt, behind, text.n == 0);
}

/* Texts of the prompt's own, one behind the other: they are all written before segments point to them. */
struct written {
    struct buf text; /* owned */
    struct buf ends; /* owned: size_t, of each of them */
    size_t n_taken;
};

static void chatglm_end_text(struct written *written) {
    buf_append(&written->ends, &written->text.n, sizeof written->text.n);
}

static struct span chatglm_take_text(struct written *written,
                                     const struct template_prompt *prompt) {
    const size_t *ends = (const size_t *)(const void *)written->ends.data;
    size_t i = written->n_taken++, begin = i > 0 ? ends[i - 1] : 0;
    return (struct span){prompt->text + begin, ends[i] - begin};
}

/* A line end and the tools, or nothing. */
static enum status chatglm_write_tools(const json_t *tools, struct written *written) {
    json_t *shown = json_array();
    enum status status = shown ? STATUS_OK : STATUS_NOMEM;
    for (size_t i = 0; i < json_array_size(tools) && status == STATUS_OK; i++) {
        const json_t *tool = json_array_get(tools, i), *own = json_object_get(tool, "function");
        json_t *kept = json_incref((json_t *)(uintptr_t)(json_is_object(own) ? own : tool));
        status = json_array_append_new(shown, kept) == 0 ? STATUS_OK : STATUS_NOMEM;
    }
    char *json = json_array_size(shown) > 0 ? json_dumps(shown, JSON_INDENT(4)) : NULL;
    if (json_array_size(shown) > 0 && !json)
        status = STATUS_NOMEM;
    if (json)
        buf_printf(&written->text, "\n%s", json);
    chatglm_end_text(written);
    free(json);
    json_decref(shown);
    return status;
}

static const json_t *chatglm_calls_of(const struct template_input *input, size_t i) {
    return input->messages[i].has_calls
               ? json_object_get(json_array_get(input->json_messages, i), "tool_calls")
               : NULL;
}

/* For each call its line of metadata, and its text. */
static enum status chatglm_write_calls(const struct template_input *input, size_t i,
                                       struct written *written, struct error *error) {
    const json_t *calls = chatglm_calls_of(input, i);
    for (size_t k = 0; k < json_array_size(calls); k++) {
        struct template_call call;
        char field[64];
        snprintf(field, sizeof field, "messages[%zu].tool_calls[%zu]", i, k);
        TRY(template_call_read(json_array_get(calls, k), field, &call, error));
        buf_append(&written->text, call.name.bytes, call.name.n);
        buf_putc(&written->text, '\n');
        chatglm_end_text(written);
        buf_puts(&written->text, "```python\ntool_call(");
        enum status status = template_put_python_call(call.arguments, &written->text);
        buf_puts(&written->text, ")\n```");
        chatglm_end_text(written);
        template_call_fini(&call);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status chatglm_write_texts(const struct template_input *input, struct written *written,
                                       struct template_prompt *prompt, struct error *error) {
    TRY(chatglm_write_tools(input->tools, written));
    for (size_t i = 0; i < input->n_messages; i++)
        TRY(chatglm_write_calls(input, i, written, error));
    buf_putc(&written->text, '\0'); /* so that there is a text */
    TRY(buf_status(&written->ends));
    TRY(buf_status(&written->text));
    prompt->text = buf_take(&written->text);
    return prompt->text ? STATUS_OK : STATUS_NOMEM;
}

static unsigned chatglm_marker_of(enum template_role role) {
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

/* A message's text, unless it is only calls, and each of those as a turn of its own. */
static enum status chatglm_add_message(const struct template *chosen,
                                       const struct template_input *input, size_t i,
                                       struct span tools, struct written *written,
                                       struct template_prompt *prompt) {
    const struct template_message *message = &input->messages[i];
    const size_t n_calls = json_array_size(chatglm_calls_of(input, i));
    if (n_calls == 0 || message->content.n > 0)
        TRY(chatglm_add_turn(chosen, prompt, chatglm_marker_of(message->role), message->content,
                             tools));
    for (size_t k = 0; k < n_calls; k++) {
        TRY(chatglm_add_marker(chosen, prompt, MARKER_ASSISTANT));
        TRY(chatglm_add_text(prompt, chatglm_take_text(written, prompt), true));
        TRY(chatglm_add_text(prompt, chatglm_take_text(written, prompt), true));
    }
    return STATUS_OK;
}

static enum status chatglm_add_all(const struct template *chosen,
                                   const struct template_input *input, struct written *written,
                                   struct template_prompt *prompt, struct error *error) {
    TRY(chatglm_write_texts(input, written, prompt, error));
    struct span tools = chatglm_take_text(written, prompt);
    TRY(chatglm_add_marker(chosen, prompt, MARKER_MASK));
    TRY(chatglm_add_marker(chosen, prompt, MARKER_SOP));
    if (tools.n > 0 && chatglm_marker_of(input->messages[0].role) != MARKER_SYSTEM) {
        TRY(chatglm_add_turn(chosen, prompt, MARKER_SYSTEM, tools_line, tools));
        tools = SPAN("");
    }
    for (size_t i = 0; i < input->n_messages; i++)
        TRY(chatglm_add_message(chosen, input, i, i == 0 ? tools : SPAN(""), written, prompt));
    return STATUS_OK;
}

static enum status chatglm_render(const struct template *chosen, const struct template_input *input,
                                  struct template_prompt *prompt, struct error *error) {
    struct written written = {0};
    if (json_array_size(input->documents) > 0)
        return error_field(error, STATUS_UNSUPPORTED, "documents",
                           "the format chatglm has no documents");
    if (!input->json_messages)
        TRY(template_refuse_calls(chosen, input, error));
    if (input->continue_final_message && input->messages[input->n_messages - 1].has_calls)
        return error_field(error, STATUS_INVALID, "continue_final_message",
                           "the last message ends with a call, which cannot be continued");
    buf_init(&written.text, 0);
    buf_init(&written.ends, 0);
    enum status status = chatglm_add_all(chosen, input, &written, prompt, error);
    buf_fini(&written.text);
    buf_fini(&written.ends);
    TRY(status);
    if (input->continue_final_message)
        return template_end_in_message(input, prompt, error);
    return input->add_generation_prompt ? chatglm_add_marker(chosen, prompt, MARKER_ASSISTANT)
                                        : STATUS_OK;
}

const struct template_kind template_kind_chatglm = {.name = "chatglm",
                                                    .recognise = chatglm_recognise,
                                                    .open = chatglm_open,
                                                    .render = chatglm_render};
