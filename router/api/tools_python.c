#include "router/api/tools_python.h"

#include "base/buf.h"
#include "model/text/template/template_tools.h"
#include "router/api/form.h"
#include "router/api/json_put.h"
#include "router/api/tools_parameters.h"
#include "router/api/tools_schema.h"

#include <string.h>

/* A string in single quotes, with the escapes that JSON and Python both have, but for those of the quotes. */
#define IN_SINGLE "'([^'\\\\\\x00-\\x1f]|\\\\[\"'\\\\bfnrt])*'"
#define ANY_NAME  "[A-Za-z_][A-Za-z0-9_]*"

/* Branches of `anyOf` that are written one by one, and arguments none of which must come: with more of them a form is too long. */
#define BRANCHES_MAX 8u
#define FREE_MAX     96u

/* --- values -------------------------------------------------------------------------------- */

/* Appends how Python writes it, in single quotes where it is a string and `single`. false: it is none of these. */
static bool tools_python_put_literal(const json_t *value, bool single, struct buf *out) {
    const char *text = json_string_value(value);
    if (json_is_integer(value)) {
        json_put_int(out, json_integer_value(value));
    } else if (json_is_boolean(value) || json_is_null(value)) {
        buf_puts(out, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
    } else if (json_is_string(value) && !single) {
        json_put_string(out, text, json_string_length(value));
    } else if (json_is_string(value)) {
        buf_putc(out, '\'');
        for (size_t i = 0, end, n = json_string_length(value); i < n; i = end) {
            for (end = i; end < n && text[end] != '\'' && text[end] != '"';)
                end++;
            json_put_text(out, text + i, end - i);
            if (end < n)
                buf_puts(out, text[end++] == '"' ? "\"" : "\\'");
        }
        buf_putc(out, '\'');
    } else {
        return false;
    }
    return true;
}

/* One of the texts that stand for a value; *is_one: there is such a text. */
static enum status tools_python_put_choice(struct ask *ask, const json_t *value, bool single,
                                           bool *is_one, struct span *choice) {
    struct buf text;
    buf_init(&text, 0);
    *is_one = tools_python_put_literal(value, single, &text);
    if (*is_one)
        return form_keep(ask, &text, choice);
    buf_fini(&text);
    return STATUS_OK;
}

/* The values (json, an array) as Python writes them; *whole: all of them can be. */
static enum status tools_python_put_values(struct ask *ask, const json_t *values, bool *whole,
                                           struct grammar_part *part) {
    size_t n = 0, i;
    struct span *choices =
        arena_alloc(&ask->arena, (2 * json_array_size(values) + 1) * sizeof *choices);
    json_t *value;
    *whole = json_array_size(values) > 0;
    if (!choices)
        return STATUS_NOMEM;
    json_array_foreach((json_t *)(uintptr_t)values, i, value) {
        bool is_text = json_is_string(value);
        for (int single = 0; single <= is_text && *whole; single++)
            TRY(tools_python_put_choice(ask, value, single == 1, whole, &choices[n++]));
    }
    *part = (struct grammar_part){.kind = GRAMMAR_CHOICE, .choices = choices, .n = n};
    return STATUS_OK;
}

/* Values of a simple type; false: it is none. A string in double quotes is one in JSON. */
static bool tools_python_put_type(const json_t *type, struct grammar_part *part) {
    static const struct span words[] = {SPAN("True"), SPAN("False"), SPAN("None")};
    static const struct grammar_part strings[] = {
        {.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{\"type\":\"string\"}")},
        {.kind = GRAMMAR_REGEX, .text = SPAN(IN_SINGLE)}};
    static const struct {
        const char *name;
        struct grammar_part part;
    } types[] = {
        {"string", {.kind = GRAMMAR_EITHER, .parts = strings, .n = 2}},
        {"boolean", {.kind = GRAMMAR_CHOICE, .choices = words, .n = 2}},
        {"null", {.kind = GRAMMAR_CHOICE, .choices = &words[2], .n = 1}},
        {"integer", {.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{\"type\":\"integer\"}")}},
        {"number", {.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{\"type\":\"number\"}")}},
    };
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *part = types[i].part;
            return true;
        }
    }
    return false;
}

/* Where only `type` is said: one, or a list of them. */
static enum status tools_python_put_types(struct ask *ask, const json_t *type, bool *whole,
                                          struct grammar_part *part) {
    struct grammar_part *each = form_array(ask, json_array_size(type));
    json_t *one;
    size_t i;
    if (!each)
        return STATUS_NOMEM;
    *whole = json_is_array(type) ? json_array_size(type) > 0 : tools_python_put_type(type, part);
    json_array_foreach((json_t *)(uintptr_t)type, i, one) {
        *whole = *whole && tools_python_put_type(one, &each[i]);
    }
    if (*whole && json_is_array(type))
        *part = form_list(GRAMMAR_EITHER, each, json_array_size(type));
    return STATUS_OK;
}

