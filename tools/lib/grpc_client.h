/* tools/lib/grpc_client.h: a gRPC client for our own tools, on base/net/loop and nghttp2.
 *
 * One `struct grpc_client` is one connection of HTTP/2, by prior knowledge or ALPN, kept open between
 * calls. One call at a time, with one message; answers come as messages, then the end. Framing:
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md. Loop thread only. */
#pragma once

#include "base/client/http_url.h"
#include "base/error.h"
#include "base/net/loop.h"

#include <stddef.h>
#include <stdint.h>

#define GRPC_MESSAGE_MAX (64u << 20) /* bytes of an answer's message */

struct grpc_end {
    enum status status; /* STATUS_OK: the server said how it went. CLOSED: the connection was lost;
                         * IO: TLS; CORRUPT: what came is not gRPC */
    int http_status;
    int grpc_status;  /* 0: the call went well; -1: none was said */
    const char *text; /* what is wrong, or the server's grpc-message; borrowed for the call */
};

struct grpc_events {
    void (*on_bytes)(void *user); /* something of the answer came */
    void (*on_message)(void *user, const uint8_t *bytes, size_t n);
    void (*on_end)(void *user, const struct grpc_end *end); /* a next call may start inside */
    void *user;
};

struct grpc_client;

/* Copies the URL; what it borrows there (tls_h2) has to outlive the client. */
NODISCARD enum status grpc_client_new(struct loop *loop, const struct http_url *url,
                                      struct grpc_client **client);
void grpc_client_free(struct grpc_client *client); /* NULL is fine */

/* path: "/package.Service/Method"; api_key: a bearer token, or NULL; message: packed, copied. Connects
 * when needed; a kept connection that is gone is opened again. */
void grpc_client_start(struct grpc_client *client, const char *path, const char *api_key,
                       const uint8_t *message, size_t n, const struct grpc_events *events);

/* Drops the call (RST_STREAM, CANCEL): no more events for it. */
void grpc_client_abort(struct grpc_client *client);

/* Whether the call was given to a connection. */
bool grpc_client_is_sent(const struct grpc_client *client);
