/* base/net/stream.h: a connected socket on a loop: bytes in by callback, bytes out by one send a
 * turn.
 *
 * What is written during a turn is sent together before the loop sleeps. Nothing is freed inside a
 * callback: stream_close() marks, and the reaper closes and frees before the next sleep; after it
 * no callback comes. Idle streams hold no buffers. Loop's thread only. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct loop;
struct stream;

struct stream_events {
    /* n > 0 bytes came; they are gone after the call. */
    void (*data)(void *user, const char *bytes, size_t n);
    /* All output was taken by the kernel, at once or after a wait. May be NULL. */
    void (*drained)(void *user);
    /* No more bytes will come (STATUS_CLOSED: the peer ended its side) or go (STATUS_IO: reset; under
     * TLS also a broken record, and an end that the peer did not announce: somebody may have cut
     * the bytes). At most once. The owner calls stream_close(), now or later. */
    void (*gone)(void *user, enum status status);
    /* The kernel took some of the output: stream_pending() is less. Before `drained`. May be NULL. */
    void (*sent)(void *user);
};

/* Takes over the connected, non-blocking socket fd and begins to read; on failure the fd stays the
 * caller's. `events` is borrowed for life. */
NODISCARD enum status stream_new(struct loop *loop, int fd, const struct stream_events *events,
                                 void *user, struct stream **stream);

/* Drops what was not sent. NULL is fine. */
void stream_close(struct stream *stream);

/* Queues a copy. STATUS_NOMEM: nothing was queued. After `gone` it is dropped with STATUS_CLOSED.
 * The bound on what may be queued is the owner's: see stream_pending(). */
NODISCARD enum status stream_write(struct stream *stream, const void *bytes, size_t n);

/* The same, but takes the bytes over where they are many, so that nothing is copied; *bytes is
 * empty then. It may still have to be ended by its owner. */
NODISCARD enum status stream_write_buf(struct stream *stream, struct buf *bytes);

/* Bytes queued and not yet taken by the kernel. */
size_t stream_pending(const struct stream *stream);

/* When the kernel last took bytes, or when the oldest queued byte came if that was later; only
 * while stream_pending() > 0. CLOCK_MONOTONIC. */
uint64_t stream_progress_ns(const struct stream *stream);

/* While paused no data comes, but a peer that closes or resets is still noticed. */
void stream_pause(struct stream *stream, bool paused);

/* Reads what has come, up to one read, now and not when the loop finds it: `data` or `gone` may be
 * called before this returns. */
void stream_read_now(struct stream *stream);

/* Ends our side once all is sent; the peer's side stays readable. */
void stream_shutdown(struct stream *stream);

int stream_fd(const struct stream *stream); /* borrowed: for getsockname() and the like */

/* What both ends agreed to speak ("h2", "http/1.1"); under TLS NULL until the handshake has ended,
 * on a plain socket always. Constant text. */
const char *stream_protocol(const struct stream *stream);

/* After `gone` with STATUS_IO: why, in a few words; "" where nothing more is known. */
const char *stream_problem(const struct stream *stream);
