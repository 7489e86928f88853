/* base/http/connection.h: one client's socket, and the protocol that is spoken on it.
 *
 * A connection keeps the socket, its slot of the listener's pool, its kick and how it ends; what
 * the bytes mean is the protocol's. Nothing is freed inside a callback: connection_close() marks,
 * the kick frees before the loop sleeps and hands the slot back. Loop's thread only. */
#pragma once

#include "base/http/host.h"
#include "base/list.h"
#include "base/net/loop.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct connection;
struct stream;

/* One member: HTTP/1.1 or HTTP/2. None is called once the connection lingers or is closed, but for
 * close() and fini(). */
struct protocol {
    size_t state_size; /* of connection->state, which is zero before open() */
    NODISCARD enum status (*open)(struct connection *connection);
    void (*data)(struct connection *connection, const char *bytes, size_t n);
    void (*drained)(struct connection *connection); /* the kernel has taken all output */
    void (*gone)(struct connection *connection);    /* the client left; close() follows; or NULL */
    void (*turn)(struct connection *connection);    /* after connection_kick(), before the sleep */
    void (*check_time)(struct connection *connection, uint64_t now_ns);
    bool (*is_idle)(const struct connection *connection);
    size_t (*pending)(const struct connection *connection); /* bytes that wait before the stream;
                                                             * NULL: none ever do */
    void (*drain)(struct connection *connection); /* accepts no more; ends when all is answered */
    void (*close)(struct connection *connection); /* its exchanges end with their `gone` calls */
    void (*fini)(struct connection *connection);  /* frees what the state holds */
};

/* HTTP/1.1: at most one request at a time is out; what a client sends ahead waits until its reply has
 * ended. HTTP/2 (RFC 9113): many requests at a time, each a stream with a window of its own. */
extern const struct protocol http1_protocol, http2_protocol;

enum connection_end {
    CONNECTION_OPEN,
    CONNECTION_LINGER, /* our side is shut; reads what still comes, so that no reset eats our reply
                        */
    CONNECTION_CLOSED  /* the kick will free it */
};

struct connection {
    struct list link; /* the listener's: live or free */
    struct connection_host *host;
    const struct protocol *protocol;
    void *state; /* owned: the protocol's; NULL when it could not begin */
    struct stream *stream;
    struct loop_kick kick;
    enum connection_end end;
    size_t n_output;    /* what connection_account() has counted */
    uint32_t n_watches; /* of its exchanges */
    size_t n_discarded; /* since it lingers */
    uint64_t opened_ns;
    uint64_t lingers_ns;
    uint64_t discarded_ns; /* when the last of it came */
};

/* Takes fd. On failure the fd stays the caller's. */
NODISCARD enum status connection_open(struct connection *connection, struct connection_host *host,
                                      const struct protocol *protocol, int fd);
void connection_close(struct connection *connection);

/* Closes or refuses what has run out of time. */
void connection_check_time(struct connection *connection, uint64_t now_ns);

/* The listener drains: what has come is read first, so that a request is answered that the client
 * has sent already. */
void connection_drain(struct connection *connection);

/* No request is being read or answered: may be closed at any time. */
bool connection_is_idle(const struct connection *connection);

/* Bytes of answers that the client has not taken from us: what the kernel holds is not counted. */
size_t connection_pending(const struct connection *connection);

/* --- for protocols ------------------------------------------------------------------------ */

/* Another protocol takes the connection over from this one, whose state is freed at once. On
 * failure the connection is closed. */
NODISCARD enum status connection_become(struct connection *connection,
                                        const struct protocol *protocol);

/* The sum of all output takes up what this connection's is now. After each change of what
 * protocol->pending() answers; what goes through connection_send() is counted by it. */
void connection_account(struct connection *connection);

/* Queued for the next send; one that fails ends as a stall does. */
void connection_send(struct connection *connection, const void *bytes, size_t n);
void connection_send_buf(struct connection *connection, struct buf *bytes);

/* Calls protocol->turn() before the loop sleeps. */
void connection_kick(struct connection *connection);

/* All was said: ends our side, and waits a moment for the client to end its own. */
void connection_linger(struct connection *connection);
