/* Qwen2.5, Qwen3, Granite 4, Hermes 2 Pro and later (NousResearch, Hermes-Function-Calling). */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_hermes = {
    .name = "hermes",
    .signs = {"<tool_call>", "</tool_call>", "\"arguments"},
    .others = {"<function=", "<tool_calls>"},
    .marks = {[TOOL_MARK_CALL] = SPAN("<tool_call>"), [TOOL_MARK_END] = SPAN("</tool_call>")},
    .calls = TOOL_CALLS_ROW,
    .before_name = SPAN("\n{\"name\": \""),
    .before_arguments = SPAN("\", \"arguments\": "),
    .behind = SPAN("}\n"),
    .between = SPAN("\n"),
};
