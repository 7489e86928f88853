#include "tools/lib/sse_client.h"

#include <string.h>

#define LINE_MAX_BYTES (8u << 20)

void sse_client_init(struct sse_client *sse,
                     void (*on_event)(void *user, const char *data, size_t n), void *user) {
    *sse = (struct sse_client){.on_event = on_event, .user = user};
    buf_init(&sse->line, LINE_MAX_BYTES);
}

void sse_client_fini(struct sse_client *sse) {
    buf_fini(&sse->line);
}

void sse_client_reset(struct sse_client *sse) {
    buf_clear(&sse->line);
}

static void end_line(struct sse_client *sse) {
    struct buf *line = &sse->line;
    if (line->n > 0 && line->data[line->n - 1] == '\r')
        line->data[--line->n] = 0;
    if (line->n >= 5 && memcmp(line->data, "data:", 5) == 0) {
        size_t skip = line->n > 5 && line->data[5] == ' ' ? 6 : 5;
        sse->on_event(sse->user, line->data + skip, line->n - skip);
    }
    buf_clear(line);
}

void sse_client_feed(struct sse_client *sse, const char *bytes, size_t n) {
    while (n > 0) {
        const char *eol = memchr(bytes, '\n', n);
        size_t n_line = eol ? (size_t)(eol - bytes) : n;
        buf_append(&sse->line, bytes, n_line);
        if (!eol)
            return;
        end_line(sse);
        bytes = eol + 1;
        n -= n_line + 1;
    }
}
