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

static void end_line(struct sse_client *sse, const char *line, size_t n) {
    if (n > 0 && line[n - 1] == '\r')
        n--;
    if (n < 5 || memcmp(line, "data:", 5) != 0)
        return;
    size_t skip = n > 5 && line[5] == ' ' ? 6 : 5;
    sse->on_event(sse->user, line + skip, n - skip);
}

void sse_client_feed(struct sse_client *sse, const char *bytes, size_t n) {
    while (n > 0) {
        const char *eol = memchr(bytes, '\n', n);
        size_t n_line = eol ? (size_t)(eol - bytes) : n;
        if (!eol || sse->line.n > 0)
            buf_append(&sse->line, bytes, n_line);
        if (!eol)
            return;
        if (sse->line.n > 0) {
            end_line(sse, sse->line.data, sse->line.n);
            buf_clear(&sse->line);
        } else { /* most lines come whole: no copy */
            end_line(sse, bytes, n_line);
        }
        bytes = eol + 1;
        n -= n_line + 1;
    }
}
