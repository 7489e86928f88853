#include "model/text/template/thought_start.h"

#include "model/text/template/template.h"

#include <string.h>

#define TAIL_BYTES 64u /* of a prompt: a mark */

/* Whether the last mark of the message has no end behind it. */
static bool thought_start_is_open_in(const struct thought_format *format, struct span text) {
    bool is_open = false;
    const char *at = text.bytes;
    for (size_t n = text.n; n > 0;) {
        const struct span mark = is_open ? format->end_mark : format->mark;
        const char *hit = memmem(at, n, mark.bytes, mark.n);
        if (!hit)
            break;
        is_open = !is_open;
        n -= (size_t)(hit - at) + mark.n;
        at = hit + mark.n;
    }
    return is_open;
}

/* The end of what the template itself wrote behind the last message, without the blanks at its end. */
static size_t thought_start_tail_of(const struct template_prompt *prompt, char tail[TAIL_BYTES]) {
    size_t n = 0;
    for (size_t i = prompt->n; i > 0 && prompt->segments[i - 1].kind == TEMPLATE_MARKUP; i--) {
        struct span text = prompt->segments[i - 1].text;
        while (n == 0 && text.n > 0 && strchr(" \t\r\n", text.bytes[text.n - 1]))
            text.n--;
        size_t take = text.n < TAIL_BYTES - n ? text.n : TAIL_BYTES - n;
        memmove(tail + take, tail, n);
        memcpy(tail, text.bytes + (text.n - take), take);
        n += take;
    }
    return n;
}

static bool thought_start_ends_with(const char *text, size_t n, struct span end) {
    return n >= end.n && memcmp(text + n - end.n, end.bytes, end.n) == 0;
}

enum thought_start thought_start_of(const struct thought_format *format,
                                    const struct template_input *input,
                                    const struct template_prompt *prompt) {
    char tail[TAIL_BYTES];
    if (!format)
        return THOUGHT_NONE;
    if (input->continue_final_message)
        return thought_start_is_open_in(format, input->messages[input->n_messages - 1].content)
                   ? THOUGHT_OPEN
                   : THOUGHT_NONE;
    size_t n = thought_start_tail_of(prompt, tail);
    if (thought_start_ends_with(tail, n, format->mark))
        return THOUGHT_OPEN;
    return thought_start_ends_with(tail, n, format->end_mark) ? THOUGHT_NONE : THOUGHT_MAYBE;
}
