#include "base/http/sse.h"

#include "base/assert.h"

#include <string.h>

void sse_event(struct buf *out, const char *data, size_t n) {
    ASSERT(!memchr(data, '\n', n) && !memchr(data, '\r', n));
    sse_begin(out);
    buf_append(out, data, n);
    sse_end(out);
}

void sse_begin(struct buf *out) {
    buf_append(out, "data: ", 6);
}

void sse_end(struct buf *out) {
    buf_append(out, "\n\n", 2);
}

void sse_done(struct buf *out) {
    buf_puts(out, "data: [DONE]\n\n");
}

void sse_ping(struct buf *out) {
    buf_puts(out, ": ping\n\n");
}
