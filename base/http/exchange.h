/* base/http/exchange.h: one request and its reply, whatever the transport (HTTP/1.1, HTTP/2).
 *
 * What a handler sees. It keeps the id, never the pointer: the client may leave at any time, and
 * then the id finds nothing and every call on it answers STATUS_NOT_FOUND. Loop's
 * thread only. */
#pragma once

#include "base/buf.h"
#include "base/http/header.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct exchange_ops;
struct exchanges;

typedef void exchange_fn(struct exchange *exchange);

/* Called for each complete request. Reply at once or keep exchange->id and reply later. */
typedef void exchange_handler(void *user, struct exchange *exchange);

#define EXCHANGE_ID_MAX 128 /* bytes of an x-request-id that is taken over */

/* Bytes of a body as they come (n may be 0); `end`: there are no more. Not called once the reply is
 * complete. They are gone after the call. */
typedef void exchange_piece(struct exchange *exchange, const char *bytes, size_t n, bool end);

/* Called when a request's head is complete and nothing of its body was read. A reply refuses it:
 * its body is never kept. Else the body is read, at most exchange->body_max bytes of it (lower it
 * here), and the handler is called. With exchange->body_piece set here, the handler is called
 * before the body, which has no bound and no time then: it comes in pieces, and client and server
 * may talk in turns. HTTP/1.1 has its whole body in one piece, within its bounds. */
typedef void exchange_gate(void *user, struct exchange *exchange);

/* What carries an exchange: for what a handler may offer, never for how it answers. */
enum exchange_protocol {
    EXCHANGE_HTTP1, /* HTTP/1.1 or 1.0: a reply has no trailers */
    EXCHANGE_HTTP2
};

struct exchange {
    uint64_t id; /* never 0, never used twice */
    enum exchange_protocol protocol;

    /* The request: valid until the reply is begun, the exchange ends or the client is gone. */
    const char *method;
    const char *path;             /* percent-decoded once, begins with '/', or "*" for OPTIONS */
    const char *query;            /* as sent, "" when there is none */
    const struct header *headers; /* (n_headers) */
    unsigned n_headers;
    const char *body; /* NUL-terminated; may hold NULs itself; empty at the gate */
    size_t n_body;
    size_t body_max;        /* the gate's to lower: a longer body is a 413 */
    const char *request_id; /* the client's x-request-id, or one made for it: in every reply */
    uint64_t received_ns;   /* when its last byte came; CLOCK_MONOTONIC */

    exchange_piece *body_piece; /* the gate's to set, or NULL: the body is kept in `body` */

    /* The handler's own; zero at first. */
    void *user;
    uint64_t tag;
    exchange_fn *gone;    /* the client left before the reply's end: cancel; the id ends with it */
    exchange_fn *drained; /* after exchange_write() was busy: all output was taken, it goes on */

    /* The server's own. */
    const struct exchange_ops *ops;
    struct buf *body_buf; /* borrowed: where the body lies */
    size_t n_charged;     /* bytes of the body that the budget holds */
    bool begun;           /* the reply's head is out */
};

struct exchange_reply {
    unsigned status;              /* 200 */
    const char *content_type;     /* NULL: none */
    const struct header *headers; /* further ones (n_headers), for example Retry-After, Allow */
    unsigned n_headers;
    const void *body; /* copied; not sent to a HEAD request, but counted in Content-Length */
    size_t n_body;
    struct buf *body_buf;          /* or NULL: instead of `body`, taken over where it is large */
    const struct header *trailers; /* (n_trailers) behind the body; HTTP/1.1 drops them */
    unsigned n_trailers;
};

/* Content-Length, Connection, Date and x-request-id are added by the server. */
enum status exchange_reply(struct exchanges *all, uint64_t id, const struct exchange_reply *reply);

/* The head of a reply whose length is not known (body and n_body unused). */
enum status exchange_begin_stream(struct exchanges *all, uint64_t id,
                                  const struct exchange_reply *reply);

/* Queues bytes; what is written in one turn of the loop leaves with one send. STATUS_BUSY: the
 * client reads too slowly and the output's bound is reached, nothing was queued; wait for `drained`
 * (a client that takes nothing for the stall time is closed, and `gone` called). */
NODISCARD enum status exchange_write(struct exchanges *all, uint64_t id, const void *bytes,
                                     size_t n);

/* The stream is complete. `trailers` (n_trailers; NULL and 0: none) follow its last byte on HTTP/2;
 * HTTP/1.1 drops them, so nothing that such a client must know may be in a trailer alone. */
enum status exchange_end(struct exchanges *all, uint64_t id, const struct header *trailers,
                         unsigned n_trailers);

/* Breaks the connection off: the client sees that the reply is incomplete. No `gone` call. */
enum status exchange_abort(struct exchanges *all, uint64_t id);

/* Bytes queued and not yet taken by the kernel; 0 for an id that ended. */
size_t exchange_pending(struct exchanges *all, uint64_t id);

/* Moves the body out: *body (not initialised) belongs to the caller, who ends it with buf_fini().
 * For work on another thread, which must not see the memory go when the client does. Its bytes stay
 * in the budget of all bodies until exchanges_give_body() is told their number. */
void exchange_take_body(struct exchange *exchange, struct buf *body);
void exchanges_give_body(struct exchanges *all, size_t n);

/* NULL when it has ended. Do not keep the pointer. */
struct exchange *exchange_find(struct exchanges *all, uint64_t id);

/* The value of the first header of that name, compared without case, or NULL. */
const char *exchange_header(const struct exchange *exchange, const char *name);

/* --- for transports ----------------------------------------------------------------------- */

struct exchange_ops {
    enum status (*reply)(struct exchange *exchange, const struct exchange_reply *reply);
    enum status (*begin)(struct exchange *exchange, const struct exchange_reply *reply);
    enum status (*write)(struct exchange *exchange, const void *bytes, size_t n);
    void (*end)(struct exchange *exchange, const struct header *trailers, unsigned n_trailers);
    void (*abort)(struct exchange *exchange);
    size_t (*pending)(const struct exchange *exchange);
};

/* At most n_max at once; `body_bytes_max` is the budget of all their bodies. */
NODISCARD enum status exchanges_new(uint32_t n_max, size_t body_bytes_max, struct exchanges **all);
void exchanges_free(struct exchanges *all); /* NULL is fine */

/* Gives the exchange (borrowed until removed) a new id. STATUS_LIMIT when n_max are there. */
NODISCARD enum status exchanges_add(struct exchanges *all, struct exchange *exchange);
void exchanges_remove(struct exchanges *all, struct exchange *exchange); /* id becomes 0 */

/* The same for one whose client left, with its `gone` call, which can read the id: it finds nothing
 * any more. Nothing for one without an id. */
void exchanges_lose(struct exchanges *all, struct exchange *exchange);

/* Its reply streams, and nobody sees the request any more: its memory may go, its share of the budget
 * is given back. */
void exchanges_forget_request(struct exchanges *all, struct exchange *exchange);

uint32_t exchanges_count(const struct exchanges *all);

/* Charges the budget for a body that has n bytes by now. False: there are too many bytes; small
 * bodies have the last eighth of the budget for themselves, so that a few large ones do not keep
 * everybody out. */
NODISCARD bool exchanges_charge_body(struct exchanges *all, struct exchange *exchange, size_t n);
size_t exchanges_body_bytes(const struct exchanges *all);
