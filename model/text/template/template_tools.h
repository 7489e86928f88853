/* model/text/template/template_tools.h: tools of a request, and calls of them, as templates know them: functions.
 *
 * A tool of a type that a provider runs on its own machines (`web_search`, `mcp` ...) is nothing that
 * a model here could call, so it is left out of what a template sees. A custom tool, which takes a
 * text, is shown as a function whose only parameter is that text, TEMPLATE_TOOL_INPUT. Pure; any
 * thread. */
#pragma once

#include <jansson.h>

#define TEMPLATE_TOOL_INPUT "input"

enum template_tool_kind {
    TEMPLATE_TOOL_FUNCTION,
    TEMPLATE_TOOL_CUSTOM,
    TEMPLATE_TOOL_HOSTED, /* any other type */
    TEMPLATE_TOOL_OTHER,  /* its `type` is missing or no name */
};

/* By its `type`. */
enum template_tool_kind template_tool_kind(const json_t *tool);

/* The object that has a custom tool's name, description and format: `custom`, or the tool itself. */
const json_t *template_tool_custom(const json_t *tool);

/* The list (of objects) without hosted tools, and with functions in place of custom ones, as a new
 * reference: to `list` itself where there are none. NULL when memory is short. */
json_t *template_fit_tools(const json_t *list);

/* The messages (objects) with calls of functions in place of those of custom tools, in the same way. */
json_t *template_fit_calls(const json_t *messages);
