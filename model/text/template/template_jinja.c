/* A model's own template, rendered by the interpreter. It sees what transformers gives to one:
 * messages, tools, documents, add_generation_prompt, bos_token, eos_token, and the request's
 * further variables. */
#include "base/json/json_read.h"
#include "model/text/template/jinja/jinja.h"
#include "model/text/template/template_continue.h"
#include "model/text/template/template_kinds.h"

static bool recognise(const struct template_source *source) {
    return source->text.n > 0;
}

static json_t *text_of(struct span text) {
    return json_stringn_nocheck(text.bytes ? text.bytes : "", text.n);
}

/* Counts move while a render lasts, and nothing else changes. */
static json_t *keep(const json_t *value) {
    return json_incref((json_t *)(uintptr_t)value);
}

/* Role, content and name. */
static json_t *bare_message(const struct template_message *message) {
    json_t *item = json_object();
    if (json_object_set_new(item, "role", json_string(template_role_name(message->role))) == 0 &&
        json_object_set_new(item, "content", text_of(message->content)) == 0 &&
        (message->name.n == 0 || json_object_set_new(item, "name", text_of(message->name)) == 0))
        return item;
    json_decref(item);
    return NULL;
}

/* Arguments of calls come as text in OpenAI's form, and templates write them as JSON: an object in its place; NULL: it
 * stays as it is. */