/* A value of any kind. */
static struct grammar_part tools_python_any_part(void) {
    static const struct grammar_part values[] = {
        {.kind = GRAMMAR_JSON_SCHEMA, .text = SPAN("{}")},
        {.kind = GRAMMAR_REGEX, .text = SPAN(IN_SINGLE "|True|False|None")}};
    return form_list(GRAMMAR_EITHER, values, 2);
}

/* Whether all values are strings where `type` says that, and `type` says nothing else. */
static bool tools_python_are_of(const json_t *values, const json_t *type) {
    const char *name = json_string_value(type);
    json_t *value;
    size_t i;
    if (!type)
        return true;
    json_array_foreach((json_t *)(uintptr_t)values, i, value) {
        if (!json_is_string(value))
            return false;
    }
    return name && strcmp(name, "string") == 0;
}

/* What is said of its values: one, or a list of them. */
static enum status tools_python_put_listed(struct ask *ask, const json_t *schema, bool *whole,
                                           struct grammar_part *part) {
    const json_t *only = json_object_get(schema, "const");
    json_t *values = only ? json_pack("[O]", only) : json_incref(json_object_get(schema, "enum"));
    enum status status = values ? STATUS_OK : STATUS_NOMEM;
    if (values && tools_python_are_of(values, json_object_get(schema, "type")))
        status = tools_python_put_values(ask, values, whole, part);
    json_decref(values);
    return status;
}

/* Without alternatives. In JSON where Python's spelling would keep less of the schema. */
static enum status tools_python_put_plain(struct ask *ask, const struct tool *tool,
                                          const json_t *schema, struct grammar_part *part) {
    static const char *const of_type[] = {"type", NULL}, *const of_list[] = {"type", "enum", NULL};
    static const char *const of_one[] = {"type", "const", NULL};
    const json_t *itself = tools_parameters_follow(schema, tool->parameters);
    const json_t *type = json_object_get(itself, "type");
    bool whole = false;
    if (type && !tools_schema_other(itself, of_type))
        TRY(tools_python_put_types(ask, type, &whole, part));
    else if ((json_object_get(itself, "enum") && !tools_schema_other(itself, of_list)) ||
             (json_object_get(itself, "const") && !tools_schema_other(itself, of_one)))
        TRY(tools_python_put_listed(ask, itself, &whole, part));
    return whole ? STATUS_OK
                 : tools_schema_part(ask, schema, tool->parameters, !tool->strict, part);
}

static enum status tools_python_put_value(struct ask *ask, const struct tool *tool,
                                          const json_t *schema, struct grammar_part *part) {
    static const char *const of_branches[] = {"anyOf", NULL};
    const json_t *itself = tools_parameters_follow(schema, tool->parameters);
    const json_t *branches = json_object_get(itself, "anyOf");
    size_t n = json_array_size(branches);
    if (n == 0 || n > BRANCHES_MAX || tools_schema_other(itself, of_branches))
        return tools_python_put_plain(ask, tool, schema, part);
    struct grammar_part *each = form_array(ask, n);
    if (!each)
        return STATUS_NOMEM;
    for (size_t i = 0; i < n; i++)
        TRY(tools_python_put_plain(ask, tool, json_array_get(branches, i), &each[i]));
    *part = form_list(GRAMMAR_EITHER, each, n);
    return STATUS_OK;
}

/* --- arguments ----------------------------------------------------------------------------- */

/* parameter: NULL for one of any name. */
static enum status tools_python_put_argument(struct ask *ask, const struct tool *tool,
                                             const struct tools_parameter *parameter,
                                             struct grammar_part *part) {
    struct grammar_part *own = form_array(ask, 3);
    if (!own)
        return STATUS_NOMEM;
    own[0] = parameter ? form_text(span_of(parameter->name)) : form_regex(SPAN(ANY_NAME));
    own[0].region = SPAN(TOOLS_PARAMETER);
    own[1] = form_text(SPAN("="));
    if (!parameter || !parameter->schema)
        own[2] = tools_python_any_part();
    else
        TRY(tools_python_put_value(ask, tool, parameter->schema, &own[2]));
    own[2].region = SPAN(TOOLS_LITERAL);
    *part = form_list(GRAMMAR_SEQUENCE, own, 3);
    return STATUS_OK;
}

/* An argument and the comma that parts it from the one behind it, or from the one before it. */
static enum status tools_python_put_parted(struct ask *ask, const struct grammar_part *argument,
                                           bool before, bool must_come, struct grammar_part *part) {
    struct grammar_part *both = form_array(ask, 2), *own = form_array(ask, 1);
    if (!both || !own)
        return STATUS_NOMEM;
    both[before ? 1 : 0] = *argument;
    both[before ? 0 : 1] = form_text(SPAN(", "));
    *own = form_list(GRAMMAR_SEQUENCE, both, 2);
    *part = must_come ? *own : form_maybe(own);
    return STATUS_OK;
}

