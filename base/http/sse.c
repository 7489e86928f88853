#include "base/http/sse.h"

void sse_begin(struct buf *out) {
    buf_append(out, "data: ", 6);
}

void sse_begin_named(const char *name, struct buf *out) {
    buf_puts(out, "event: ");
    buf_puts(out, name);
    buf_putc(out, '\n');
    sse_begin(out);
}

void sse_end(struct buf *out) {
    buf_append(out, "\n\n", 2);
}

void sse_done(struct buf *out) {
    buf_puts(out, "data: [DONE]\n\n");
}

void sse_ping(struct buf *out) {
    buf_puts(out, ": ping\n");
}
