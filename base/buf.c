#include "base/buf.h"

#include "base/assert.h"
#include "base/dump.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAPPED_BYTES ((size_t)256 * 1024) /* sizes from here on are mappings */

void buf_init(struct buf *buf, size_t limit) {
    *buf = (struct buf){.limit = limit};
}

void buf_fini(struct buf *buf) {
    if (!buf)
        return;
    if (buf->size >= MAPPED_BYTES)
        munmap(buf->data, buf->size);
    else
        free(buf->data);
    *buf = (struct buf){0};
}

char *buf_take(struct buf *buf) {
    char *data = buf->failed ? NULL : buf->data;
    if (data && buf->size >= MAPPED_BYTES) {
        data = malloc(buf->n + 1);
        if (data)
            memcpy(data, buf->data, buf->n + 1);
    } else if (data) {
        buf->data = NULL;
        buf->size = 0;
    }
    size_t limit = buf->limit;
    buf_fini(buf);
    buf_init(buf, limit);
    return data;
}

void buf_clear(struct buf *buf) {
    buf->n = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = 0;
}

/* The bytes of a buf in `size` bytes, a power of two; NULL: no memory, and nothing changed. */
static char *buf_grow(const struct buf *buf, size_t size) {
    if (size < MAPPED_BYTES)
        return realloc(buf->data, size);
    bool is_mapped = buf->size >= MAPPED_BYTES;
    char *data = is_mapped
                     ? mremap(buf->data, buf->size, size, MREMAP_MAYMOVE)
                     : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return NULL;
    dump_leave_out(data, size); /* bodies, texts, answers */
    if (!is_mapped && buf->data) {
        memcpy(data, buf->data, buf->n);
        free(buf->data);
    }
    return data;
}

/* Makes room for n more bytes and the NUL. */
static bool buf_reserve(struct buf *buf, size_t n) {
    if (buf->failed)
        return false;
    if (n > (size_t)1 << 40 || (buf->limit && n > buf->limit - buf->n)) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->n + n + 1;
    if (need <= buf->size)
        return true;
    size_t size = buf->size ? buf->size : 64;
    while (size < need)
        size *= 2;
    char *data = buf_grow(buf, size);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->size = size;
    return true;
}

void buf_append(struct buf *buf, const void *bytes, size_t n) {
    if (!buf_reserve(buf, n))
        return;
    if (n > 0)
        memcpy(buf->data + buf->n, bytes, n);
    buf->n += n;
    buf->data[buf->n] = 0;
}

void buf_puts(struct buf *buf, const char *text) {
    buf_append(buf, text, strlen(text));
}

void buf_putc(struct buf *buf, char byte) {
    buf_append(buf, &byte, 1);
}

void buf_printf(struct buf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    /* Into the room that is there; once more only where it is too small. */
    size_t room = buf->size - buf->n;
    char *at = room > 0 ? buf->data + buf->n : NULL;
    int n = vsnprintf(at, room, format, args);
    va_end(args);
    ASSERT(n >= 0);
    if (buf_reserve(buf, (size_t)n)) {
        if ((size_t)n >= room)
            vsnprintf(buf->data + buf->n, (size_t)n + 1, format, again);
        buf->n += (size_t)n;
    } else if (at) {
        *at = 0;
    }
    va_end(again);
}

void buf_consume(struct buf *buf, size_t n) {
    ASSERT(n <= buf->n);
    if (n == 0)
        return;
    memmove(buf->data, buf->data + n, buf->n - n + 1);
    buf->n -= n;
}

void buf_truncate(struct buf *buf, size_t n) {
    ASSERT(n <= buf->n);
    buf->n = n;
    if (buf->data)
        buf->data[n] = '\0';
}

enum status buf_status(const struct buf *buf) {
    if (!buf->failed)
        return STATUS_OK;
    return buf->limit ? STATUS_LIMIT : STATUS_NOMEM;
}
