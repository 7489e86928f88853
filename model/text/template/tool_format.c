#include "model/text/template/tool_format.h"

#include "model/text/template/formats/formats.h"

#include <string.h>

static const struct tool_format *const formats[] = {
    &tool_format_hermes,     &tool_format_llama3,       &tool_format_mistral,
    &tool_format_mistral_id, &tool_format_mistral_list, &tool_format_qwen3_coder,
    &tool_format_chatglm3,
};

const struct tool_format *tool_format_nth(size_t n) {
    return n < sizeof formats / sizeof *formats ? formats[n] : NULL;
}

static bool tool_format_has(struct span text, const char *part) {
    return text.n > 0 && memmem(text.bytes, text.n, part, strlen(part)) != NULL;
}

static bool tool_format_writes(struct span template_text, const struct tool_format *format) {
    for (const char *const *sign = format->signs; *sign; sign++)
        if (!tool_format_has(template_text, *sign))
            return false;
    for (const char *const *other = format->others; *other; other++)
        if (tool_format_has(template_text, *other))
            return false;
    return true;
}

const struct tool_format *tool_format_of(struct span template_text) {
    const struct tool_format *format;
    for (size_t i = 0; (format = tool_format_nth(i)) != NULL; i++)
        if (tool_format_writes(template_text, format))
            return format;
    return NULL;
}

const char *tool_format_shown(const struct tool_format *format, struct span template_text) {
    if (format)
        return format->name;
    return tool_format_has(template_text, "tools") ? "in a form that is not known" : "none";
}

const struct tool_format *tool_format_find(const char *name) {
    const struct tool_format *format;
    for (size_t i = 0; (format = tool_format_nth(i)) != NULL; i++)
        if (strcmp(format->name, name) == 0)
            return format;
    return NULL;
}
