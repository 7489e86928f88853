/* base/client/http_dial.h: a connection to a server is made, plain or with TLS. Loop thread only. */
#pragma once

#include "base/client/http_url.h"
#include "base/net/stream.h"

struct loop;
struct http_dial;

/* How it ended: a stream that the callee owns, or NULL with what is wrong: STATUS_CLOSED: nobody
 * answers there. May be called before http_dial() returns; the dial is gone by then. */
typedef void http_dialed_fn(void *user, struct stream *stream, enum status status,
                            const char *problem);

/* tls: the client's side of url's TLS, borrowed; NULL: plain. `events` and `user` are the stream's;
 * `user` is `fn`'s as well. Resolves the name at once, which may block, unless url->known says where
 * the host is. *dial is NULL once it has ended. */
void http_dial(struct loop *loop, const struct http_url *url, struct tls_context *tls,
               const struct stream_events *events, http_dialed_fn *fn, void *user,
               struct http_dial **dial);
void http_dial_abort(struct http_dial **dial); /* fine when it has ended */
