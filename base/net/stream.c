#include "base/net/stream.h"

#include "base/buf.h"
#include "base/net/loop.h"
#include "base/net/stream_io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEEP_BYTES 1024u        /* an output buffer up to this size is kept between turns */
#define TAKE_BYTES (64u << 10)  /* runs from this size on are taken over, not copied */
#define MOVE_BYTES (256u << 10) /* what is left of the output is moved down if it is no more */
#define TURN_BYTES (1u << 20)   /* a quick reader of a large reply gets so much in one turn */

struct stream {
    struct loop *loop;                  /* borrowed */
    const struct stream_events *events; /* borrowed */
    void *user;
    const struct stream_io *io; /* borrowed */
    struct stream_port port;
    struct loop_watch *watch; /* owned */
    struct loop_kick flush;   /* sends, and reads what the port still has; once closed: frees */
    struct buf out;
    struct buf next; /* sent behind `out`: a large run, and what was written after it */
    size_t sent; /* bytes of out that are gone already: moving the rest down after each send would
                  * cost time quadratic in the size of a large reply */
    uint64_t progress_ns;
    bool paused;
    bool blocked;  /* the kernel took less than all: wait until it is writable */
    bool shutting; /* shut our side down when all is sent */
    bool shut;     /* that is done */
    bool hungry;   /* the kick reads: the port has bytes that make no socket readable */
    bool gone;
    bool closed;
};

/* --- a plain socket ------------------------------------------------------------------------- */

static ssize_t stream_plain_recv(struct stream_port *port, char *bytes, size_t n) {
    ssize_t got = recv(port->fd, bytes, n, 0);
    if (got >= 0)
        return got;
    return errno == EAGAIN || errno == EINTR ? STREAM_AGAIN : STREAM_BROKEN;
}

static ssize_t stream_plain_send(struct stream_port *port, const char *bytes, size_t n) {
    ssize_t sent;
    do
        sent = send(port->fd, bytes, n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        port->moved = true;
        return sent;
    }
    return errno == EAGAIN ? STREAM_AGAIN : STREAM_BROKEN;
}

static int stream_plain_shut(struct stream_port *port) {
    shutdown(port->fd, SHUT_WR);
    return STREAM_DONE;
}

static const struct stream_io plain = {
    .recv = stream_plain_recv, .send = stream_plain_send, .shut = stream_plain_shut};

/* --- streams -------------------------------------------------------------------------------- */

static unsigned stream_wanted_events(const struct stream *stream) {
    const struct stream_port *port = &stream->port;
    if (stream->gone || stream->closed || port->asleep)
        return 0;
    if (port->opening) /* what it reads is not data: it goes on while paused */
        return LOOP_READ | (port->open_wants_write ? LOOP_WRITE : 0);
    bool writes = (stream->blocked && !port->send_wants_read) || port->recv_wants_write;
    return (stream->paused ? LOOP_GONE : LOOP_READ) | (writes ? LOOP_WRITE : 0);
}

static void stream_watch_again(struct stream *stream) {
    /* Fails only when the kernel is out of memory; the owner's timeouts end the stream then. */
    (void)!loop_watch_set(stream->watch, stream_wanted_events(stream));
}

static void stream_tell_gone(struct stream *stream, enum status status) {
    if (stream->gone || stream->closed)
        return;
    stream->gone = true;
    stream_watch_again(stream);
    stream->events->gone(stream->user, status);
}

static void stream_read_some(struct stream *stream) {
    struct stream_port *port = &stream->port;
    char *scratch = loop_scratch(stream->loop);
    bool waited = port->recv_wants_write;
    stream->hungry = false;
    ssize_t n = stream->io->recv(port, scratch, LOOP_SCRATCH_BYTES);
    if (port->recv_wants_write != waited)
        stream_watch_again(stream);
    if (n == 0)
        stream_tell_gone(stream, STATUS_CLOSED);
    else if (n == STREAM_BROKEN)
        stream_tell_gone(stream, STATUS_IO);
    if (n <= 0)
        return;
    if (stream->io->has_input && stream->io->has_input(port)) {
        stream->hungry = true;
        loop_kick_add(stream->loop, &stream->flush);
    }
    stream->events->data(stream->user, scratch, (size_t)n);
}

