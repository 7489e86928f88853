/* base/http/http2_stream.h: the life of a stream, from its first HEADERS frame to the end of the turn in
 * which nghttp2 has closed it. */
#pragma once

#include "base/http/http2.h"

/* NULL: it is closed, or never was. */
struct http2_stream *http2_stream_find(struct http2_connection *http2, int32_t id);
/* NULL: out of memory. */
struct http2_stream *http2_stream_add(struct http2_connection *http2, int32_t id);

/* Its exchange, if it still has one, has lost its client. */
void http2_stream_lose(struct http2_stream *stream);

/* It waits no more. */
void http2_stream_unpark(struct http2_stream *stream);

/* nghttp2 has closed it: it waits for the turn's end, for its memory may be in use up the stack. */
void http2_stream_bury(struct http2_stream *stream);

/* Those that were buried. Outside of nghttp2's callbacks. */
void http2_free_dead(struct http2_connection *http2);
