#include "router/api/tools_tags.h"

#include "model/text/template/template_tools.h"
#include "router/api/tools_schema.h"

#include <string.h>

/* The first keyword that is none of `known`, nor only for readers; NULL: there is none. */
static const char *other_keyword(const json_t *schema, const char *const *known) {
    static const char *const told[] = {"title",     "description", "default",
                                       "examples",  "$comment",    "readOnly",
                                       "writeOnly", "deprecated",  NULL};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) {
        size_t i = 0, j = 0;
        while (known[i] && strcmp(key, known[i]) != 0)
            i++;
        while (told[j] && strcmp(key, told[j]) != 0)
            j++;
        if (!known[i] && !told[j])
            return key;
    }
    return NULL;
}

/* Where a schema is nothing but a reference into the root's definitions, what it points to. */
static const json_t *followed(const json_t *schema, const json_t *root) {
    static const char *const known[] = {"$ref", "$defs", "definitions", "$schema", "$id", NULL};
    for (unsigned steps = 0; steps < 16 && !other_keyword(schema, known); steps++) {
        const char *to = json_string_value(json_object_get(schema, "$ref"));
        const char *map = !to                                      ? NULL
                          : strncmp(to, "#/$defs/", 8) == 0        ? "$defs"
                          : strncmp(to, "#/definitions/", 14) == 0 ? "definitions"
                                                                   : NULL;
        const json_t *next =
            map ? json_object_get(json_object_get(root, map), to + 3 + strlen(map)) : NULL;
        if (!next)
            break;
        schema = next;
    }
    return schema;
}

static const json_t *properties(const struct tool *tool) {
    return json_object_get(followed(tool->parameters, tool->parameters), "properties");
}

static const json_t *required(const struct tool *tool) {
    return json_object_get(followed(tool->parameters, tool->parameters), "required");
}

/* All that such calls can keep of an object's schema. */
static bool is_kept(const struct tool *tool) {
    static const char *const known[] = {"type",  "properties",  "required", "additionalProperties",
                                        "$defs", "definitions", "$schema",  "$id",
                                        NULL};
    const json_t *schema = followed(tool->parameters, tool->parameters);
    const json_t *type = json_object_get(schema, "type");
    return !other_keyword(schema, known) &&
           (!type || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0));
}

enum status tools_tags_check(const struct toolbox *box) {
    size_t n = 0;
    if (box->format->arguments != TOOL_ARGUMENTS_TAGS)
        return STATUS_OK;
    for (size_t i = 0; i < box->n; i++)
        if (box->all[i].strict && !is_kept(&box->all[i]))
            return STATUS_UNSUPPORTED;
    for (size_t i = 0; i < box->n; i++)
        if (box->all[i].allowed)
            n += json_object_size(properties(&box->all[i])) +
                 json_array_size(required(&box->all[i]));
    return n <= TOOLS_TAGS_MAX ? STATUS_OK : STATUS_LIMIT;
}

/* --- values -------------------------------------------------------------------------------- */

/* A text that can stand by itself. */
static bool is_plain(const json_t *value, struct span end) {
    return json_is_string(value) && json_string_length(value) > 0 &&
           !memmem(json_string_value(value), json_string_length(value), end.bytes, end.n);
}

/* Texts of `enum` or `const` (n); 0: it says none, or others, too. */
static size_t count_texts(const json_t *schema, struct span end) {
    const json_t *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
    json_t *value;
    size_t i;
    if (only)
        return !list && is_plain(only, end) ? 1 : 0;
    json_array_foreach((json_t *)(uintptr_t)list, i, value) {
        if (!is_plain(value, end))
            return 0;
    }
    return json_array_size(list);
}