/* Is there something to send? When all of `out` is gone, `next` takes its place. */
static bool stream_has_output(struct stream *stream) {
    if (stream->out.n > stream->sent)
        return true;
    if (stream->next.n == 0)
        return false;
    buf_fini(&stream->out);
    stream->out = stream->next;
    stream->next = (struct buf){0};
    stream->sent = 0;
    return true;
}

/* All is sent, and if it was the last, our side is over? */
static bool stream_is_flushed(struct stream *stream) {
    if (stream->out.n + stream->next.n > 0)
        return false;
    if (stream->shutting && !stream->shut)
        stream->shut = stream->io->shut(&stream->port) != STREAM_AGAIN;
    return !stream->shutting || stream->shut;
}

static void stream_send_some(struct stream *stream) {
    struct stream_port *port = &stream->port;
    unsigned waited = stream_wanted_events(stream);
    for (size_t sent = 0; sent < TURN_BYTES && stream_has_output(stream);) {
        size_t left = stream->out.n - stream->sent;
        if (left > TURN_BYTES - sent)
            left = TURN_BYTES - sent;
        ssize_t n = stream->io->send(port, stream->out.data + stream->sent, left);
        if (port->moved)
            stream->progress_ns = loop_now_ns(stream->loop);
        port->moved = false;
        if (n == STREAM_BROKEN) {
            stream_tell_gone(stream, STATUS_IO);
            return;
        }
        if (n == STREAM_AGAIN)
            break;
        stream->sent += (size_t)n;
        sent += (size_t)n;
    }
    if (stream->sent >= stream->out.n / 2 && stream->out.n - stream->sent <= MOVE_BYTES) {
        buf_consume(&stream->out, stream->sent);
        stream->sent = 0;
    }
    stream->blocked = !stream_is_flushed(stream);
    if (stream_wanted_events(stream) != waited)
        stream_watch_again(stream);
    if (stream->events->sent)
        stream->events->sent(stream->user);
    if (stream->blocked)
        return;
    if (stream->out.size > KEEP_BYTES)
        buf_fini(&stream->out);
    if (stream->events->drained)
        stream->events->drained(stream->user);
}

static bool stream_is_readable(const struct stream *stream) {
    return !stream->closed && !stream->gone && !stream->paused;
}

/* The peer and we agree first; what came behind the agreement lies in the port by then. */
static void stream_open_port(struct stream *stream) {
    struct stream_port *port = &stream->port;
    int done = stream->io->open(port);
    if (done == STREAM_BROKEN) {
        stream_tell_gone(stream, STATUS_IO);
        return;
    }
    port->opening = done == STREAM_AGAIN;
    stream_watch_again(stream);
    if (port->opening)
        return;
    stream->hungry = true;
    loop_kick_add(stream->loop, &stream->flush); /* sends, too, what was written meanwhile */
}

static void stream_on_watch(void *user, unsigned events) {
    struct stream *stream = user;
    struct stream_port *port = &stream->port;
    if (stream->closed || stream->gone || port->asleep)
        return;
    if (port->opening) {
        stream_open_port(stream);
        return;
    }
    if ((events & LOOP_WRITE) && port->recv_wants_write)
        events |= LOOP_READ;
    if ((events & LOOP_WRITE) && stream->blocked)
        stream_send_some(stream);
    if ((events & LOOP_READ) && stream_is_readable(stream))
        stream_read_some(stream);
    else if ((events & LOOP_GONE) && !stream->closed)
        stream_tell_gone(stream, STATUS_CLOSED);
    if (port->send_wants_read && !stream->closed && !stream->gone)
        stream_send_some(stream);
}

static void stream_end(struct stream *stream) {
    loop_watch_free(stream->watch);
    if (stream->io->fini)
        stream->io->fini(&stream->port, !stream->gone && stream_pending(stream) == 0);
    close(stream->port.fd);
    buf_fini(&stream->out);
    buf_fini(&stream->next);
    free(stream);
}

static void stream_on_kick(void *user) {
    struct stream *stream = user;
    if (stream->port.asleep) /* somebody else has its socket: the wake comes back here */
        return;
    if (stream->closed) {
        stream_end(stream);
        return;
    }
    if (stream->port.opening)
        return;
    bool has_work = stream_pending(stream) > 0 || (stream->shutting && !stream->shut);
    if (has_work && !stream->blocked && !stream->gone)
        stream_send_some(stream);
    if (stream->hungry && stream_is_readable(stream))
        stream_read_some(stream);
}

