/* A model's own template, rendered by the interpreter. It sees what transformers gives to one:
 * messages, tools, documents, add_generation_prompt, bos_token, eos_token, and the request's
 * further variables. */
#include "model/text/template/jinja/jinja.h"
#include "model/text/template/template_calls.h"
#include "model/text/template/template_continue.h"
#include "model/text/template/template_kinds.h"
#include "model/text/template/template_list.h"
#include "model/text/template/template_probe.h"
#include "model/text/template/template_run.h"

static bool template_jinja_recognise(const struct template_source *source) {
    return source->text.n > 0;
}

/* Role, content and name. */
static json_t *template_bare_message(const struct template *chosen,
                                     const struct template_message *message) {
    const char *role = template_role_name(template_role_given(chosen, message->role));
    json_t *item = json_object();
    if (json_object_set_new(item, "role", json_string(role)) == 0 &&
        json_object_set_new(item, "content", template_text_value(message->content)) == 0 &&
        (message->name.n == 0 ||
         json_object_set_new(item, "name", template_text_value(message->name)) == 0))
        return item;
    json_decref(item);
    return NULL;
}

/* A call with these arguments, which are consumed. */
static json_t *template_call_with(const json_t *call, json_t *arguments) {
    json_t *copy = json_copy((json_t *)(uintptr_t)call);
    json_t *function = json_copy(json_object_get(call, "function"));
    if (json_object_set_new(function, "arguments", arguments) == 0 &&
        json_object_set_new(copy, "function", function) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* Arguments of calls come as text in OpenAI's form, and templates write them as JSON. */
static enum status template_fit_call(const json_t *call, const void *how, json_t **fitting) {
    json_t *arguments = template_call_arguments(call);
    (void)how;
    *fitting = arguments ? template_call_with(call, arguments) : template_keep(call);
    return *fitting ? STATUS_OK : STATUS_NOMEM;
}

/* Consumes the message, and answers it or one whose calls' arguments are objects; NULL when memory is short. */
static json_t *template_with_arguments(json_t *message) {
    json_t *fitting = template_list_fit_member(message, "tool_calls", template_fit_call, NULL);
    json_decref(message);
    return fitting;
}

/* Whether the template gets another content than was sent, and which (NULL: memory is short). */
static bool template_fits_content(const struct template *chosen, const json_t *content,
                                  unsigned role, struct span text, json_t **fitting) {
    if (json_is_array(content) && !(chosen->takes_parts & role))
        *fitting = template_text_value(text);
    else if (json_is_string(content) && (chosen->needs_parts & role))
        *fitting = json_pack("[{s:s, s:O}]", "type", "text", "text", content);
    else if ((!content || json_is_null(content)) && !chosen->takes_null)
        *fitting = template_text_value(SPAN(""));
    else
        return false;
    return true;
}

/* The message as it was sent; but a template that takes no parts gets their texts joined, one that
 * takes nothing else gets a text as the only part (vLLM's "string" and "openai" formats), one that
 * cannot do without content gets an empty text, and one that does not know its role another one. */
static json_t *template_fitting_message(const struct template *chosen, const json_t *sent,
                                        const struct template_message *message) {
    enum template_role role = template_role_given(chosen, message->role);
    json_t *content = NULL;
    bool has_other = template_fits_content(chosen, json_object_get(sent, "content"), 1u << role,
                                           message->content, &content);
    if (!has_other && role == message->role)
        return template_keep(sent);
    json_t *copy = json_copy((json_t *)(uintptr_t)sent);
    if ((!has_other || json_object_set_new(copy, "content", content) == 0) &&
        json_object_set_new(copy, "role", json_string(template_role_name(role))) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* NULL when memory is short. */
static json_t *template_messages_of(const struct template *chosen,
                                    const struct template_input *input) {
    json_t *list = json_array();
    for (size_t i = 0; i < input->n_messages; i++) {
        const json_t *sent = json_array_get(input->json_messages, i);
        json_t *item = sent ? template_fitting_message(chosen, sent, &input->messages[i])
                            : template_bare_message(chosen, &input->messages[i]);
        if (item)
            item = template_with_arguments(item);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static enum status template_add_marks(struct jinja_output *output, struct template_prompt *prompt) {
    size_t begin = 0;
    prompt->text = output->bytes;
    output->bytes = NULL;
    for (size_t i = 0; i < output->n_marks; i++) {
        const struct jinja_mark *mark = &output->marks[i];
        TRY(template_add(prompt, (struct template_segment){
                                     .kind = mark->is_plain ? TEMPLATE_PLAIN : TEMPLATE_MARKUP,
                                     .text = {prompt->text + begin, mark->end - begin}}));
        begin = mark->end;
    }
    return STATUS_OK;
}

/* Renders with a tag behind the last message's text, and cuts there. */
static enum status template_run_continued(const struct template *chosen,
                                          const struct template_input *input, json_t *messages,
                                          struct jinja_output *output, struct error *error) {
    size_t last = json_array_size(messages) - 1;
    json_t *message = json_incref(json_array_get(messages, last));
    json_t *marked = NULL;
    struct jinja_output made = {0};
    enum status status = template_continue_mark(message, &marked, error);
    if (status == STATUS_OK && json_array_set_new(messages, last, marked) != 0)
        status = STATUS_NOMEM;
    if (status == STATUS_OK)
        status = template_run(chosen, input, messages, &made, error);
    if (status == STATUS_OK)
        status = template_continue_cut(message, &made, error);
    json_decref(message);
    if (status == STATUS_OK)
        *output = made;
    else
        jinja_output_fini(&made);
    return status;
}

static enum status template_jinja_render(const struct template *chosen,
                                         const struct template_input *input,
                                         struct template_prompt *prompt, struct error *error) {
    struct jinja_output output = {0};
    json_t *messages = template_messages_of(chosen, input);
    enum status status = STATUS_NOMEM;
    if (messages)
        status = (input->continue_final_message ? template_run_continued : template_run)(
            chosen, input, messages, &output, error);
    if (status == STATUS_OK)
        status = template_add_marks(&output, prompt);
    jinja_output_fini(&output);
    json_decref(messages);
    return status;
}

static enum status template_jinja_open(struct template *chosen,
                                       const struct template_source *source, struct error *error) {
    TRY(jinja_parse(source->text, &chosen->program, error));
    template_probe(chosen, source->text);
    return STATUS_OK;
}

const struct template_kind template_kind_jinja = {.name = "jinja",
                                                  .recognise = template_jinja_recognise,
                                                  .open = template_jinja_open,
                                                  .render = template_jinja_render};
