/* base/client/http_client.h: an HTTP/1.1 client on base/net/loop, for the router and the tools.
 *
 * One `struct http_client` is one connection, kept open between requests. One request at a time.
 * The answer comes as events: status, pieces of the body as they arrive, the end. Loop
 * thread only. */
#pragma once

#include "base/client/http_url.h"
#include "base/error.h"
#include "base/net/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request. */
struct http_ask {
    const char *method;       /* "GET" or "POST" */
    const char *path;         /* of a route: "/v1/models" */
    const char *api_key;      /* a bearer token; NULL or "": none */
    const char *accept;       /* a media type, or NULL */
    const char *header;       /* one more, "name: value"; NULL: none */
    const char *body;         /* JSON text, or NULL */
    const char *content_type; /* of the body where it is no JSON; NULL: application/json */
    size_t n_body;            /* 0: as long as strlen() says */
};

struct http_events {
    void (*on_body)(void *user, const char *bytes, size_t n); /* status is known by then */
    /* STATUS_OK: a whole answer came (of any HTTP status). Else it broke: error says how. The
     * next request may be started from inside. */
    void (*on_end)(void *user, enum status status, int http_status, const struct error *error);
    void *user;
};

struct http_client;

/* Copies the URL; what it borrows there (tls) has to outlive the client. */
NODISCARD enum status http_client_new(struct loop *loop, const struct http_url *url,
                                      struct http_client **client);
void http_client_free(struct http_client *client);

/* Copies the request. Connects when needed; a kept connection that the server has closed is opened
 * again once, unseen. */
void http_client_start(struct http_client *client, const struct http_ask *ask,
                       const struct http_events *events);

/* Drops the request and the connection: no more events for it. */
void http_client_abort(struct http_client *client);

/* Of the answer to the last request: its status, 0 before its head; and the seconds of its
 * Retry-After, 0 where it has none (a date counts as none). */
int http_client_status(const struct http_client *client);
uint32_t http_client_retry_after_s(const struct http_client *client);

/* When the request was given to the connection, CLOCK_MONOTONIC; 0 before. Under TLS the handshake
 * of a new connection comes after it. */
uint64_t http_client_sent_ns(const struct http_client *client);
