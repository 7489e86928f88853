#include "router/api/tools.h"

#include "model/text/grammar/grammar.h"
#include "model/text/grammar/pack.h"
#include "model/text/template/template_tools.h"
#include "router/api/errors.h"
#include "router/api/tools_form.h"

#include <stdio.h>
#include <string.h>

/* A name is written into JSON as it is. */
static bool tools_is_name(struct span name) {
    for (size_t i = 0; i < name.n; i++) {
        char c = name.bytes[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && !strchr("_-.:/", c))
            return false;
        if (c == '\0')
            return false;
    }
    return name.n > 0;
}

static struct tool *tools_find(const struct toolbox *box, struct span name) {
    for (size_t i = 0; i < box->n; i++)
        if (box->all[i].name.n == name.n && memcmp(box->all[i].name.bytes, name.bytes, name.n) == 0)
            return &box->all[i];
    return NULL;
}

static enum status tools_read_name(const struct json_get *get, const struct toolbox *box,
                                   struct span *name) {
    TRY(json_get_text(get, "name", TOOLS_NAME_MAX, name));
    if (!tools_is_name(*name))
        return json_get_fail(get, STATUS_INVALID, "name",
                             "must be 1 to %d letters, digits, or of _ - . : /", TOOLS_NAME_MAX);
    return tools_find(box, *name)
               ? json_get_fail(get, STATUS_INVALID, "name", "is the name of an earlier tool, too")
               : STATUS_OK;
}

/* A function whose members stand beside `type`, as another of OpenAI's protocols has them, is one that no template can show. */
static enum status tools_check_function(const struct json_get *get) {
    const bool is_flat = template_tool_kind(get->object) == TEMPLATE_TOOL_FUNCTION &&
                         !json_get_member(get, "function") && json_get_member(get, "name");
    return is_flat ? json_get_fail(get, STATUS_INVALID, "function",
                                   "is missing: in a chat a function is written {\"type\": "
                                   "\"function\", \"function\": {\"name\": ...}}, with its "
                                   "members in `function` not next to `type`")
                   : STATUS_OK;
}

static enum status tools_read_function(const struct json_get *get, struct toolbox *box) {
    struct tool tool = {0};
    struct json_get function;
    char parent[64];
    TRY(json_get_object(get, "function", &function));
    snprintf(parent, sizeof parent, "%s.function", get->parent);
    function.parent = parent;
    if (!function.object)
        return json_get_fail(get, STATUS_INVALID, "function", "is missing");
    TRY(tools_read_name(&function, box, &tool.name));
    TRY(json_get_bool(&function, "strict", &tool.strict));
    tool.parameters = json_get_member(&function, "parameters");
    if (tool.parameters && !json_is_object(tool.parameters))
        return json_get_fail(&function, STATUS_INVALID, "parameters", "must be a JSON schema");
    box->all[box->n++] = tool;
    return STATUS_OK;
}

/* {"type": "grammar", "grammar": {"syntax": ..., "definition": ...}}, or both in the object itself. */
static enum status tools_read_grammar(const struct json_get *format, struct grammar_part *part) {
    struct json_get inner;
    struct span syntax = {0};
    char parent[80];
    TRY(json_get_object(format, "grammar", &inner));
    snprintf(parent, sizeof parent, "%s.grammar", format->parent);
    inner.parent = parent;
    const struct json_get *grammar = inner.object ? &inner : format;
    TRY(json_get_text(grammar, "syntax", 64, &syntax));
    if (!span_is(syntax, "lark") && !span_is(syntax, "regex"))
        return json_get_fail(grammar, STATUS_INVALID, "syntax", "must be `lark` or `regex`");
    part->kind = span_is(syntax, "lark") ? GRAMMAR_LARK : GRAMMAR_REGEX;
    TRY(json_get_text(grammar, "definition", GRAMMAR_PACKED_MAX, &part->text));
    return part->text.n > 0 ? STATUS_OK
                            : json_get_fail(grammar, STATUS_INVALID, "definition", "is missing");
}

