#include "model/text/template/template_tools.h"

#include "base/buf.h"
#include "base/span.h"
#include "model/text/template/template_list.h"
#include "model/text/template/template_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum template_tool_kind template_tool_kind(const json_t *tool) {
    const json_t *type = json_object_get(tool, "type");
    const struct span name = {json_string_value(type), json_string_length(type)};
    if (!json_is_string(type) || name.n == 0)
        return TEMPLATE_TOOL_OTHER;
    if (span_is(name, "function"))
        return TEMPLATE_TOOL_FUNCTION;
    return span_is(name, "custom") ? TEMPLATE_TOOL_CUSTOM : TEMPLATE_TOOL_HOSTED;
}

const json_t *template_tool_custom(const json_t *tool) {
    const json_t *custom = json_object_get(tool, "custom");
    return json_is_object(custom) ? custom : tool;
}

/* What the model is told of the grammar that its text must be of; NULL: nothing, or memory is short. */
static json_t *template_tool_told_of(const json_t *format) {
    const json_t *inner = json_object_get(format, "grammar");
    const json_t *grammar = json_is_object(inner) ? inner : format;
    const json_t *definition = json_object_get(grammar, "definition");
    const char *syntax = json_string_value(json_object_get(grammar, "syntax"));
    struct buf text;
    if (!json_is_string(definition))
        return NULL;
    buf_init(&text, 0);
    buf_puts(&text, syntax && strcmp(syntax, "regex") == 0
                        ? "A text that this regular expression matches:\n"
                        : "A text of this grammar, in Lark's notation:\n");
    buf_append(&text, json_string_value(definition), json_string_length(definition));
    json_t *told = buf_status(&text) == STATUS_OK ? json_stringn_nocheck(text.data, text.n) : NULL;
    buf_fini(&text);
    return told;
}

static json_t *template_tool_as_function(const json_t *tool) {
    const json_t *custom = template_tool_custom(tool);
    return json_pack("{s:s, s:{s:O*, s:O*, s:{s:s, s:{s:{s:s, s:o*}}, s:[s]}}}", "type", "function",
                     "function", "name", json_object_get(custom, "name"), "description",
                     json_object_get(custom, "description"), "parameters", "type", "object",
                     "properties", TEMPLATE_TOOL_INPUT, "type", "string", "description",
                     template_tool_told_of(json_object_get(custom, "format")), "required",
                     TEMPLATE_TOOL_INPUT);
}

/* A hosted tool is left out. */
static enum status template_fit_tool(const json_t *tool, const void *how, json_t **fitting) {
    enum template_tool_kind kind = template_tool_kind(tool);
    (void)how;
    if (kind == TEMPLATE_TOOL_HOSTED)
        return STATUS_OK;
    *fitting = kind == TEMPLATE_TOOL_CUSTOM ? template_tool_as_function(tool) : template_keep(tool);
    return *fitting ? STATUS_OK : STATUS_NOMEM;
}

json_t *template_fit_tools(const json_t *list) {
    return template_list_fit(list, template_fit_tool, NULL);
}

static bool template_tool_is_custom_call(const json_t *call) {
    return template_tool_kind(call) == TEMPLATE_TOOL_CUSTOM &&
           json_is_object(json_object_get(call, "custom"));
}

/* Its arguments are a text, as those of other calls are sent. */
static json_t *template_tool_as_call(const json_t *call) {
    const json_t *custom = json_object_get(call, "custom");
    const json_t *input = json_object_get(custom, "input");
    json_t *arguments = json_pack("{s:O*}", TEMPLATE_TOOL_INPUT, input);
    char *text = arguments ? json_dumps(arguments, 0) : NULL;
    json_t *made = !text ? NULL
                         : json_pack("{s:O*, s:s, s:{s:O*, s:s}}", "id",
                                     json_object_get(call, "id"), "type", "function", "function",
                                     "name", json_object_get(custom, "name"), "arguments", text);
    json_decref(arguments);
    free(text);
    return made;
}

static enum status template_tool_fit_call(const json_t *call, const void *how, json_t **fitting) {
    (void)how;
    *fitting =
        template_tool_is_custom_call(call) ? template_tool_as_call(call) : template_keep(call);
    return *fitting ? STATUS_OK : STATUS_NOMEM;
}

static enum status template_tool_fit_message(const json_t *message, const void *how,
                                             json_t **fitting) {
    *fitting = template_list_fit_member(message, "tool_calls", template_tool_fit_call, how);
    return *fitting ? STATUS_OK : STATUS_NOMEM;
}

json_t *template_fit_calls(const json_t *messages) {
    return template_list_fit(messages, template_tool_fit_message, NULL);
}