/* At least one of the arguments (n > 0), none of which must come: some of the first half and perhaps some of the other, or some
 * of the other alone. So each of them stands in the form about log2(n) times, and not n. `parted`: the same with commas before
 * them, each of which may be left out. */
static enum status tools_python_put_some(struct ask *ask, const struct grammar_part *arguments,
                                         const struct grammar_part *parted, size_t n,
                                         struct grammar_part *part) {
    const size_t half = n - n / 2;
    if (n == 1) {
        *part = arguments[0];
        return STATUS_OK;
    }
    struct grammar_part *either = form_array(ask, 2), *first = form_array(ask, 1 + n - half);
    if (!either || !first)
        return STATUS_NOMEM;
    TRY(tools_python_put_some(ask, arguments, parted, half, &first[0]));
    memcpy(&first[1], &parted[half], (n - half) * sizeof *first);
    either[0] = form_list(GRAMMAR_SEQUENCE, first, 1 + n - half);
    TRY(tools_python_put_some(ask, arguments + half, parted + half, n - half, &either[1]));
    *part = form_list(GRAMMAR_EITHER, either, 2);
    return STATUS_OK;
}

/* Commas stand behind the arguments before the first that must come, and before those behind it. */
static enum status tools_python_put_list(struct ask *ask, const struct tools_parameter *list,
                                         const struct grammar_part *arguments, size_t n,
                                         struct grammar_part *part) {
    struct grammar_part *parts = form_array(ask, n), *some = form_array(ask, 1);
    size_t first = 0;
    if (!parts || !some)
        return STATUS_NOMEM;
    while (first < n && !list[first].must_come)
        first++;
    for (size_t i = 0; i < n; i++) {
        if (i == first)
            parts[i] = arguments[i];
        else
            TRY(tools_python_put_parted(ask, &arguments[i], i > first || first == n,
                                        list[i].must_come, &parts[i]));
    }
    *part = form_list(GRAMMAR_SEQUENCE, parts, n);
    if (first < n || n == 0)
        return STATUS_OK;
    if (n > FREE_MAX)
        return STATUS_LIMIT;
    TRY(tools_python_put_some(ask, arguments, parts, n, some));
    *part = form_maybe(some);
    return STATUS_OK;
}

/* Any arguments, or none. */
static enum status tools_python_put_any_list(struct ask *ask, const struct tool *tool,
                                             struct grammar_part *part) {
    struct grammar_part *own = form_array(ask, 3);
    if (!own)
        return STATUS_NOMEM;
    TRY(tools_python_put_argument(ask, tool, NULL, &own[0]));
    TRY(tools_python_put_parted(ask, &own[0], true, false, &own[1]));
    own[1].max = GRAMMAR_NO_BOUND;
    own[2] = form_list(GRAMMAR_SEQUENCE, own, 2);
    *part = form_maybe(&own[2]);
    return STATUS_OK;
}

/* A custom tool's only argument. */
static enum status tools_python_put_input(struct ask *ask, const struct tool *tool,
                                          struct grammar_part *part) {
    struct grammar_part *parts = form_array(ask, 3);
    if (!parts)
        return STATUS_NOMEM;
    parts[0] = form_text(SPAN(TEMPLATE_TOOL_INPUT "="));
    parts[1] = *tool->input;
    parts[2] = form_text(SPAN(")"));
    *part = form_list(GRAMMAR_SEQUENCE, parts, 3);
    return STATUS_OK;
}

enum status tools_python_part(struct ask *ask, const struct toolbox *box, const struct tool *tool,
                              struct grammar_part *part) {
    struct grammar_part *parts = form_array(ask, 2), *arguments;
    struct tools_parameter *list;
    size_t n = 0;
    if (tool->input)
        return tools_python_put_input(ask, tool, part);
    if (!parts)
        return STATUS_NOMEM;
    if (box->loose && !tool->strict) {
        TRY(tools_python_put_any_list(ask, tool, &parts[0]));
    } else {
        TRY(tools_parameters(ask, tool, &list, &n));
        arguments = form_array(ask, n);
        if (!arguments)
            return STATUS_NOMEM;
        for (size_t i = 0; i < n; i++)
            TRY(tools_python_put_argument(ask, tool, &list[i], &arguments[i]));
        TRY(tools_python_put_list(ask, list, arguments, n, &parts[0]));
    }
    parts[1] = form_text(SPAN(")"));
    parts[1].region = SPAN(TOOLS_END);
    *part = form_list(GRAMMAR_SEQUENCE, parts, 2);
    return STATUS_OK;
}
