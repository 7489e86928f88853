/* Qwen3-Coder, Qwen3.5, Nemotron 3 and Step 3.5: a call in tags, its parameters one by one. Texts stand as they are, everything else
 * is JSON. */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_qwen3_coder = {
    .name = "qwen3-coder",
    .signs = {"<tool_call>", "</tool_call>", "<function=", "<parameter=", "\\n</parameter>"},
    .marks = {[TOOL_MARK_CALL] = SPAN("<tool_call>"), [TOOL_MARK_END] = SPAN("</tool_call>")},
    .calls = TOOL_CALLS_ROW,
    .before_name = SPAN("\n<function="),
    .before_arguments = SPAN(">\n"),
    .arguments = TOOL_ARGUMENTS_TAGS,
    .tags = {.before_name = SPAN("<parameter="),
             .before_value = SPAN(">\n"),
             .end_value = SPAN("\n</parameter>"),
             .behind_value = SPAN("\n</parameter>\n"),
             .end = SPAN("</function>")},
    .behind = SPAN("\n"),
    .between = SPAN("\n"),
};
