/* base/http/http2_request.h: from a stream's frames to a request, by the rules that http1_head.c
 * has for HTTP/1.1: what is refused there is refused here, with the same words. */
#pragma once

#include "base/http/http2.h"

/* One field of the head, as it was sent, with a NUL behind its value; names come in lower case. */
void http2_request_field(struct http2_stream *stream, const char *name, size_t n_name,
                         const char *value, size_t n_value);

/* The head is refused once all of it is there. The first reason stays. Answers false, so that checks can
 * `return http2_request_bad(...)`. */
bool http2_request_bad(struct http2_stream *stream, unsigned status, const char *reason);

/* The head is complete, the checks of RFC 9113 are passed: the gate sees it. False: there are too
 * many requests, and the client may send this one again. */
NODISCARD bool http2_request_head(struct http2_stream *stream);

/* Bytes of the body. */
void http2_request_body(struct http2_stream *stream, const char *bytes, size_t n);

/* The client has ended its side: all of the request is there. */
void http2_request_end(struct http2_stream *stream);

/* Frees what the request holds, and gives its share of the budget back. */
void http2_request_forget(struct http2_stream *stream);
