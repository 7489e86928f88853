/* base/http/connection.h: one client connection that speaks HTTP/1.1: at most one request at a
 * time is out; what a client sends ahead waits until its reply has ended.
 *
 * Part of the listener's fixed pool. Nothing is freed inside a callback: connection_close() marks,
 * the kick frees before the loop sleeps and hands the slot back. */
#pragma once

#include "base/buf.h"
#include "base/http/exchange.h"
#include "base/http/http1.h"
#include "base/http/listener.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/random.h"

#include <stdint.h>

struct connection;
struct stream;

/* What all connections of a listener share. */
struct connection_host {
    struct loop *loop;           /* borrowed */
    struct exchanges *exchanges; /* borrowed */
    struct listener_config config;
    struct listener_counts counts;
    struct listener_calls calls;
    void (*release)(struct connection_host *host, struct connection *connection);
    struct buf scratch; /* a reply's head while it is written */
    int64_t date_s;
    char date[40];        /* of date_s, for the Date field */
    bool draining;        /* each reply is the connection's last */
    struct random random; /* request ids */
};

enum connection_state {
    CONNECTION_FREE,
    CONNECTION_READING, /* waits for a request or reads one */
    CONNECTION_BUSY,    /* a request is out */
    CONNECTION_SKIP,    /* it was refused at its head: the rest of its body is read and dropped */
    CONNECTION_ENDED,   /* its reply is complete; the next one may be read */
    CONNECTION_LINGER,  /* our side is shut; reads what still comes, so that no reset eats our reply
                         */
    CONNECTION_CLOSED   /* the kick will free it */
};

struct connection {
    struct list link; /* the listener's: live or free */
    struct connection_host *host;
    struct exchange exchange;
    struct stream *stream;
    struct http1 http1;
    struct buf input; /* sent ahead by the client; bounded by pipeline_bytes_max */
    struct loop_kick kick;
    enum connection_state state;
    size_t n_discarded; /* since it lingers */
    uint64_t since_ns;  /* idle, head, body progress or linger: what the state counts from */
    uint64_t began_ns;  /* when the body or the lingering began */
    bool head;          /* HEAD: no body goes out */
    bool chunked;
    bool last;    /* close after this reply */
    bool refused; /* a write was: its exchange is told when there is room */
    bool forget;  /* the kick frees the request's memory: its reply streams already */
    char request_id[EXCHANGE_ID_MAX + 1]; /* for the reply */
};

/* Takes fd. On failure the fd stays the caller's. */
NODISCARD enum status connection_open(struct connection *connection, struct connection_host *host,
                                      int fd);
void connection_close(struct connection *connection);

/* Closes or refuses what has run out of time. */
void connection_check_time(struct connection *connection, uint64_t now_ns);

/* No request is being read or answered: may be closed at any time. */
bool connection_is_idle(const struct connection *connection);
