/* base/client/http_url.h: where a server is, and whom to believe that it is there. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdbool.h>

struct dns_answer;
struct tls_context;

struct http_url {
    char host[256]; /* without brackets, with the zone that a link-local address has */
    char port[8];
    char base
        [256];    /* path in front of all routes, without a slash or /v1 at its end: "" or "/api" */
    bool is_tls;  /* https:// or grpcs:// */
    bool is_grpc; /* grpc:// or grpcs://: HTTP/1.1 may be spoken there as well */
    /* Owned, where it was opened and is_tls; copies of the URL borrow them. */
    struct tls_context *tls;    /* for HTTP/1.1 */
    struct tls_context *tls_h2; /* for gRPC */
    /* Borrowed, and set by who asks for names itself: the host's addresses, to be looked at anew
     * for each connection. NULL: the name is asked for then, which may block. */
    const struct dns_answer *known;
};

/* "http://host[:port][/path]", "https://...", "grpc://...", "grpcs://..."; the scheme may be missing:
 * http. STATUS_INVALID names what is wrong. */
NODISCARD enum status http_url_parse(const char *text, struct http_url *url, struct error *error);

/* For https:// alone. */
struct http_trust {
    const char *ca; /* PEM file of the roots to trust; NULL: the system's */
    bool insecure;  /* take any certificate */
};

/* What a client of it needs to believe the server; nothing for a plain one. Errors as
 * tls_client_new(). */
NODISCARD enum status http_url_trust(struct http_url *url, const struct http_trust *trust,
                                     struct error *error);

/* http_url_parse() and http_url_trust(). */
NODISCARD enum status http_url_open(const char *text, const struct http_trust *trust,
                                    struct http_url *url, struct error *error);
void http_url_close(struct http_url *url); /* after its clients; fine on a zeroed or plain one */
