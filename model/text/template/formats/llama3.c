/* Llama 3.1, 3.2 and 3.3: an answer that is one call, as JSON, or a text. Their template refuses a turn of several calls. The mark
 * is that of code, before which the models put calls now and then. */
#include "model/text/template/formats/formats.h"

const struct tool_format tool_format_llama3 = {
    .name = "llama3",
    .signs = {"<|eot_id|>", "ipython", "{\"name\": ", "\"parameters\": "},
    .others = {"<tool_call>", "<function="},
    .marks = {[TOOL_MARK_CALL] = SPAN("<|python_tag|>")},
    .calls = TOOL_CALLS_ONE,
    .before_name = SPAN("{\"name\": \""),
    .before_arguments = SPAN("\", \"parameters\": "),
    .behind = SPAN("}"),
};