static json_t *arguments_of(const json_t *call) {
    const json_t *text = json_object_get(json_object_get(call, "function"), "arguments");
    json_t *value = NULL;
    json_error_t wrong;
    if (json_is_string(text))
        value =
            json_read(json_string_value(text), json_string_length(text), JSON_ALLOW_NUL, &wrong);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

/* A call with these arguments, which are consumed. */
static json_t *call_with(const json_t *call, json_t *arguments) {
    json_t *copy = json_copy((json_t *)(uintptr_t)call);
    json_t *function = json_copy(json_object_get(call, "function"));
    if (json_object_set_new(function, "arguments", arguments) == 0 &&
        json_object_set_new(copy, "function", function) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* Consumes the message, and answers it or one whose calls' arguments are objects; NULL when memory is short. */
static json_t *with_arguments(json_t *message) {
    const json_t *calls = json_object_get(message, "tool_calls");
    json_t *list = json_is_array(calls) ? json_array() : NULL, *copy = NULL;
    size_t n = 0;
    for (size_t i = 0; list && i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        json_t *arguments = arguments_of(call);
        n += arguments != NULL;
        if (json_array_append_new(list, arguments ? call_with(call, arguments) : keep(call)) != 0) {
            json_decref(list);
            json_decref(message);
            return NULL;
        }
    }
    if (n > 0)
        copy = json_copy(message);
    if (n == 0 || json_object_set(copy, "tool_calls", list) != 0) {
        json_decref(list);
        json_decref(copy);
        return n == 0 ? message : (json_decref(message), NULL);
    }
    json_decref(list);
    json_decref(message);
    return copy;
}

/* The message as it was sent; but a template that takes no parts gets their texts joined, one that
 * takes nothing else gets a text as the only part (vLLM's "string" and "openai" formats), and one
 * that cannot do without content gets an empty text. */
static json_t *fitting_message(const struct template *chosen, const json_t *sent,
                               const struct template_message *message) {
    const json_t *content = json_object_get(sent, "content");
    unsigned role = 1u << message->role;
    json_t *fitting = NULL;
    if (json_is_array(content) && !(chosen->takes_parts & role))
        fitting = text_of(message->content);
    else if (json_is_string(content) && (chosen->needs_parts & role))
        fitting = json_pack("[{s:s, s:O}]", "type", "text", "text", content);
    else if ((!content || json_is_null(content)) && !chosen->takes_null)
        fitting = text_of(SPAN(""));
    else
        return keep(sent);
    json_t *copy = json_copy((json_t *)(uintptr_t)sent);
    if (json_object_set_new(copy, "content", fitting) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

/* NULL when memory is short. */
static json_t *messages_of(const struct template *chosen, const struct template_input *input) {
    json_t *list = json_array();
    for (size_t i = 0; i < input->n_messages; i++) {
        const json_t *sent = json_array_get(input->json_messages, i);
        json_t *item = sent ? fitting_message(chosen, sent, &input->messages[i])
                            : bare_message(&input->messages[i]);
        if (item)
            item = with_arguments(item);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool set_or_none(json_t *variables, const char *name, const json_t *value) {
    return json_object_set_new(variables, name, value ? keep(value) : json_null()) == 0;
}

/* What the template sees; NULL when memory is short. */
static json_t *variables_of(const struct template_input *input, json_t *messages) {
    json_t *variables = json_object();
    if ((!input->kwargs ||
         json_object_update(variables, (json_t *)(uintptr_t)input->kwargs) == 0) &&
        (input->reasoning_effort.n == 0 ||
         json_object_set_new(variables, "reasoning_effort", text_of(input->reasoning_effort)) ==
             0) &&
        json_object_set(variables, "messages", messages) == 0 &&
        set_or_none(variables, "tools", input->tools) &&
        set_or_none(variables, "documents", input->documents) &&
        json_object_set_new(variables, "add_generation_prompt",
                            json_boolean(input->add_generation_prompt)) == 0)
        return variables;
    json_decref(variables);
    return NULL;
}

/* The model's own tokens: markup. */
static json_t *constants_of(const struct template_input *input) {
    json_t *constants = json_object();
    if (constants &&
        !(input->bos.bytes && json_object_set_new(constants, "bos_token", text_of(input->bos))) &&
        !(input->eos.bytes && json_object_set_new(constants, "eos_token", text_of(input->eos))))
        return constants;
    json_decref(constants);
    return NULL;
}

static enum status add_marks(struct jinja_output *output, struct template_prompt *prompt) {
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

static enum status run_template(const struct template *chosen, const struct template_input *input,
                                json_t *messages, struct jinja_output *output,
                                struct error *error) {
    struct jinja_input given = {.variables = variables_of(input, messages),
                                .constants = constants_of(input),
                                .roles = template_role_names,
                                .now_s = input->now_s};
    enum status status = STATUS_NOMEM;
    if (given.variables && given.constants)
        status = jinja_render(chosen->program, &given, output, error);
    json_decref((json_t *)(uintptr_t)given.variables);
    json_decref((json_t *)(uintptr_t)given.constants);
    return status;
}

/* Renders with a tag behind the last message's text, and cuts there. */
static enum status run_continued(const struct template *chosen, const struct template_input *input,
                                 json_t *messages, struct jinja_output *output,
                                 struct error *error) {
    size_t last = json_array_size(messages) - 1;
    json_t *message = json_incref(json_array_get(messages, last));
    json_t *marked = NULL;
    struct jinja_output made = {0};
    enum status status = template_continue_mark(message, &marked, error);
    if (status == STATUS_OK && json_array_set_new(messages, last, marked) != 0)
        status = STATUS_NOMEM;
    if (status == STATUS_OK)
        status = run_template(chosen, input, messages, &made, error);
    if (status == STATUS_OK)
        status = template_continue_cut(message, &made, error);
    json_decref(message);
    if (status == STATUS_OK)
        *output = made;
    else
        jinja_output_fini(&made);
    return status;
}

static enum status render(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt, struct error *error) {
    struct jinja_output output = {0};
    json_t *messages = messages_of(chosen, input);
    enum status status = STATUS_NOMEM;
    if (messages)
        status = (input->continue_final_message ? run_continued : run_template)(
            chosen, input, messages, &output, error);
    if (status == STATUS_OK)
        status = add_marks(&output, prompt);
    jinja_output_fini(&output);
    json_decref(messages);
    return status;
}

/* --- which content a template takes ------------------------------------------------------- */

static const char probe_text[] = "0 a text to be found again 0";

/* An answer that calls a tool with such arguments; without NULL ones. Consumes both. */
static json_t *calling(json_t *content, json_t *arguments) {
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    if (arguments)
        json_object_set_new(message, "tool_calls",
                            json_pack("[{s:s, s:s, s:{s:s, s:o}}]", "id", "call00001", "type",
                                      "function", "function", "name", "f", "arguments", arguments));
    return message;
}

/* A short conversation in which somebody of that role says the content, which is consumed. */
static json_t *probe_of(enum template_role role, json_t *content) {
    const char *name = template_role_name(role);
    switch (role) {
    case TEMPLATE_ASSISTANT:
        return json_pack("[{s:s, s:s}, o, {s:s, s:s}]", "role", "user", "content", "u",
                         calling(content, NULL), "role", "user", "content", "v");
    case TEMPLATE_TOOL:
        return json_pack("[{s:s, s:s}, o, {s:s, s:s, s:s, s:o}]", "role", "user", "content", "u",
                         calling(json_string(""), json_object()), "role", name, "tool_call_id",
                         "call00001", "name", "f", "content", content);
    case TEMPLATE_USER:
        return json_pack("[{s:s, s:o}]", "role", name, "content", content);
    default:
        return json_pack("[{s:s, s:o}, {s:s, s:s}]", "role", name, "content", content, "role",
                         "user", "content", "u");
    }
}

static bool has(const struct jinja_output *output, const char *text) {
    return memmem(output->bytes, output->n, text, strlen(text)) != NULL;
}

/* Whether the template renders these messages, which are consumed; *output is to be ended either
 * way. */
static bool try_probe(const struct template *chosen, json_t *messages,
                      struct jinja_output *output) {
    struct error ignored;
    struct template_input input = {.bos = SPAN("<s>"), .eos = SPAN("</s>")};
    bool is_done =
        messages && run_template(chosen, &input, messages, output, &ignored) == STATUS_OK;
    json_decref(messages);
    return is_done;
}

/* A template takes null where it renders an answer without content, and does not write Python's
 * word for it. Calls have their arguments as the template wants them, or are left out. */
static void probe_null(struct template *chosen) {
    bool is_done = false;
    for (unsigned attempt = 0; attempt < 3 && !is_done; attempt++) {
        struct jinja_output empty = {0};
        struct jinja_output null = {0};
        for (unsigned k = 0; k < 2; k++) {
            json_t *arguments = attempt == 0   ? json_object()
                                : attempt == 1 ? json_string("{}")
                                               : NULL;
            json_t *content = k == 0 ? json_string("") : json_null();
            json_t *messages = json_pack("[{s:s, s:s}, o]", "role", "user", "content", "u",
                                         calling(content, arguments));
            bool is_rendered = try_probe(chosen, messages, k == 0 ? &empty : &null);
            if (k == 0)
                is_done = is_rendered;
            else
                chosen->takes_null =
                    is_rendered && (!has(&null, "None") || (is_done && has(&empty, "None")));
        }
        jinja_output_fini(&empty);
        jinja_output_fini(&null);
    }
}

/* A template takes parts where one part of text gives the same prompt as that text alone. A role
 * that it renders in neither form is treated as the user is. */
static void probe_parts(struct template *chosen) {
    unsigned unseen = 0;
    for (unsigned i = 0; i < TEMPLATE_ROLE_COUNT; i++) {
        struct jinja_output text = {0};
        struct jinja_output parts = {0};
        uint8_t bit = (uint8_t)(1u << i);
        bool has_text = try_probe(chosen, probe_of(i, json_string(probe_text)), &text) &&
                        has(&text, probe_text);
        json_t *part = json_pack("[{s:s, s:s}]", "type", "text", "text", probe_text);
        bool has_parts = try_probe(chosen, probe_of(i, part), &parts) && has(&parts, probe_text);
        if (!has_text && !has_parts)
            unseen |= bit;
        else if (!has_text)
            chosen->needs_parts |= bit;
        if (has_parts &&
            (!has_text || (text.n == parts.n && memcmp(text.bytes, parts.bytes, text.n) == 0)))
            chosen->takes_parts |= bit;
        jinja_output_fini(&text);
        jinja_output_fini(&parts);
    }
    if (chosen->takes_parts & 1u << TEMPLATE_USER)
        chosen->takes_parts |= (uint8_t)unseen;
    if (chosen->needs_parts & 1u << TEMPLATE_USER)
        chosen->needs_parts |= (uint8_t)unseen;
}

static enum status open_jinja(struct template *chosen, const struct template_source *source,
                              struct error *error) {
    TRY(jinja_parse(source->text, &chosen->program, error));
    probe_parts(chosen);
    probe_null(chosen);
    return STATUS_OK;
}

const struct template_kind template_kind_jinja = {
    .name = "jinja", .recognise = recognise, .open = open_jinja, .render = render};
