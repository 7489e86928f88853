/* tests/unit/base/http/client.h: a client of the rig's listener that speaks any protocol of the
 * server, so that one suite of facts about exchanges runs over all of them. */
#pragma once

#include "tests/support/http2_peer.h"
#include "tests/unit/base/http/rig.h"

#define REQUESTS_MAX 40

struct client;

struct reply {
    unsigned status;
    const char *head; /* "name: value\n" each, names in lower case */
    const char *body;
    size_t n_body;
    bool complete; /* and the client can tell */
    bool broken;   /* it never will be */
};

/* One way to speak. A request is known by its number: 1, 2, ... */
struct client_protocol {
    const char *name;
    bool trailers; /* reach the client */
    bool many;     /* requests at a time */
    void (*begin)(struct client *client);
    void (*request)(struct client *client, unsigned number, const char *method, const char *path,
                    const char *lines, size_t n_body, bool whole);
    void (*body)(struct client *client, unsigned number, const char *bytes, size_t n, bool end);
    void (*leave)(struct client *client, unsigned number); /* gives the request up */
    void (*take)(struct client *client, const char *bytes, size_t n);
    void (*reply)(struct client *client, unsigned number, struct reply *reply);
};

extern const struct client_protocol client_protocols[];
enum { N_CLIENT_PROTOCOLS = 2 };

struct client {
    const struct client_protocol *protocol;
    int fd;
    bool closed;           /* by the server */
    unsigned n_sent;       /* requests */
    struct buf out;        /* not yet taken by the kernel */
    struct buf in;         /* HTTP/1.1: all that came; */
    struct buf head, body; /* of the reply that was asked for last */
    struct peer peer;      /* HTTP/2 */
};

/* receive_bytes: SO_RCVBUF; 0: the default. */
void client_open(struct client *client, const struct client_protocol *protocol, int receive_bytes);
void client_close(struct client *client);

/* Sends the head; with `whole` that is all, else client_body() follows. Returns its number. */
unsigned client_ask(struct client *client, const char *method, const char *path, const char *lines,
                    size_t n_body, bool whole);
unsigned client_get(struct client *client, const char *path);
void client_body(struct client *client, unsigned number, const char *bytes, size_t n, bool end);

/* One turn of the loop without sleep, and of sending and reading. */
void client_turn(struct client *client);
/* The same without reading: a client that looks away. */
void client_turn_blind(struct client *client);

/* Turns until the reply is complete or broken. */
struct reply client_await(struct client *client, unsigned number);
/* What is there now. */
struct reply client_look(struct client *client, unsigned number);
/* Turns until `text` is in the body. */
void client_await_text(struct client *client, unsigned number, const char *text);