/* What a custom tool's text must be of; any text where it says nothing. */
static enum status tools_read_format(const struct json_get *custom, struct grammar_part *part) {
    struct json_get format;
    struct span type = SPAN("text");
    char parent[72];
    *part = (struct grammar_part){.kind = GRAMMAR_UNTIL};
    TRY(json_get_object(custom, "format", &format));
    snprintf(parent, sizeof parent, "%s.format", custom->parent);
    format.parent = parent;
    TRY(json_get_text(&format, "type", 64, &type));
    if (span_is(type, "grammar"))
        return tools_read_grammar(&format, part);
    return span_is(type, "text")
               ? STATUS_OK
               : json_get_fail(&format, STATUS_INVALID, "type", "must be `text` or `grammar`");
}

/* Where the tool has a grammar, it is compiled later, with all else (format_check). */
static enum status tools_note_input(const struct json_get *custom, struct ask *ask,
                                    const struct grammar_part *part) {
    struct ask_input *input = arena_alloc(&ask->arena, sizeof *input);
    const struct ask_input **last = &ask->inputs;
    if (!input)
        return errors_no_memory(custom->error);
    *input = (struct ask_input){.part = part};
    snprintf(input->field, sizeof input->field, "%s.format", custom->parent);
    while (*last)
        last = (const struct ask_input **)(uintptr_t) & (*last)->next;
    *last = input;
    return STATUS_OK;
}

/* {"type": "custom", "custom": {"name": ..., "format": ...}}, or both in the object itself. */
static enum status tools_read_custom(const struct json_get *get, struct ask *ask,
                                     struct toolbox *box) {
    struct json_get custom = {
        .object = template_tool_custom(get->object), .error = get->error, .parent = get->parent};
    struct tool tool = {0};
    struct grammar_part *parts = arena_alloc(&ask->arena, 2 * sizeof *parts);
    char parent[64];
    if (!parts)
        return errors_no_memory(get->error);
    snprintf(parent, sizeof parent, "%s.custom", get->parent);
    if (custom.object != get->object)
        custom.parent = parent;
    TRY(tools_read_name(&custom, box, &tool.name));
    TRY(tools_read_format(&custom, &parts[1]));
    parts[0] = (struct grammar_part){
        .kind = GRAMMAR_JSON_STRING, .region = SPAN(TOOLS_INPUT), .parts = &parts[1], .n = 1};
    tool.input = &parts[0];
    box->all[box->n++] = tool;
    return parts[1].kind == GRAMMAR_UNTIL ? STATUS_OK : tools_note_input(&custom, ask, tool.input);
}

static enum status tools_read_tool(const struct json_get *get, struct ask *ask,
                                   struct toolbox *box) {
    switch (template_tool_kind(get->object)) {
    case TEMPLATE_TOOL_FUNCTION:
        return tools_read_function(get, box);
    case TEMPLATE_TOOL_CUSTOM:
        return tools_read_custom(get, ask, box);
    case TEMPLATE_TOOL_HOSTED:
        return STATUS_OK;
    default:
        return json_get_fail(get, STATUS_UNSUPPORTED, "type", "must be `function` or `custom`");
    }
}

/* `box`: NULL where the tools are only shown to the model, and what holds for such is all that is read. */
static enum status tools_read_each(const struct json_get *get, const json_t *list, struct ask *ask,
                                   struct toolbox *box) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        char parent[32];
        snprintf(parent, sizeof parent, "tools[%zu]", i);
        const struct json_get inner = {
            .object = json_array_get(list, i), .error = get->error, .parent = parent};
        TRY(tools_check_function(&inner));
        if (box)
            TRY(tools_read_tool(&inner, ask, box));
    }
    return STATUS_OK;
}

