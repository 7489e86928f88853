/* model/text/template/formats/formats.h: the formats of calls, each in a file of its own name. */
#pragma once

#include "model/text/template/tool_format.h"

extern const struct tool_format tool_format_chatglm3;
extern const struct tool_format tool_format_hermes;
extern const struct tool_format tool_format_llama3;
extern const struct tool_format tool_format_mistral;
extern const struct tool_format tool_format_mistral_id;
extern const struct tool_format tool_format_mistral_list;
extern const struct tool_format tool_format_qwen3_coder;