static enum status put_texts(struct ask *ask, const json_t *schema, size_t n,
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

static enum status put_value(struct ask *ask, const struct toolbox *box, const struct tool *tool,
                             const json_t *schema, struct grammar_part *part) {
    static const char *const known[] = {"type", "enum", "const", NULL};
    const struct span end = box->format->tags.end_value;
    const json_t *itself = followed(schema, tool->parameters),
                 *type = json_object_get(itself, "type");
    bool is_text = json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
    bool is_listed = json_object_get(itself, "enum") || json_object_get(itself, "const");
    bool any = box->loose && !tool->strict;
    size_t n_texts = !type || is_text ? count_texts(itself, end) : 0;
    if ((is_text || n_texts > 0) && (is_listed ? n_texts > 0 : true) &&
        !(tool->strict && other_keyword(itself, known))) {
        *part =
            (struct grammar_part){.kind = GRAMMAR_UNTIL, .text = end, .region = SPAN(TOOLS_TEXT)};
        return n_texts > 0 && !any ? put_texts(ask, itself, n_texts, part) : STATUS_OK;
    }
    if (!schema || any)
        *part = (struct grammar_part){.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{}")};
    else
        TRY(tools_schema_part(ask, schema, tool->parameters, !tool->strict, part));
    part->region = SPAN(TOOLS_VALUE);
    return STATUS_OK;
}

/* --- parameters ---------------------------------------------------------------------------- */

/* schema: NULL for a value of any kind. */
static enum status put_parameter(struct ask *ask, const struct toolbox *box,
                                 const struct tool *tool, const char *name, const json_t *schema,
                                 bool must_come, struct grammar_part *part) {
    const struct tool_tags *tags = &box->format->tags;
    struct grammar_part *own = arena_alloc(&ask->arena, 6 * sizeof *own);
    if (!own)
        return STATUS_NOMEM;
    own[0] = (struct grammar_part){.kind = GRAMMAR_TEXT, .text = tags->before_name};
    own[1] = (struct grammar_part){
        .kind = GRAMMAR_TEXT, .text = span_of(name), .region = SPAN(TOOLS_PARAMETER)};
    own[2] = (struct grammar_part){.kind = GRAMMAR_TEXT, .text = tags->before_value};
    TRY(put_value(ask, box, tool, schema, &own[3]));
    own[4] = (struct grammar_part){.kind = GRAMMAR_TEXT, .text = tags->behind_value};
    own[5] = (struct grammar_part){.kind = GRAMMAR_SEQUENCE, .parts = own, .n = 5};
    *part = must_come
                ? own[5]
                : (struct grammar_part){.kind = GRAMMAR_REPEAT, .parts = &own[5], .n = 1, .max = 1};
    return STATUS_OK;
}

/* Whether the name is among the first n. */
static bool is_among(const json_t *names, size_t n, const char *name) {
    json_t *entry;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)names, i, entry) {
        if (i < n && json_is_string(entry) && strcmp(json_string_value(entry), name) == 0)
            return true;
    }
    return false;
}

enum status tools_tags_part(struct ask *ask, const struct toolbox *box, const struct tool *tool,
                            struct grammar_part *part) {
    const json_t *known = properties(tool), *needed = required(tool);
    size_t n_max = json_object_size(known) + json_array_size(needed) + 1, n = 0, i;
    struct grammar_part *all = arena_alloc(&ask->arena, n_max * sizeof *all);
    const char *name;
    json_t *schema;
    if (!all)
        return STATUS_NOMEM;
    json_object_foreach((json_t *)(uintptr_t)known, name, schema) {
        if (name[0])
            TRY(put_parameter(ask, box, tool, name, schema, is_among(needed, SIZE_MAX, name),
                              &all[n++]));
    }
    json_array_foreach((json_t *)(uintptr_t)needed, i, schema) {
        name = json_string_value(schema);
        if (name && name[0] && !json_object_get(known, name) && !is_among(needed, i, name))
            TRY(put_parameter(ask, box, tool, name, NULL, true, &all[n++]));
    }
    all[n++] = (struct grammar_part){
        .kind = GRAMMAR_TEXT, .text = box->format->tags.end, .region = SPAN(TOOLS_END)};
    *part = (struct grammar_part){.kind = GRAMMAR_SEQUENCE, .parts = all, .n = n};
    return STATUS_OK;
}

enum status tools_tags_input(struct ask *ask, const struct toolbox *box, const struct tool *tool,
                             struct grammar_part *part) {
    const struct tool_tags *tags = &box->format->tags;
    const struct span texts[] = {tags->before_name, SPAN(TEMPLATE_TOOL_INPUT), tags->before_value,
                                 tags->end_value,   tags->behind_value,        tags->end};
    const size_t n = sizeof texts / sizeof *texts;
    struct grammar_part *own = arena_alloc(&ask->arena, n * sizeof *own);
    if (!own)
        return STATUS_NOMEM;
    for (size_t i = 0; i < n; i++)
        own[i] = (struct grammar_part){.kind = GRAMMAR_TEXT, .text = texts[i]};
    if (tool->input->parts[0].kind == GRAMMAR_UNTIL) {
        own[3].kind = GRAMMAR_UNTIL;
        own[3].region = SPAN(TOOLS_RAW);
    } else {
        own[3] = *tool->input;
    }
    *part = (struct grammar_part){.kind = GRAMMAR_SEQUENCE, .parts = own, .n = n};
    return STATUS_OK;
}
