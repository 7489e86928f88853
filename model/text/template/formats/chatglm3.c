/* ChatGLM3 (THUDM/ChatGLM3, PROMPT.md): a line with the tool's name, empty in a text that is none, then a call in a block of Python. The
 * mark is the assistant's, which begins a second turn of its behind a text. What models ship is no template but a routine
 * (template_chatglm.c); the signs are those of one that is written for them. */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_chatglm3 = {
    .name = "chatglm3",
    .signs = {"<|assistant|>", "<|observation|>", "```python", "tool_call("},
    .marks = {[TOOL_MARK_CALL] = SPAN("<|assistant|>")},
    .calls = TOOL_CALLS_TURN,
    .before_text = SPAN("\n"),
    .behind_name = SPAN("\n"),
    .before_arguments = SPAN("```python\ntool_call("),
    .arguments = TOOL_ARGUMENTS_PYTHON,
    .behind = SPAN("\n```"),
};