void stream_wake(struct stream *stream) {
    stream->port.asleep = false;
    if (stream->closed)
        loop_kick_add(stream->loop, &stream->flush);
    else if (!stream->gone)
        stream_open_port(stream);
}

enum status stream_new(struct loop *loop, int fd, const struct stream_events *events, void *user,
                       struct stream **out) {
    return stream_new_io(loop, fd, &plain, NULL, events, user, out);
}

enum status stream_new_io(struct loop *loop, int fd, const struct stream_io *io, void *state,
                          const struct stream_events *events, void *user, struct stream **out) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return STATUS_NOMEM;
    *stream = (struct stream){.loop = loop, .events = events, .user = user, .io = io};
    stream->port = (struct stream_port){.stream = stream,
                                        .state = state,
                                        .fd = fd,
                                        .opening = io->open != NULL,
                                        .open_wants_write = io->speaks_first};
    loop_kick_init(&stream->flush, stream_on_kick, stream);
    enum status status = loop_watch_new(loop, fd, stream_on_watch, stream, &stream->watch);
    if (status == STATUS_OK)
        status = loop_watch_set(stream->watch, stream_wanted_events(stream));
    if (status != STATUS_OK) {
        loop_watch_free(stream->watch);
        free(stream);
        return status;
    }
    *out = stream;
    return STATUS_OK;
}

void stream_close(struct stream *stream) {
    if (!stream || stream->closed)
        return;
    struct stream_port *port = &stream->port;
    stream->closed = true;
    if (port->asleep && stream->io->give_up)
        port->asleep = !stream->io->give_up(port);
    (void)!loop_watch_set(stream->watch, 0);
    loop_kick_add(stream->loop, &stream->flush);
}

enum status stream_write(struct stream *stream, const void *bytes, size_t n) {
    if (stream->closed || stream->gone || stream->shutting)
        return STATUS_CLOSED;
    if (n == 0)
        return STATUS_OK;
    if (stream_pending(stream) == 0)
        stream->progress_ns = loop_now_ns(stream->loop);
    struct buf *out = stream->next.n > 0 ? &stream->next : &stream->out;
    buf_append(out, bytes, n);
    if (out->failed) {
        out->failed = false;
        return STATUS_NOMEM;
    }
    if (!stream->blocked)
        loop_kick_add(stream->loop, &stream->flush);
    return STATUS_OK;
}

enum status stream_write_buf(struct stream *stream, struct buf *bytes) {
    if (bytes->n < TAKE_BYTES || stream->next.n > 0 || stream->closed || stream->gone ||
        stream->shutting)
        return stream_write(stream, bytes->data, bytes->n);
    if (stream_pending(stream) == 0)
        stream->progress_ns = loop_now_ns(stream->loop);
    stream->next = *bytes;
    stream->next.limit = 0; /* what is written behind it is bounded by others */
    *bytes = (struct buf){0};
    if (!stream->blocked)
        loop_kick_add(stream->loop, &stream->flush);
    return STATUS_OK;
}

size_t stream_pending(const struct stream *stream) {
    return stream->out.n - stream->sent + stream->next.n;
}

uint64_t stream_progress_ns(const struct stream *stream) {
    return stream->progress_ns;
}

void stream_pause(struct stream *stream, bool paused) {
    if (stream->closed || stream->paused == paused)
        return;
    stream->paused = paused;
    stream_watch_again(stream);
    if (!paused && stream->hungry)
        loop_kick_add(stream->loop, &stream->flush);
}

void stream_read_now(struct stream *stream) {
    stream_on_watch(stream, LOOP_READ);
}

void stream_shutdown(struct stream *stream) {
    if (stream->closed || stream->shutting)
        return;
    stream->shutting = true;
    if (!stream->blocked)
        loop_kick_add(stream->loop, &stream->flush);
}

int stream_fd(const struct stream *stream) {
    return stream->port.fd;
}

const char *stream_protocol(const struct stream *stream) {
    return stream->io->protocol ? stream->io->protocol(&stream->port) : NULL;
}

const char *stream_problem(const struct stream *stream) {
    return stream->io->problem ? stream->io->problem(&stream->port) : "";
}