static enum status tools_read_list(const struct json_get *get, struct ask *ask,
                                   struct toolbox *box) {
    const json_t *list = NULL;
    TRY(json_get_array(get, "tools", TEMPLATE_TOOLS_MAX, &list));
    size_t n = json_array_size(list);
    box->all = arena_alloc(&ask->arena, (n > 0 ? n : 1) * sizeof *box->all);
    return box->all ? tools_read_each(get, list, ask, box) : errors_no_memory(get->error);
}

/* The tool that `of` names may be called. */
static enum status tools_allow(const struct json_get *of, const char *field, struct toolbox *box) {
    struct span type = {0}, name = {0};
    struct json_get inner;
    enum template_tool_kind kind = template_tool_kind(of->object);
    TRY(json_get_text(of, "type", 64, &type));
    TRY(json_get_object(of, kind == TEMPLATE_TOOL_CUSTOM ? "custom" : "function", &inner));
    TRY(json_get_text(inner.object ? &inner : of, "name", TOOLS_NAME_MAX, &name));
    struct tool *tool = name.bytes ? tools_find(box, name) : NULL;
    if (kind == TEMPLATE_TOOL_HOSTED)
        return error_field(of->error, STATUS_INVALID, field,
                           "`%s` is of type `%.*s`, and such tools are left out here; it can name "
                           "functions and custom tools of `tools`",
                           field, span_shown(type), type.bytes);
    bool is_one = kind == TEMPLATE_TOOL_FUNCTION || kind == TEMPLATE_TOOL_CUSTOM;
    if (!is_one || !tool || (kind == TEMPLATE_TOOL_CUSTOM) != (tool->input != NULL))
        return error_field(of->error, STATUS_INVALID, field,
                           "`%s` must name functions or custom tools of `tools`, each by its type; "
                           "`%.*s` is neither",
                           field, span_shown(name), name.bytes ? name.bytes : "");
    tool->allowed = true;
    return STATUS_OK;
}

/* {"type": "allowed_tools", "allowed_tools": {"mode": ..., "tools": [...]}}, or both in the object itself. */
static enum status tools_read_allowed(const struct json_get *choice, struct toolbox *box) {
    struct json_get inner;
    struct span mode = SPAN("auto");
    const json_t *list = NULL;
    TRY(json_get_object(choice, "allowed_tools", &inner));
    inner.parent = "tool_choice.allowed_tools";
    const struct json_get *from = inner.object ? &inner : choice;
    TRY(json_get_text(from, "mode", 64, &mode));
    TRY(json_get_array(from, "tools", TEMPLATE_TOOLS_MAX, &list));
    if (!span_is(mode, "auto") && !span_is(mode, "required"))
        return json_get_fail(from, STATUS_INVALID, "mode", "must be `auto` or `required`");
    if (json_array_size(list) == 0)
        return json_get_fail(from, STATUS_INVALID, "tools", "must have an entry");
    box->required = span_is(mode, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct json_get of = {
            .object = json_array_get(list, i), .error = choice->error, .parent = "tool_choice"};
        TRY(tools_allow(&of, "tool_choice", box));
    }
    return STATUS_OK;
}

static void tools_allow_all(struct toolbox *box) {
    for (size_t i = 0; i < box->n; i++)
        box->all[i].allowed = true;
}

static enum status tools_read_choice(const struct json_get *get, const json_t *choice,
                                     struct toolbox *box) {
    struct json_get inner = {.object = choice, .error = get->error, .parent = "tool_choice"};
    struct span word = SPAN("auto"), type = {0};
    if (json_is_object(choice)) {
        TRY(json_get_text(&inner, "type", 64, &type));
        if (span_is(type, "allowed_tools"))
            return tools_read_allowed(&inner, box);
        box->required = true;
        box->several = false;
        return tools_allow(&inner, "tool_choice", box);
    }
    if (choice)
        TRY(json_get_text(get, "tool_choice", 64, &word));
    tools_allow_all(box);
    box->required = span_is(word, "required");
    if (!box->required && !span_is(word, "auto"))
        return json_get_fail(get, STATUS_INVALID, "tool_choice",
                             "must be `none`, `auto`, `required`, or an object that names "
                             "tools");
    if (box->required && box->n == 0)
        return json_get_fail(get, STATUS_INVALID, "tool_choice", "is `required` without `tools`");
    return STATUS_OK;
}

