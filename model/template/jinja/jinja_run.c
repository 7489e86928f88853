#include "model/template/jinja/jinja_run.h"

#include "base/checked.h"
#include "model/template/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status jinja_fail(struct jinja_run *run, enum status status, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(run->error, status, "line %u: %s", run->line, text);
}

enum status jinja_charge(struct jinja_run *run, size_t n_steps) {
    if (n_steps > run->steps_max - run->n_steps)
        return jinja_fail(run, STATUS_LIMIT, "the template takes more than %zu steps",
                          run->steps_max);
    run->n_steps += n_steps;
    return STATUS_OK;
}

enum status jinja_enter(struct jinja_run *run) {
    if (run->depth == JINJA_DEPTH_MAX)
        return jinja_fail(run, STATUS_LIMIT, "more than %u evaluations inside each other",
                          JINJA_DEPTH_MAX);
    run->depth++;
    return STATUS_OK;
}

enum status jinja_alloc(struct jinja_run *run, size_t n, size_t size, void *memory) {
    uint64_t bytes;
    void *made = checked_mul(n, size, &bytes) ? arena_alloc(&run->arena, bytes) : NULL;
    if (!made)
        return jinja_fail(run, STATUS_LIMIT, "the template needs more than %zu bytes of memory",
                          run->arena.limit);
    memcpy(memory, &made, sizeof made);
    return STATUS_OK;
}

enum status jinja_grow(struct jinja_run *run, void *items, size_t n, size_t *size,
                       size_t item_size) {
    size_t wanted = *size ? 2 * *size : 8;
    void *old;
    char *grown;
    if (n < *size)
        return STATUS_OK;
    TRY(jinja_alloc(run, wanted, item_size, &grown));
    memcpy(&old, items, sizeof old);
    if (n > 0)
        memcpy(grown, old, n * item_size);
    memcpy(items, &grown, sizeof grown);
    *size = wanted;
    return STATUS_OK;
}

enum status jinja_call(struct jinja_run *run, struct jinja_value callee,
                       const struct jinja_args *args, struct jinja_value *value) {
    switch (callee.kind) {
    case JINJA_METHOD:
        return jinja_invoke(run, callee.method->builtin, callee.method->self, args, value);
    case JINJA_MACRO:
        return jinja_call_macro(run, callee.macro, args, value);
    case JINJA_UNDEFINED:
        return jinja_fail(run, STATUS_INVALID, "%.96s is undefined",
                          callee.name ? callee.name : "a value");
    default:
        return jinja_fail(run, STATUS_INVALID, "%s cannot be called", jinja_type_name(callee));
    }
}

enum status jinja_invoke(struct jinja_run *run, const struct jinja_builtin *builtin,
                         struct jinja_value self, const struct jinja_args *args,
                         struct jinja_value *value) {
    struct jinja_value bound[JINJA_PARAMS_MAX] = {{0}};
    size_t n_params = 0;
    struct jinja_value result;
    while (n_params < JINJA_PARAMS_MAX && builtin->params[n_params])
        n_params++;
    if (builtin->arguments != JINJA_ANY && args->n > n_params)
        return jinja_fail(run, STATUS_INVALID, "%s takes %zu arguments, not %zu", builtin->name,
                          n_params, args->n);
    for (size_t i = 0; i < args->n && i < n_params; i++)
        bound[i] = args->values[i];
    for (size_t i = 0; i < args->n_named && builtin->arguments != JINJA_ANY; i++) {
        size_t at = 0;
        while (at < n_params && strcmp(builtin->params[at], args->named[i].name) != 0)
            at++;
        if (at == n_params || builtin->arguments == JINJA_POSITIONAL || jinja_given(bound[at]))
            return jinja_fail(run, STATUS_INVALID, "%s takes no argument \"%.96s\"", builtin->name,
                              args->named[i].name);
        bound[at] = args->named[i].value;
    }
    for (size_t i = 0; i < builtin->n_required && builtin->arguments != JINJA_ANY; i++)
        if (!jinja_given(bound[i]))
            return jinja_fail(run, STATUS_INVALID, "%s needs an argument \"%s\"", builtin->name,
                              builtin->params[i]);
    TRY(jinja_charge(run, 1));
    TRY(jinja_enter(run));
    TRY(builtin->call(run, self, bound, args, &result));
    jinja_leave(run);
    *value = result;
    return STATUS_OK;
}

/* The roles of a chat are a closed set, so that their names cannot smuggle a marker in; templates
 * build markers with them ('<|' + role + '|>'). */
static void trust_roles(const struct jinja_value *messages) {
    if (messages->kind != JINJA_LIST)
        return;
    for (size_t i = 0; i < messages->list->n; i++) {
        const struct jinja_value *message = &messages->list->items[i];
        enum template_role role;
        for (size_t j = 0; message->kind == JINJA_DICT && j < message->dict->n; j++) {
            struct jinja_value *value = &message->dict->values[j];
            if (!span_is(jinja_span(message->dict->keys[j]), "role") || !jinja_is_string(*value) ||
                template_role_parse(jinja_span(*value), &role) != STATUS_OK)
                continue;
            static const struct jinja_string names[TEMPLATE_ROLE_COUNT] = {
                [TEMPLATE_SYSTEM] = {.bytes = "system", .n = 6},
                [TEMPLATE_DEVELOPER] = {.bytes = "developer", .n = 9},
                [TEMPLATE_USER] = {.bytes = "user", .n = 4},
                [TEMPLATE_ASSISTANT] = {.bytes = "assistant", .n = 9},
                [TEMPLATE_TOOL] = {.bytes = "tool", .n = 4},
            };
            value->string = &names[role];
        }
    }
}

static enum status set_globals(struct jinja_run *run, const struct jinja_input *input) {
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
                trust_roles(&run->globals[i]);
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

static enum status copy_out(const struct jinja_text *text, struct jinja_output *output) {
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
                            .error = error};
    arena_init(&run.arena, JINJA_MEMORY_MAX);
    enum status status = set_globals(&run, input);
    if (status == STATUS_OK)
        status = jinja_exec(&run, &root, program->body);
    if (status == STATUS_OK) {
        status = copy_out(&text, output);
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
