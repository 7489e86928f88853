/* router/front/exchange.h: one request and its reply, whatever the transport (HTTP/1.1, HTTP/2).
 *
 * What the API's dialects see. A dialect keeps the id, never the pointer: the client may leave at
 * any time, and then the id finds nothing and every call on it answers STATUS_NOT_FOUND. Loop's
 * thread only. */
#pragma once

#include "base/buf.h"
#include "base/status.h"
#include "router/front/header.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct exchange_ops;
struct exchanges;

typedef void exchange_fn(struct exchange *exchange);

/* Called for each complete request. Reply at once or keep exchange->id and reply later. */
typedef void exchange_handler(void *user, struct exchange *exchange);

struct exchange {
    uint64_t id; /* never 0, never used twice */

    /* The request: valid until the reply is begun, the exchange ends or the client is gone. */
    const char *method;
    const char *path;             /* percent-decoded once, begins with '/', or "*" for OPTIONS */
    const char *query;            /* as sent, "" when there is none */
    const struct header *headers; /* (n_headers) */
    unsigned n_headers;
    const char *body; /* NUL-terminated; may hold NULs itself */
    size_t n_body;
    uint64_t received_ns; /* when its last byte came; CLOCK_MONOTONIC */

    /* The dialect's own; zero at first. */
    void *user;
    uint64_t tag;
    exchange_fn *gone;    /* the client left before the reply's end: cancel; the id ends with it */
    exchange_fn *drained; /* output that had to wait was taken: exchange_write() goes on */

    /* The front's own. */
    const struct exchange_ops *ops;
    struct buf *body_buf; /* borrowed: where the body lies */
    bool begun;           /* the reply's head is out */
};

struct exchange_reply {
    unsigned status;              /* 200 */
    const char *content_type;     /* NULL: none */
    const struct header *headers; /* further ones (n_headers), for example Retry-After, Allow */
    unsigned n_headers;
    const void *body; /* copied; not sent to a HEAD request, but counted in Content-Length */
    size_t n_body;
};

/* Content-Length, Connection, Date and the echo of x-request-id are added by the front. */
enum status exchange_reply(struct exchanges *all, uint64_t id, const struct exchange_reply *reply);

/* The head of a reply whose length is not known (body and n_body unused). */
enum status exchange_begin_stream(struct exchanges *all, uint64_t id,
                                  const struct exchange_reply *reply);

/* Queues bytes; what is written in one turn of the loop leaves with one send. STATUS_BUSY: the
 * client reads too slowly and the output's bound is reached, nothing was queued; wait for `drained`
 * (a client that takes nothing for the stall time is closed, and `gone` called). */
NODISCARD enum status exchange_write(struct exchanges *all, uint64_t id, const void *bytes,
                                     size_t n);

/* The stream is complete. */
enum status exchange_end(struct exchanges *all, uint64_t id);

/* Breaks the connection off: the client sees that the reply is incomplete. No `gone` call. */
enum status exchange_abort(struct exchanges *all, uint64_t id);

/* Bytes queued and not yet taken by the kernel; 0 for an id that ended. */
size_t exchange_pending(struct exchanges *all, uint64_t id);

/* Moves the body out: *body (not initialised) belongs to the caller, who ends it with buf_fini().
 * For work on another thread, which must not see the memory go when the client does. */
void exchange_take_body(struct exchange *exchange, struct buf *body);

/* NULL when it has ended. Do not keep the pointer. */
struct exchange *exchange_find(struct exchanges *all, uint64_t id);

/* The value of the first header of that name, compared without case, or NULL. */
const char *exchange_header(const struct exchange *exchange, const char *name);

/* --- for transports ----------------------------------------------------------------------- */

struct exchange_ops {
    enum status (*reply)(struct exchange *exchange, const struct exchange_reply *reply);
    enum status (*begin)(struct exchange *exchange, const struct exchange_reply *reply);
    enum status (*write)(struct exchange *exchange, const void *bytes, size_t n);
    void (*end)(struct exchange *exchange);
    void (*abort)(struct exchange *exchange);
    size_t (*pending)(const struct exchange *exchange);
};

NODISCARD enum status exchanges_new(uint32_t n_max, struct exchanges **all);
void exchanges_free(struct exchanges *all); /* NULL is fine */

/* Gives the exchange (borrowed until removed) a new id. STATUS_LIMIT when n_max are there. */
NODISCARD enum status exchanges_add(struct exchanges *all, struct exchange *exchange);
void exchanges_remove(struct exchanges *all, struct exchange *exchange); /* id becomes 0 */
uint32_t exchanges_count(const struct exchanges *all);
