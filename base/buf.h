/* base/buf.h: a growing run of bytes, for replies, prompts and files written by us.
 *
 * Running out of memory or past `limit` sets `failed` and drops what comes after, so that a writer
 * may append many times and ask once at the end (buf_status). One owner thread.
 *
 * From 256 KiB on it is a mapping of its own: it grows by mremap(), with any allocator, because
 * copying a body of many MiB would hold up an event loop, and it is gone when it is freed. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *
        data; /* owned, no other code frees it; NUL-terminated once anything was appended; NULL when empty */
    size_t n; /* bytes, without the NUL */
    size_t size;
    size_t limit; /* 0: none */
    bool failed;
};

void buf_init(struct buf *buf, size_t limit);
void buf_fini(struct buf *buf);

/* The bytes as a block of the heap, for free(); the buf is empty afterwards. NULL: nothing was appended, an append
 * was dropped, or there is no memory. The one way to make somebody else their owner. */
NODISCARD char *buf_take(struct buf *buf);
void buf_clear(struct buf *buf); /* keeps the memory */

void buf_append(struct buf *buf, const void *bytes, size_t n);
void buf_puts(struct buf *buf, const char *text);
void buf_putc(struct buf *buf, char byte);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first n bytes. */
void buf_consume(struct buf *buf, size_t n);
/* Keeps the first n bytes, at most as many as there are. */
void buf_truncate(struct buf *buf, size_t n);

/* STATUS_LIMIT or STATUS_NOMEM if any append was dropped. */
NODISCARD enum status buf_status(const struct buf *buf);
