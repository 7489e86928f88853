/* tools/lib/http_client.h: an HTTP/1.1 client for our own tools, on base/loop.
 *
 * One `struct http_client` is one connection, kept open between requests. One request at a time.
 * The answer comes as events: status, pieces of the body as they arrive, the end. Loop
 * thread only. */
#pragma once

#include "base/error.h"
#include "base/loop.h"
#include "tools/lib/http_url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_events {
    void (*on_body)(void *user, const char *bytes, size_t n); /* status is known by then */
    /* STATUS_OK: a whole answer came (whatever its HTTP status). Else it broke: error says how. The
     * next request may be started from inside. */
    void (*on_end)(void *user, enum status status, int http_status, const struct error *error);
    void *user;
};

struct http_client;

/* Copies the URL; what it borrows there (tls) has to outlive the client. */
NODISCARD enum status http_client_new(struct loop *loop, const struct http_url *url,
                                      struct http_client **client);
void http_client_free(struct http_client *client);

/* method: "GET" or "POST"; body may be NULL; headers: extra lines, each ended by CRLF, or NULL.
 * Copies everything. Connects when needed; a kept connection that the server has closed is opened
 * again once, unseen. */
void http_client_start(struct http_client *client, const char *method, const char *path,
                       const char *headers, const char *body, size_t n_body,
                       const struct http_events *events);

/* Drops the request and the connection: no more events for it. */
void http_client_abort(struct http_client *client);

/* When the request was given to the connection, CLOCK_MONOTONIC; 0 before. Under TLS the handshake
 * of a new connection comes after it. */
uint64_t http_client_sent_ns(const struct http_client *client);