/* What is left out is to be logged. A kind is as long as a name in the log may be. */
static enum status tools_note_left_out(const struct json_get *get, struct ask *ask) {
    const json_t *list = json_get_member(get, "tools");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        char kind[sizeof ask->unknown];
        bool is_told = template_tool_kind(tool) != TEMPLATE_TOOL_HOSTED;
        if (!is_told)
            snprintf(kind, sizeof kind, "%s", json_string_value(json_object_get(tool, "type")));
        for (uint32_t k = 0; k < ask->n_left_out && !is_told; k++)
            is_told = strcmp(ask->left_out[k], kind) == 0;
        if (is_told || ask->n_left_out == ASK_LEFT_OUT_MAX)
            continue;
        const char *copy = arena_copy(&ask->arena, kind, strlen(kind) + 1);
        if (!copy)
            return errors_no_memory(get->error);
        ask->left_out[ask->n_left_out++] = copy;
    }
    return STATUS_OK;
}

enum status tools_read(const struct json_get *get, const struct ask_limits *limits,
                       struct ask *ask) {
    struct toolbox box = {.format = limits->tool_format, .several = true};
    const struct grammar_part *form = ask->format;
    const json_t *choice = json_get_member(get, "tool_choice");
    bool none = json_is_string(choice) && strcmp(json_string_value(choice), "none") == 0;
    TRY(tools_note_left_out(get, ask));
    TRY(json_get_bool(get, "parallel_tool_calls", &box.several));
    if (ask->only_tokens || none) /* tools are shown to the model, and not called */
        return tools_read_each(get, json_get_member(get, "tools"), ask, NULL);
    TRY(tools_read_list(get, ask, &box));
    TRY(tools_read_choice(get, choice, &box));
    if (box.n == 0)
        return STATUS_OK;
    if (!box.format)
        return json_get_fail(get, STATUS_UNSUPPORTED, "tools",
                             "cannot be called: the model's template writes calls in no form that "
                             "is known here; with `tool_choice` `none` they are only shown to it");
    if (ask->is_continued)
        return json_get_fail(get, STATUS_UNSUPPORTED, "tools",
                             "cannot be called in an answer that goes on in the last message");
    enum status status = tools_form(ask, limits, &box, form);
    if (status == STATUS_LIMIT) {
        box.loose = true;
        status = tools_form(ask, limits, &box, form);
    }
    if (status == STATUS_UNSUPPORTED)
        return json_get_fail(
            get, status, "tools",
            "have a strict function whose parameters say more of their object than "
            "`properties`, `required` and `additionalProperties`, which the calls "
            "of this model cannot keep");
    if (status == STATUS_LIMIT)
        return json_get_fail(get, STATUS_INVALID, "tools",
                             "have schemas that are too long together: more than %d bytes without "
                             "their descriptions",
                             GRAMMAR_PACKED_MAX);
    if (status != STATUS_OK)
        return errors_no_memory(get->error);
    ask->calls = true;
    ask->skip_special = false; /* marks may be special tokens: they are read, and never shown */
    snprintf(ask->format_field, sizeof ask->format_field, "tools");
    return STATUS_OK;
}

enum status tools_compile(struct ask *ask, struct error *error) {
    const struct grammar_part *form = ask->thoughts ? ask->proper : ask->format;
    return grammar_compile(form, NULL, &grammar_limits, &ask->calls_grammar, error);
}
