#include "model/text/template/template_run.h"

#include <stdint.h>

json_t *template_text_value(struct span text) {
    return json_stringn_nocheck(text.bytes ? text.bytes : "", text.n);
}

json_t *template_keep(const json_t *value) {
    return json_incref((json_t *)(uintptr_t)value);
}

static bool template_set_or_none(json_t *variables, const char *name, const json_t *value) {
    return json_object_set_new(variables, name, value ? template_keep(value) : json_null()) == 0;
}

/* What the template sees; NULL when memory is short. */
static json_t *template_variables_of(const struct template_input *input, json_t *messages) {
    json_t *variables = json_object();
    if ((!input->kwargs ||
         json_object_update(variables, (json_t *)(uintptr_t)input->kwargs) == 0) &&
        (input->reasoning_effort.n == 0 ||
         json_object_set_new(variables, "reasoning_effort",
                             template_text_value(input->reasoning_effort)) == 0) &&
        (!input->has_enable_thinking ||
         json_object_set_new(variables, "enable_thinking", json_boolean(input->enable_thinking)) ==
             0) &&
        json_object_set(variables, "messages", messages) == 0 &&
        template_set_or_none(variables, "tools", input->tools) &&
        template_set_or_none(variables, "documents", input->documents) &&
        json_object_set_new(variables, "add_generation_prompt",
                            json_boolean(input->add_generation_prompt)) == 0)
        return variables;
    json_decref(variables);
    return NULL;
}

/* The model's own tokens: markup. */
static json_t *template_constants_of(const struct template_input *input) {
    json_t *constants = json_object();
    if (constants &&
        !(input->bos.bytes &&
          json_object_set_new(constants, "bos_token", template_text_value(input->bos))) &&
        !(input->eos.bytes &&
          json_object_set_new(constants, "eos_token", template_text_value(input->eos))))
        return constants;
    json_decref(constants);
    return NULL;
}

enum status template_run(const struct template *chosen, const struct template_input *input,
                         json_t *messages, struct jinja_output *output, struct error *error) {
    struct jinja_input given = {.variables = template_variables_of(input, messages),
                                .constants = template_constants_of(input),
                                .roles = template_role_names,
                                .now_s = input->now_s};
    enum status status = STATUS_NOMEM;
    if (given.variables && given.constants)
        status = jinja_render(chosen->program, &given, output, error);
    json_decref((json_t *)(uintptr_t)given.variables);
    json_decref((json_t *)(uintptr_t)given.constants);
    return status;
}
