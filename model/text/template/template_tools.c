#include "model/text/template/template_tools.h"

#include "base/span.h"
#include "model/text/template/template_run.h"

#include <stddef.h>

enum template_tool_kind template_tool_kind(const json_t *tool) {
    const json_t *type = json_object_get(tool, "type");
    const struct span name = {json_string_value(type), json_string_length(type)};
    if (!json_is_string(type) || name.n == 0)
        return TEMPLATE_TOOL_OTHER;
    if (span_is(name, "function"))
        return TEMPLATE_TOOL_FUNCTION;
    return span_is(name, "custom") ? TEMPLATE_TOOL_CUSTOM : TEMPLATE_TOOL_HOSTED;
}

json_t *template_fit_tools(const json_t *list) {
    json_t *fitting = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        if (template_tool_kind(tool) == TEMPLATE_TOOL_HOSTED)
            continue;
        if (json_array_append_new(fitting, template_keep(tool)) != 0) {
            json_decref(fitting);
            return NULL;
        }
    }
    if (json_array_size(fitting) < json_array_size(list))
        return fitting;
    json_decref(fitting);
    return template_keep(list);
}
