/* One render from its beginning to its end. */
#include "model/text/template/jinja/builtin/jinja_builtin.h"
#include "model/text/template/jinja/eval/jinja_scope.h"
#include "model/text/template/jinja/jinja.h"
#include "model/text/template/jinja/render/jinja_exec.h"
#include "model/text/template/jinja/syntax/jinja_ast.h"
#include "model/text/template/jinja/value/jinja_box.h"
#include "model/text/template/jinja/value/jinja_run.h"
#include "model/text/template/jinja/value/jinja_text.h"
#include "model/text/template/jinja/value/jinja_value.h"

#include <stdlib.h>
#include <string.h>

/* The roles of a chat are a closed set, so that their names cannot smuggle a marker in; templates
 * build markers with them ('<|' + role + '|>'). */
static enum status jinja_trust_role(struct jinja_run *run, const char *const *roles,
                                    struct jinja_value *value) {
    for (; *roles; roles++)
        if (span_is(jinja_span(*value), *roles))
            return jinja_string_new(run, *roles, strlen(*roles), false, value);
    return STATUS_OK;
}

static enum status jinja_trust_roles(struct jinja_run *run, const char *const *roles,
                                     const struct jinja_value *messages) {
    if (!roles || messages->kind != JINJA_LIST)
        return STATUS_OK;
    for (size_t i = 0; i < messages->list->n; i++) {
        const struct jinja_value *message = &messages->list->items[i];
        for (size_t j = 0; message->kind == JINJA_DICT && j < message->dict->n; j++) {
            struct jinja_value *value = &message->dict->values[j];
            if (span_is(jinja_span(message->dict->keys[j]), "role") && jinja_is_string(*value))
                TRY(jinja_trust_role(run, roles, value));
        }
    }
    return STATUS_OK;
}

static enum status jinja_set_globals(struct jinja_run *run, const struct jinja_input *input) {
    TRY(jinja_alloc(run, run->program->n_atoms, sizeof *run->globals, &run->globals));
    for (uint32_t i = 0; i < run->program->n_atoms; i++) {
        const char *name = run->program->atoms[i];
        const json_t *constant = json_object_get(input->constants, name);
        const json_t *variable = constant ? constant : json_object_get(input->variables, name);
        const struct jinja_builtin *function = jinja_find_function(name);
        struct jinja_method *method;
        if (variable) {
            TRY(jinja_from_json(run, variable, !constant, 0, &run->globals[i]));
            if (strcmp(name, "messages") == 0) {
                TRY(jinja_trust_roles(run, input->roles, &run->globals[i]));
                run->steps_max += JINJA_STEPS_PER_MESSAGE * json_array_size(variable);
            }
        } else if (function) {
            TRY(jinja_alloc(run, 1, sizeof *method, &method));
            method->builtin = function;
            run->globals[i] = (struct jinja_value){.kind = JINJA_METHOD, .method = method};
        }
    }
    return STATUS_OK;
}

static enum status jinja_copy_out(const struct jinja_text *text, struct jinja_output *output) {
    struct jinja_output made = {.n = text->n, .n_marks = text->n_marks};
    made.bytes = malloc(text->n + 1);
    made.marks = calloc(text->n_marks ? text->n_marks : 1, sizeof *made.marks);
    if (!made.bytes || !made.marks) {
        jinja_output_fini(&made);
        return STATUS_NOMEM;
    }
    if (text->n > 0) {
        memcpy(made.bytes, text->bytes, text->n);
        memcpy(made.marks, text->marks, text->n_marks * sizeof *made.marks);
    }
    made.bytes[text->n] = 0;
    *output = made;
    return STATUS_OK;
}

enum status jinja_render(const struct jinja_program *program, const struct jinja_input *input,
                         struct jinja_output *output, struct error *error) {
    struct jinja_text text = {0};
    struct jinja_scope root = {0};
    struct jinja_run run = {.program = program,
                            .out = &text,
                            .steps_max = JINJA_STEPS_MAX,
                            .output_max = JINJA_OUTPUT_MAX,
                            .line = 1,
                            .now_s = input->now_s,
                            .call_macro = jinja_call_macro,
                            .error = error};
    arena_init(&run.arena, JINJA_MEMORY_MAX);
    enum status status = jinja_set_globals(&run, input);
    if (status == STATUS_OK)
        status = jinja_exec(&run, &root, program->body);
    if (status == STATUS_OK) {
        status = jinja_copy_out(&text, output);
        if (status != STATUS_OK)
            error_set(error, status, "no memory for the prompt");
    }
    arena_fini(&run.arena);
    return status;
}

void jinja_output_fini(struct jinja_output *output) {
    if (!output)
        return;
    free(output->bytes);
    free(output->marks);
    *output = (struct jinja_output){0};
}
