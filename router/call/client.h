/* router/call/client.h: the client's end of a call: its exchange, and how far its reply is.
 *
 * Loop's thread only. */
#pragma once

#include "base/buf.h"
#include "router/api/errors.h"

#include <stdbool.h>
#include <stdint.h>

struct exchanges;
struct dialect_form;
struct serving;

enum client_state {
    CLIENT_WAITS,   /* for its reply */
    CLIENT_STREAMS, /* a 200 and events are out */
    CLIENT_BLOCKED, /* the same, and it reads too slowly: `pending` waits until it drained */
    CLIENT_GONE,    /* it left */
};

struct client {
    struct exchanges *exchanges;     /* borrowed */
    const struct dialect_form *form; /* borrowed: how its replies are framed */
    uint64_t exchange;               /* 0: it is gone, or has its reply */
    const char *origin; /* borrowed for life: CORS lets this one read the answer; or NULL */
    enum client_state state;
    uint64_t told_ns;   /* when it was last sent something, or its request came */
    struct buf pending; /* owned: events that it did not get yet */
};

/* Sends all of `pending` with one write; the first time, behind the head of a stream. STATUS_NOMEM:
 * `pending` is incomplete. What it cannot take now makes it BLOCKED. */
NODISCARD enum status client_send(struct client *client);

/* The whole reply, a good one. `body` is taken over where it is large; the caller ends it. */
void client_reply(struct client *client, unsigned status, const char *content_type,
                  struct buf *body);

/* A failure as the whole reply, with the time to come again where that is of use. */
void client_refuse(struct client *client, struct serving *serving, const struct api_error *error);

/* The stream is complete: all of it was sent. */
void client_end(struct client *client);

/* The end of a stream that failed, behind what is pending, which says so. A client that reads too slowly for it is
 * cut off: it shall see that the stream is incomplete. */
void client_fail(struct client *client, const struct api_error *error);
