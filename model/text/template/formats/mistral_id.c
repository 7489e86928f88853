/* Mistral Small 3.1 and 3.2: as their later ones (mistral.c), with an id behind the name, which a model may leave out. */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_mistral_id = {
    .name = "mistral-id",
    .signs = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
    .marks = {[TOOL_MARK_CALL] = SPAN("[TOOL_CALLS]"),
              [TOOL_MARK_ID] = SPAN("[CALL_ID]"),
              [TOOL_MARK_ARGUMENTS] = SPAN("[ARGS]")},
    .calls = TOOL_CALLS_ROW,
};
