#include "model/text/template/thought_format.h"

#include <stdbool.h>
#include <string.h>

static const struct thought_format formats[] = {
    /* Qwen3, DeepSeek-R1 and what was distilled from them, GLM-4.5, SmolLM3. */
    {.name = "think",
     .mark = SPAN("<think>"),
     .end_mark = SPAN("</think>"),
     .behind = SPAN("\n\n")},
    /* Magistral. */
    {.name = "mistral", .mark = SPAN("[THINK]"), .end_mark = SPAN("[/THINK]"), .behind = SPAN("")},
    /* Seed-OSS. */
    {.name = "seed",
     .mark = SPAN("<seed:think>"),
     .end_mark = SPAN("</seed:think>"),
     .behind = SPAN("")},
};

const struct thought_format *thought_format_nth(size_t n) {
    return n < sizeof formats / sizeof *formats ? &formats[n] : NULL;
}

static bool thought_format_has(struct span text, struct span part) {
    return text.n >= part.n && memmem(text.bytes, text.n, part.bytes, part.n) != NULL;
}

const struct thought_format *thought_format_of(struct span template_text) {
    const struct thought_format *format;
    for (size_t i = 0; (format = thought_format_nth(i)) != NULL; i++)
        if (template_text.n > 0 && (thought_format_has(template_text, format->mark) ||
                                    thought_format_has(template_text, format->end_mark)))
            return format;
    return NULL;
}
