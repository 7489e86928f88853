/* base/http/sse.h: server-sent events, the exact bytes every client accepts: LF line ends, one
 * blank after the colon, one empty line behind each event. */
#pragma once

#include "base/buf.h"

#define SSE_CONTENT_TYPE "text/event-stream; charset=utf-8"

/* "data: JSON\n\n" in two halves: the data is written straight into the buffer between them, compact
 * JSON, so that it holds no line break. */
void sse_begin(struct buf *out);
void sse_end(struct buf *out);

/* The same of an event with a name, a constant: "event: NAME\ndata: JSON\n\n". */
void sse_begin_named(const char *name, struct buf *out);

/* "data: [DONE]\n\n": the last event. */
void sse_done(struct buf *out);

/* ": ping\n": a comment that keeps proxies from closing a silent stream, between two events. No blank line stands
 * behind it: some readers take each of them for an event. */
void sse_ping(struct buf *out);
