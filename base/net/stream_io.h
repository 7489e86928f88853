/* base/net/stream_io.h: the seam below a stream: how its bytes reach the socket, plain or
 * enciphered.
 *
 * A member is a table of functions and a state of its own; it records in the stream's port what it
 * waits for, and the stream watches the socket for that. Loop's thread only. */
#pragma once

#include "base/net/stream.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The layer between a stream and its socket. */
struct stream_port {
    struct stream *stream; /* borrowed: for stream_wake() */
    void *state;           /* the member's own; owned, ended by `fini` */
    int fd;                /* owned by the stream, open until after `fini` */
    /* Set by the member. */
    bool opening;          /* `open` has not answered STREAM_DONE: no data goes or comes */
    bool asleep;           /* works elsewhere: nothing is called until stream_wake() */
    bool open_wants_write; /* `open`, `recv` goes on when the socket is writable, */
    bool recv_wants_write;
    bool send_wants_read; /* `send` when bytes have come */
    bool moved;           /* `send` gave bytes to the kernel, also where it failed; cleared above */
};

/* What the functions below answer beside a number of bytes. */
#define STREAM_AGAIN  (-1) /* not now */
#define STREAM_BROKEN (-2) /* never again */
#define STREAM_DONE   1    /* of `open` and `shut` */

struct stream_io {
    /* Agrees with the peer before any data (a handshake). STREAM_DONE once, STREAM_AGAIN,
     * STREAM_BROKEN. NULL: there is nothing to agree on. */
    int (*open)(struct stream_port *port);
    bool speaks_first; /* `open` has something to send before anything comes */
    /* 1 to n bytes, 0 when the peer has ended its side as it should, STREAM_AGAIN, STREAM_BROKEN. */
    ssize_t (*recv)(struct stream_port *port, char *bytes, size_t n);
    /* 1 to n bytes were taken, STREAM_AGAIN, STREAM_BROKEN. After STREAM_AGAIN the next call begins
     * with the same bytes, wherever they lie then, and has no fewer of them. */
    ssize_t (*send)(struct stream_port *port, const char *bytes, size_t n);
    /* Ends our side after all that was sent: STREAM_DONE, STREAM_AGAIN. */
    int (*shut)(struct stream_port *port);
    /* Would recv() give bytes although the socket is not readable? NULL: never. */
    bool (*has_input)(const struct stream_port *port);
    /* What was agreed on to be spoken, or NULL. May be NULL itself. */
    const char *(*protocol)(const struct stream_port *port);
    /* Why it is broken, in a few words, or "". May be NULL itself. */
    const char *(*problem)(const struct stream_port *port);
    /* The stream is closed while it sleeps: true when the work had not begun and is dropped; else
     * stream_wake() comes. May be NULL. */
    bool (*give_up)(struct stream_port *port);
    /* Frees the state. `is_clean`: all output was taken, and the peer may be told that it ends. May
     * be NULL. */
    void (*fini)(struct stream_port *port, bool is_clean);
};

/* As stream_new(), on another member of the seam. `state` is the stream's on success. */
NODISCARD enum status stream_new_io(struct loop *loop, int fd, const struct stream_io *io,
                                    void *state, const struct stream_events *events, void *user,
                                    struct stream **stream);

/* Ends `asleep`: the stream looks at its socket again before the loop sleeps. */
void stream_wake(struct stream *stream);
