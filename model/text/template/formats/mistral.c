/* Mistral since Devstral Small 2507: a mark before each name, and one before its arguments. */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_mistral = {
    .name = "mistral",
    .signs = {"[TOOL_CALLS]", "[ARGS]"},
    .others = {"[CALL_ID]"},
    .marks = {[TOOL_MARK_CALL] = SPAN("[TOOL_CALLS]"), [TOOL_MARK_ARGUMENTS] = SPAN("[ARGS]")},
    .calls = TOOL_CALLS_ROW,
};
