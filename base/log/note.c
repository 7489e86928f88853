#include "base/log/note.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_MAX_SHOWN 256

struct note_text {
    char *out;
    size_t size;
    size_t n;
};

static void note_put(struct note_text *text, const char *key, const char *value) {
    if (text->n >= text->size)
        return;
    int n = snprintf(text->out + text->n, text->size - text->n, "%s%s=%s", text->n > 0 ? " " : "",
                     key, value);
    text->n += n > 0 ? (size_t)n : 0;
}

const char *note_id_text(char out[NOTE_ID_MAX], struct note_id id) {
    out[0] = '\0';
    if (id.hi != 0 || id.lo != 0 || id.attempt != 0)
        snprintf(out, NOTE_ID_MAX, "%" PRIx64 ".%" PRIx64 ".%" PRIx32, id.hi, id.lo, id.attempt);
    return out;
}

static void note_put_id(struct note_text *text, const char *key, struct note_id id) {
    char shown[NOTE_ID_MAX];
    if (note_id_text(shown, id)[0])
        note_put(text, key, shown);
}

const char *note_trace_text(char out[NOTE_TRACE_MAX], const uint8_t *trace) {
    for (unsigned i = 0; i < (NOTE_TRACE_MAX - 1) / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", trace[i]);
    return out;
}

const char *note_text(char *out, size_t size, const struct note *note, const char *id) {
    const struct note_kind *kind = note->kind;
    struct note_text text = {.out = out, .size = size};
    char shown[NAME_MAX_SHOWN];
    if (size > 0)
        out[0] = '\0';
    if (note->name)
        note_put(&text, kind->who, log_text(shown, sizeof shown, note->name));
    if (id)
        note_put(&text, "id", log_text(shown, sizeof shown, id));
    note_put_id(&text, "request", note->attempt);
    if (note->trace)
        note_put(&text, "trace", note_trace_text(shown, note->trace));
    note_put_id(&text, "for", note->other);
    if (note->word)
        note_put(&text, note->key, log_text(shown, sizeof shown, note->word));
    if (note->reason)
        note_put(&text, "reason", note->reason);
    for (unsigned i = 0; i < NOTE_VALUES; i++) {
        if (!kind->values[i])
            continue;
        snprintf(shown, sizeof shown, "%" PRIu64, note->values[i]);
        note_put(&text, kind->values[i], shown);
    }
    return out;
}

void note_log(const struct note *note, const char *id) {
    char text[2 * NAME_MAX_SHOWN + 256];
    if (!log_is_on(note->kind->level))
        return;
    log_line(note->kind->level, note->kind->message, "%s", note_text(text, sizeof text, note, id));
}
