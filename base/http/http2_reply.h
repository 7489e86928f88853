/* base/http/http2_reply.h: from a reply to frames. Output waits in each stream until nghttp2 takes
 * it, as far as the client's windows and the socket have room. */
#pragma once

#include "base/http/http2.h"

#include <nghttp2/nghttp2.h>

extern const struct exchange_ops http2_ops;

/* Answers in the server's name, a call of gRPC with a status of its own in a head that is all; the exchange ends if there is one.
 * The rest of the request is dropped. */
void http2_refuse(struct http2_stream *stream, unsigned status, const char *reason);

/* Breaks the stream off. Its exchange is told when nghttp2 closes it. */
void http2_reset(struct http2_stream *stream, uint32_t code);

/* May the next request be taken, or do whole replies wait that the client does not read? */
bool http2_has_room(const struct http2_connection *http2);

/* What waits is never sent: the connection ends. */
void http2_drop_output(struct http2_connection *http2);

/* The client may send its body. */
void http2_send_continue(struct http2_stream *stream);

/* Copies `n` bytes of the stream's output behind the frame's head (9 bytes) to the socket. nghttp2
 * calls it for what the reply's provider has announced. */
int http2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                    nghttp2_data_source *source, void *user);
