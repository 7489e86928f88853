#include "base/note.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_MAX_SHOWN 256

struct text {
    char *out;
    size_t size;
    size_t n;
};

static void put(struct text *text, const char *key, const char *value) {
    if (text->n >= text->size)
        return;
    int n = snprintf(text->out + text->n, text->size - text->n, "%s%s=%s", text->n > 0 ? " " : "",
                     key, value);
    text->n += n > 0 ? (size_t)n : 0;
}

const char *note_text(char *out, size_t size, const struct note *note, const char *request) {
    struct text text = {.out = out, .size = size};
    char shown[NAME_MAX_SHOWN];
    if (size > 0)
        out[0] = '\0';
    if (note->name)
        put(&text, note->kind->who, log_text(shown, sizeof shown, note->name));
    if (request)
        put(&text, "request", log_text(shown, sizeof shown, request));
    if (note->reason)
        put(&text, "reason", note->reason);
    for (unsigned i = 0; i < NOTE_VALUES; i++) {
        if (!note->kind->values[i])
            continue;
        snprintf(shown, sizeof shown, "%" PRIu64, note->values[i]);
        put(&text, note->kind->values[i], shown);
    }
    return out;
}

void note_log(const struct note *note, const char *request) {
    char text[2 * NAME_MAX_SHOWN + 256];
    log_line(note->kind->level, note->kind->message, "%s",
             note_text(text, sizeof text, note, request));
}
