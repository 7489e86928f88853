#include "router/api/tools_parameters.h"

#include "router/api/tools_schema.h"

#include <string.h>

const json_t *tools_parameters_follow(const json_t *schema, const json_t *root) {
    static const char *const known[] = {"$ref", NULL};
    for (unsigned steps = 0; steps < 16 && !tools_schema_other_of_root(schema, known); steps++) {
        const json_t *next =
            tools_schema_pointed(root, json_string_value(json_object_get(schema, "$ref")));
        if (!next)
            break;
        schema = next;
    }
    return schema;
}

static const json_t *tools_properties(const struct tool *tool) {
    return json_object_get(tools_parameters_follow(tool->parameters, tool->parameters),
                           "properties");
}

static const json_t *tools_required(const struct tool *tool) {
    return json_object_get(tools_parameters_follow(tool->parameters, tool->parameters), "required");
}

/* Whether that is all that an object's schema says. */
static bool tools_keyword_is_kept(const struct tool *tool) {
    static const char *const known[] = {"type", "properties", "required", "additionalProperties",
                                        NULL};
    const json_t *schema = tools_parameters_follow(tool->parameters, tool->parameters);
    const json_t *type = json_object_get(schema, "type");
    return !tools_schema_other_of_root(schema, known) &&
           (!type || (json_is_string(type) && strcmp(json_string_value(type), "object") == 0));
}

/* Where schemas are too long, names of keyword arguments are any, too; those in tags are not. */
static bool tools_takes_any(const struct toolbox *box, const struct tool *tool) {
    return box->loose && !tool->strict && box->format->arguments == TOOL_ARGUMENTS_PYTHON;
}

enum status tools_parameters_check(const struct toolbox *box) {
    size_t n = 0;
    if (box->format->arguments == TOOL_ARGUMENTS_JSON)
        return STATUS_OK;
    for (size_t i = 0; i < box->n; i++)
        if (box->all[i].strict && !tools_keyword_is_kept(&box->all[i]))
            return STATUS_UNSUPPORTED;
    for (size_t i = 0; i < box->n; i++)
        if (box->all[i].allowed && !tools_takes_any(box, &box->all[i]))
            n += json_object_size(tools_properties(&box->all[i])) +
                 json_array_size(tools_required(&box->all[i]));
    return n <= TOOLS_PARAMETERS_MAX ? STATUS_OK : STATUS_LIMIT;
}

/* Whether the name is among the first n. */
static bool tools_schema_is_among(const json_t *names, size_t n, const char *name) {
    json_t *entry;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)names, i, entry) {
        if (i < n && json_is_string(entry) && strcmp(json_string_value(entry), name) == 0)
            return true;
    }
    return false;
}

enum status tools_parameters(struct ask *ask, const struct tool *tool,
                             struct tools_parameter **parameters, size_t *n_parameters) {
    const json_t *known = tools_properties(tool), *needed = tools_required(tool);
    size_t n = 0, i, n_max = json_object_size(known) + json_array_size(needed) + 1;
    struct tools_parameter *all = arena_alloc(&ask->arena, n_max * sizeof *all);
    const char *name;
    json_t *schema;
    if (!all)
        return STATUS_NOMEM;
    json_object_foreach((json_t *)(uintptr_t)known, name, schema) {
        if (name[0])
            all[n++] = (struct tools_parameter){name, schema,
                                                tools_schema_is_among(needed, SIZE_MAX, name)};
    }
    json_array_foreach((json_t *)(uintptr_t)needed, i, schema) {
        name = json_string_value(schema);
        if (name && name[0] && !json_object_get(known, name) &&
            !tools_schema_is_among(needed, i, name))
            all[n++] = (struct tools_parameter){name, NULL, true};
    }
    *parameters = all;
    *n_parameters = n;
    return STATUS_OK;
}
