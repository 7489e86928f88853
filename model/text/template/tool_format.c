#include "model/text/template/tool_format.h"

#include <string.h>

static const struct tool_format formats[] = {
    /* Qwen2.5, Qwen3, Hermes 2 Pro and later (NousResearch, Hermes-Function-Calling). */
    {.name = "hermes",
     .mark = SPAN("<tool_call>"),
     .before_name = SPAN("\n{\"name\": \""),
     .before_arguments = SPAN("\", \"arguments\": "),
     .behind = SPAN("}\n"),
     .end_mark = SPAN("</tool_call>"),
     .between = SPAN("\n")},
};

const struct tool_format *tool_format_nth(size_t n) {
    return n < sizeof formats / sizeof *formats ? &formats[n] : NULL;
}

static bool has(struct span text, struct span part) {
    return text.n > 0 && memmem(text.bytes, text.n, part.bytes, part.n) != NULL;
}

const struct tool_format *tool_format_of(struct span template_text) {
    const struct tool_format *format;
    for (size_t i = 0; (format = tool_format_nth(i)) != NULL; i++)
        if (has(template_text, format->mark) && has(template_text, format->end_mark))
            return format;
    return NULL;
}
