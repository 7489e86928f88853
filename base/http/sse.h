/* base/http/sse.h: server-sent events, the exact bytes every client accepts: LF line ends, one
 * blank after the colon, one empty line behind each event. */
#pragma once

#include "base/buf.h"

#include <stddef.h>

#define SSE_CONTENT_TYPE "text/event-stream; charset=utf-8"

/* "data: JSON\n\n". The data is compact JSON: it holds no line break (asserted). */
void sse_event(struct buf *out, const char *data, size_t n);

/* The same in two halves, for data that is written straight into the buffer between them. */
void sse_begin(struct buf *out);
void sse_end(struct buf *out);

/* "data: [DONE]\n\n": the last event. */
void sse_done(struct buf *out);

/* ": ping\n\n": a comment that keeps proxies from closing a silent stream. */
void sse_ping(struct buf *out);
