/* A model's own template, rendered by the interpreter. It sees what transformers gives to one:
 * messages, tools, documents, add_generation_prompt, bos_token, eos_token, and the request's
 * further variables. */
#include "model/template/jinja/jinja.h"
#include "model/template/template_kinds.h"

static bool recognise(const struct template_source *source) {
    return source->text.n > 0;
}

static enum status open_jinja(struct template *chosen, const struct template_source *source,
                              struct error *error) {
    return jinja_parse(source->text, &chosen->program, error);
}

static json_t *text_of(struct span text) {
    return json_stringn_nocheck(text.bytes, text.n);
}

/* Role, content and name. */
static json_t *list_of(const struct template_message *messages, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n && list; i++) {
        const struct template_message *message = &messages[i];
        json_t *item = json_object();
        bool failed =
            json_object_set_new(item, "role", json_string(template_role_name(message->role))) ||
            json_object_set_new(item, "content",
                                text_of(message->content.bytes ? message->content : SPAN(""))) ||
            (message->name.n > 0 && json_object_set_new(item, "name", text_of(message->name)));
        failed |= json_array_append_new(list, item) != 0;
        if (failed) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *messages_of(const struct template_input *input) {
    return input->json_messages ? json_incref(input->json_messages)
                                : list_of(input->messages, input->n_messages);
}

/* What the template sees; NULL when memory is short. */
static json_t *variables_of(const struct template_input *input) {
    json_t *variables = json_object();
    bool failed =
        (input->kwargs && json_object_update(variables, input->kwargs)) ||
        json_object_set_new(variables, "messages", messages_of(input)) ||
        json_object_set_new(variables, "tools",
                            input->tools ? json_incref(input->tools) : json_null()) ||
        json_object_set_new(variables, "documents",
                            input->documents ? json_incref(input->documents) : json_null()) ||
        json_object_set_new(variables, "add_generation_prompt",
                            json_boolean(input->add_generation_prompt));
    if (!failed)
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

static enum status render(const struct template *chosen, const struct template_input *input,
                          struct template_prompt *prompt, struct error *error) {
    struct jinja_output output = {0};
    struct jinja_input given = {
        .variables = variables_of(input), .constants = constants_of(input), .now_s = input->now_s};
    enum status status = STATUS_NOMEM;
    if (given.variables && given.constants)
        status = jinja_render(chosen->program, &given, &output, error);
    if (status == STATUS_OK)
        status = add_marks(&output, prompt);
    jinja_output_fini(&output);
    json_decref((json_t *)(uintptr_t)given.variables);
    json_decref((json_t *)(uintptr_t)given.constants);
    return status;
}

const struct template_kind template_kind_jinja = {
    .name = "jinja", .recognise = recognise, .open = open_jinja, .render = render};
