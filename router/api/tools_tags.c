#include "router/api/tools_tags.h"

#include "model/text/template/template_tools.h"
#include "router/api/form.h"
#include "router/api/tools_parameters.h"
#include "router/api/tools_schema.h"

#include <string.h>

/* --- values -------------------------------------------------------------------------------- */

/* A text that can stand by itself. */
static bool tools_tags_is_plain(const json_t *value, struct span end) {
    return json_is_string(value) && json_string_length(value) > 0 &&
           !memmem(json_string_value(value), json_string_length(value), end.bytes, end.n);
}

/* Texts of `enum` or `const` (n); 0: it says none, or others, too. */
static size_t tools_tags_count_texts(const json_t *schema, struct span end) {
    const json_t *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
    json_t *value;
    size_t i;
    if (only)
        return !list && tools_tags_is_plain(only, end) ? 1 : 0;
    json_array_foreach((json_t *)(uintptr_t)list, i, value) {
        if (!tools_tags_is_plain(value, end))
            return 0;
    }
    return json_array_size(list);
}

static enum status tools_tags_put_texts(struct ask *ask, const json_t *schema, size_t n,
                                        struct grammar_part *part) {
    const json_t *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
    struct span *texts = arena_alloc(&ask->arena, n * sizeof *texts);
    if (!texts)
        return STATUS_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = only ? only : json_array_get(list, i);
        texts[i] = (struct span){json_string_value(text), json_string_length(text)};
    }
    *part = (struct grammar_part){
        .kind = GRAMMAR_CHOICE, .choices = texts, .n = n, .region = SPAN(TOOLS_TEXT)};
    return STATUS_OK;
}

static enum status tools_tags_put_value(struct ask *ask, const struct toolbox *box,
                                        const struct tool *tool, const json_t *schema,
                                        struct grammar_part *part) {
    static const char *const known[] = {"type", "enum", "const", NULL};
    const struct span end = box->format->tags.end_value;
    const json_t *itself = tools_parameters_follow(schema, tool->parameters),
                 *type = json_object_get(itself, "type");
    bool is_text = json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
    bool is_listed = json_object_get(itself, "enum") || json_object_get(itself, "const");
    bool any = box->loose && !tool->strict;
    size_t n_texts = !type || is_text ? tools_tags_count_texts(itself, end) : 0;
    if ((is_text || n_texts > 0) && (is_listed ? n_texts > 0 : true) &&
        !(tool->strict && tools_schema_other(itself, known))) {
        *part =
            (struct grammar_part){.kind = GRAMMAR_UNTIL, .text = end, .region = SPAN(TOOLS_TEXT)};
        return n_texts > 0 && !any ? tools_tags_put_texts(ask, itself, n_texts, part) : STATUS_OK;
    }
    if (!schema || any)
        *part = (struct grammar_part){.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{}")};
    else
        TRY(tools_schema_part(ask, schema, tool->parameters, !tool->strict, part));
    part->region = SPAN(TOOLS_VALUE);
    return STATUS_OK;
}

/* --- parameters ---------------------------------------------------------------------------- */

static enum status tools_tags_put_parameter(struct ask *ask, const struct toolbox *box,
                                            const struct tool *tool,
                                            const struct tools_parameter *parameter,
                                            struct grammar_part *part) {
    const struct tool_tags *tags = &box->format->tags;
    struct grammar_part *own = form_array(ask, 6);
    if (!own)
        return STATUS_NOMEM;
    own[0] = form_text(tags->before_name);
    own[1] = form_text(span_of(parameter->name));
    own[1].region = SPAN(TOOLS_PARAMETER);
    own[2] = form_text(tags->before_value);
    TRY(tools_tags_put_value(ask, box, tool, parameter->schema, &own[3]));
    own[4] = form_text(tags->behind_value);
    own[5] = form_list(GRAMMAR_SEQUENCE, own, 5);
    *part = parameter->must_come ? own[5] : form_maybe(&own[5]);
    return STATUS_OK;
}

enum status tools_tags_part(struct ask *ask, const struct toolbox *box, const struct tool *tool,
                            struct grammar_part *part) {
    struct tools_parameter *list;
    size_t n;
    TRY(tools_parameters(ask, tool, &list, &n));
    struct grammar_part *all = form_array(ask, n + 1);
    if (!all)
        return STATUS_NOMEM;
    for (size_t i = 0; i < n; i++)
        TRY(tools_tags_put_parameter(ask, box, tool, &list[i], &all[i]));
    all[n] = form_text(box->format->tags.end);
    all[n].region = SPAN(TOOLS_END);
    *part = form_list(GRAMMAR_SEQUENCE, all, n + 1);
    return STATUS_OK;
}

enum status tools_tags_input(struct ask *ask, const struct toolbox *box, const struct tool *tool,
                             struct grammar_part *part) {
    const struct tool_tags *tags = &box->format->tags;
    const struct span texts[] = {tags->before_name, SPAN(TEMPLATE_TOOL_INPUT), tags->before_value,
                                 tags->end_value,   tags->behind_value,        tags->end};
    const size_t n = sizeof texts / sizeof *texts;
    struct grammar_part *own = form_array(ask, n);
    if (!own)
        return STATUS_NOMEM;
    for (size_t i = 0; i < n; i++)
        own[i] = form_text(texts[i]);
    if (tool->input->parts[0].kind == GRAMMAR_UNTIL) {
        own[3].kind = GRAMMAR_UNTIL;
        own[3].region = SPAN(TOOLS_RAW);
    } else {
        own[3] = *tool->input;
    }
    *part = form_list(GRAMMAR_SEQUENCE, own, n);
    return STATUS_OK;
}
