#include "base/stream.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"

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
    struct loop_watch *watch; /* owned */
    struct loop_kick flush;   /* sends; once closed: frees */
    struct buf out;
    struct buf next; /* sent behind `out`: a large run, and what was written after it */
    size_t sent; /* bytes of out that are gone already: moving the rest down after each send would
                  * cost time quadratic in the size of a large reply */
    uint64_t progress_ns;
    int fd; /* owned */
    bool paused;
    bool blocked;  /* the kernel took less than all: wait until it is writable */
    bool shutting; /* shut our side down when all is sent */
    bool gone;
    bool closed;
};

static void watch_again(struct stream *stream) {
    unsigned events = 0;
    if (!stream->gone)
        events = (stream->paused ? LOOP_GONE : LOOP_READ) | (stream->blocked ? LOOP_WRITE : 0);
    /* Fails only when the kernel is out of memory; the owner's timeouts end the stream then. */
    (void)!loop_watch_set(stream->watch, events);
}

static void tell_gone(struct stream *stream, enum status status) {
    if (stream->gone || stream->closed)
        return;
    stream->gone = true;
    watch_again(stream);
    stream->events->gone(stream->user, status);
}

static void read_some(struct stream *stream) {
    char *scratch = loop_scratch(stream->loop);
    ssize_t n = recv(stream->fd, scratch, LOOP_SCRATCH_BYTES, 0);
    if (n > 0)
        stream->events->data(stream->user, scratch, (size_t)n);
    else if (n == 0)
        tell_gone(stream, STATUS_CLOSED);
    else if (errno != EAGAIN && errno != EINTR)
        tell_gone(stream, STATUS_IO);
}

/* Is there something to send? When all of `out` is gone, `next` takes its place. */
static bool has_output(struct stream *stream) {
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

static void send_some(struct stream *stream) {
    bool waited = stream->blocked;
    for (size_t sent = 0; sent < TURN_BYTES && has_output(stream);) {
        size_t left = stream->out.n - stream->sent;
        if (left > TURN_BYTES - sent)
            left = TURN_BYTES - sent;
        ssize_t n = send(stream->fd, stream->out.data + stream->sent, left, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            tell_gone(stream, STATUS_IO);
            return;
        }
        if (n < 0)
            break;
        stream->progress_ns = loop_now_ns(stream->loop);
        stream->sent += (size_t)n;
        sent += (size_t)n;
    }
    if (stream->sent >= stream->out.n / 2 && stream->out.n - stream->sent <= MOVE_BYTES) {
        buf_consume(&stream->out, stream->sent);
        stream->sent = 0;
    }
    stream->blocked = stream->out.n + stream->next.n > 0;
    if (stream->blocked != waited)
        watch_again(stream);
    if (stream->blocked)
        return;
    if (stream->out.size > KEEP_BYTES)
        buf_fini(&stream->out);
    if (stream->shutting)
        shutdown(stream->fd, SHUT_WR);
    if (stream->events->drained)
        stream->events->drained(stream->user);
}

static void on_watch(void *user, unsigned events) {
    struct stream *stream = user;
    if ((events & LOOP_WRITE) && !stream->closed)
        send_some(stream);
    if ((events & LOOP_READ) && !stream->closed && !stream->gone && !stream->paused)
        read_some(stream);
    else if ((events & LOOP_GONE) && !stream->closed)
        tell_gone(stream, STATUS_CLOSED);
}

static void on_kick(void *user) {
    struct stream *stream = user;
    if (!stream->closed) {
        if (!stream->blocked && !stream->gone)
            send_some(stream);
        return;
    }
    loop_watch_free(stream->watch);
    close(stream->fd);
    buf_fini(&stream->out);
    buf_fini(&stream->next);
    free(stream);
}

enum status stream_new(struct loop *loop, int fd, const struct stream_events *events, void *user,
                       struct stream **out) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return STATUS_NOMEM;
    *stream = (struct stream){.loop = loop, .fd = fd, .events = events, .user = user};
    loop_kick_init(&stream->flush, on_kick, stream);
    enum status status = loop_watch_new(loop, fd, on_watch, stream, &stream->watch);
    if (status == STATUS_OK)
        status = loop_watch_set(stream->watch, LOOP_READ);
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
    stream->closed = true;
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
    watch_again(stream);
}

void stream_shutdown(struct stream *stream) {
    if (stream->closed || stream->shutting)
        return;
    stream->shutting = true;
    if (!stream->blocked)
        loop_kick_add(stream->loop, &stream->flush);
}

int stream_fd(const struct stream *stream) {
    return stream->fd;
}
