/* base/http/exchange.h: one request and its reply, over HTTP/1.1 or HTTP/2.
 *
 * What a handler sees. It keeps the id, never the pointer: the client may leave at any time, and
 * then the id finds nothing and every call on it answers STATUS_NOT_FOUND. Loop's
 * thread only. */
#pragma once

#include "base/buf.h"
#include "base/http/header.h"
#include "base/list.h"
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

/* Which of the places it has. Each kind has a number of its own, so that one never takes another's. */
enum exchange_place {
    EXCHANGE_REQUEST, /* a request that is read or answered */
    EXCHANGE_PROBE,   /* kept for probes: given out when all places of requests are taken */
    EXCHANGE_WATCH    /* a stream that lasts as long as its client likes: exchanges_watch() */
};
#define EXCHANGE_PLACES 3

struct exchange {
    uint64_t id; /* never 0, never used twice */
    enum exchange_protocol protocol;

    /* The request: valid until the reply is begun, the exchange ends or the client is gone. */
    const char *method;
    const char *path;             /* percent-decoded once, begins with '/', or "*" for OPTIONS */
    bool path_as_sent;            /* nothing was decoded, and nothing stood before it: what a proxy
                                   * in front compares is the same */
    const char *query;            /* as sent, "" when there is none */
    const struct header *headers; /* (n_headers) */
    unsigned n_headers;
    const char *body; /* NUL-terminated; may hold NULs itself; empty at the gate */
    size_t n_body;
    size_t body_max;        /* the gate's to lower: a longer body is a 413 */
    const char *request_id; /* the client's x-request-id, or one made for it: in every reply */
    uint64_t received_ns;   /* when its last byte came; CLOCK_MONOTONIC */

    exchange_piece *body_piece; /* the gate's to set, or NULL: the body is kept in `body` */
    bool is_probe;              /* the gate's to set: it may have a place that is kept for probes */

    /* The handler's own; zero at first. */
    void *user;
    exchange_fn *gone;    /* the client left before the reply's end: cancel; the id ends with it */
    exchange_fn *drained; /* after exchange_write() was busy: all output was taken, it goes on */

    /* The server's own. */
    const struct exchange_ops *ops;
    struct buf *body_buf; /* borrowed: where the body lies */
    size_t n_charged;     /* bytes of the body that the budget holds */
    bool begun;           /* the reply's head is out */
    enum exchange_place place;
    struct list place_link; /* in the list of those that have a probe's place */
    uint32_t *n_watches;    /* borrowed: of its connection */
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

struct exchanges_bounds {
    uint32_t n_max;             /* requests at once */
    uint32_t n_probes_max;      /* further places, for probes */
    uint32_t n_watches_max;     /* further places, for watches */
    uint32_t n_watches_of_each; /* watches of one connection */
    size_t body_bytes_max;      /* the budget of all bodies */
    size_t output_bytes_max;    /* and of all output that clients have not taken */
};

NODISCARD enum status exchanges_new(const struct exchanges_bounds *bounds, struct exchanges **all);
void exchanges_free(struct exchanges *all); /* NULL is fine */

/* Gives the exchange (borrowed until removed) a new id. When all places of requests are taken it
 * gets one that is kept for probes, if need be that of the oldest, which is aborted: see
 * exchanges_may_stay(). STATUS_LIMIT when there are no such places. */
NODISCARD enum status exchanges_add(struct exchanges *all, struct exchange *exchange);

/* After the gate: false for one that has a probe's place and is no probe; it has to be refused. */
bool exchanges_may_stay(const struct exchange *exchange);

/* The handler's: from here on the exchange is a watch, and its place is free for a request. n_kept
 * places are for others: it takes none of the last ones. STATUS_LIMIT when no more than these are
 * free, or when its connection has as many as it may have; nothing has changed then. */
NODISCARD enum status exchanges_watch(struct exchanges *all, struct exchange *exchange,
                                      uint32_t n_kept);
void exchanges_remove(struct exchanges *all, struct exchange *exchange); /* id becomes 0 */

/* The same for one whose client left, with its `gone` call, which can read the id: it finds nothing
 * any more. Nothing for one without an id. */
void exchanges_lose(struct exchanges *all, struct exchange *exchange);

/* Its reply streams, and no code reads the request any more: its memory may go, its share of the budget
 * is given back. */
void exchanges_forget_request(struct exchanges *all, struct exchange *exchange);

uint32_t exchanges_count(const struct exchanges *all);

/* Charges the budget for a body that has n bytes by now. False: there are too many bytes; small
 * bodies have the last eighth of the budget for themselves, so that a few large ones do not keep
 * everybody out. */
NODISCARD bool exchanges_charge_body(struct exchanges *all, struct exchange *exchange, size_t n);
size_t exchanges_body_bytes(const struct exchanges *all);

/* Output that was queued and not taken by the kernel, of all connections: one that had `before`
 * bytes of it has `after` now. */
void exchanges_account_output(struct exchanges *all, size_t before, size_t after);
size_t exchanges_output_bytes(const struct exchanges *all);

/* Is the budget of all output used up? Is most of it? */
bool exchanges_output_is_full(const struct exchanges *all);
bool exchanges_output_is_scarce(const struct exchanges *all);

/* May a whole reply with a body of n bytes be queued? Small ones always: a refusal is one. */
bool exchanges_may_reply(const struct exchanges *all, size_t n);
