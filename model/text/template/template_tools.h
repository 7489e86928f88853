/* model/text/template/template_tools.h: tools of a request, as templates know them: functions.
 *
 * A tool of a type that a provider runs on its own machines (`web_search`, `mcp` ...) is nothing that
 * a model here could call, so it is left out of what a template sees. Pure; any thread. */
#pragma once

#include <jansson.h>

enum template_tool_kind {
    TEMPLATE_TOOL_FUNCTION,
    TEMPLATE_TOOL_CUSTOM,
    TEMPLATE_TOOL_HOSTED, /* any other type */
    TEMPLATE_TOOL_OTHER,  /* its `type` is missing or no name */
};

/* By its `type`. */
enum template_tool_kind template_tool_kind(const json_t *tool);

/* The list (of objects) without hosted tools, as a new reference: to `list` itself where there are none.
 * NULL when memory is short. */
json_t *template_fit_tools(const json_t *list);
