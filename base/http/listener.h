/* base/http/listener.h: an HTTP port: accepts clients, bounds them in number, bytes and
 * time, and hands each complete request to one handler.
 *
 * Connections live in a pool that is sized at start. Loop's thread only. */
#pragma once

#include "base/error.h"
#include "base/http/exchange.h"
#include "base/http/http1.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct listener;
struct loop;
struct stream;
struct stream_events;
struct tls_context;

struct listener_config {
    struct http1_limits limits;
    uint32_t n_connections_max;
    uint32_t n_exchanges_max;   /* requests that are read or answered; more get a 503 */
    uint32_t n_probes_max;      /* further ones that are probes */
    uint32_t n_watches_max;     /* further ones that are watches */
    uint32_t n_watches_of_each; /* watches of one connection */
    uint64_t idle_ns;           /* between requests, and before the first */
    uint64_t first_ns;          /* while all drains: from a connection's begin to its first byte */
    uint64_t head_ns;           /* from a request's first byte to the end of its head */
    uint64_t body_ns;           /* of a body without any progress */
    uint64_t body_total_ns;     /* from a request's head to the end of its body */
    uint64_t body_grace_ns;     /* after this a body must have come at body_rate or more so far */
    uint64_t body_rate;         /* bytes a second */
    uint64_t stall_ns;          /* of output that the client does not take */
    uint64_t linger_ns;   /* a client that was refused may go on sending; without a byte for this
                              * long,      or after five times this, it is closed */
    size_t body_memory;   /* bytes of all bodies together; more are a 503 */
    size_t output_memory; /* bytes of all output together; whole replies beyond are a 503 */
    size_t reply_bytes_share;  /* while so much of a connection's whole replies waits, its next
                               * request does too; over HTTP/2 while three times that */
    size_t output_bytes_max;   /* queued for one streaming client: exchange_write() is busy then */
    size_t pipeline_bytes_max; /* sent ahead by one client before we stop reading */
    struct tls_context *tls;   /* borrowed for life; NULL: plain. Handshakes have head_ns */
    /* stream_new_tls() where `tls` is given. Passed in, so that a program without TLS, as a worker,
     * does not load OpenSSL. */
    enum status (*tls_stream)(struct loop *loop, int fd, struct tls_context *tls,
                              const struct stream_events *events, void *user,
                              struct stream **stream);
    bool one_request; /* each reply is its connection's last; then no HTTP/2 is spoken */

    /* HTTP/2. */
    uint32_t n_streams_max;  /* of one connection at once; at most n_exchanges_max in all */
    uint64_t ping_ns;        /* a client that is silent so long while it waits for a reply is
                                * asked whether it is there, and closed when it is silent again so
                                * long; 0: never */
    size_t turn_heads_share; /* of heads, as they are decoded, that a client may bring in a turn of
                                * the loop, */
    size_t turn_heads;       /* and all clients together: what came beyond waits for the next */
    double useless_frames_max; /* pings, settings, resets and the like that a client may send at
                                * once, beyond those that come of the replies it gets; */
    double useless_frame_rate; /* and those it may send a second */
};

extern const struct listener_config listener_config_default;

/* All only grow, but n_open. */
struct listener_counts {
    uint64_t n_open;
    uint64_t n_accepted;
    uint64_t n_requests;
    uint64_t n_refused;  /* answered by the parser: 4xx and 5xx */
    uint64_t n_timeouts; /* handshake, head, body, stalled output; idle ones are not counted */
    uint64_t n_crowded;  /* refused because all bodies together are too large */
    uint64_t n_unread;   /* replies refused because all output together is too large */
    uint64_t n_gone;     /* clients that left while a request was out */
    uint64_t n_http2;    /* connections that began to speak HTTP/2 */
    uint64_t n_floods;   /* of those, closed for too many frames without use */
    uint64_t n_evicted;  /* idle connections closed to make room */
    uint64_t bytes_in;
    uint64_t bytes_out;
};

/* Who gets the requests. */
struct listener_calls {
    exchange_gate *gate; /* sees every head first; NULL: all pass */
    exchange_handler *handler;
    void *user;
};

/* Listens on `address` ("127.0.0.1:8000", port 0 for any). */
NODISCARD enum status listener_new(struct loop *loop, const char *address,
                                   const struct listener_config *config,
                                   const struct listener_calls *calls, struct listener **listener,
                                   struct error *error);

/* Closes everything at once; exchanges that are out get their `gone` call. NULL is fine. */
void listener_free(struct listener *listener);

uint16_t listener_port(const struct listener *listener);
bool listener_is_loopback(const struct listener *listener);      /* only this host reaches it */
struct exchanges *listener_exchanges(struct listener *listener); /* borrowed */
struct listener_counts listener_counts(const struct listener *listener);

/* Bytes of answers that clients have not taken from us yet, of all connections. */
size_t listener_output_bytes(const struct listener *listener);

/* While held, new clients wait in the socket's queue. For one that has no connection yet. */
void listener_hold(struct listener *listener, bool held);

/* Accepts who waits and closes the socket, but where it is held or the pool is full; closes what is
 * idle, and makes each reply its connection's last. Who has sent a request by now is answered, and
 * whose connection is new has `first_ns` to send one. Done when listener_counts().n_open is 0. */
void listener_drain(struct listener *listener);
