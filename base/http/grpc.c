#include "base/http/grpc.h"

#include "base/clock.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

bool grpc_is_type(const char *content_type) {
    static const char base[] = "application/grpc";
    if (!content_type || strncasecmp(content_type, base, sizeof base - 1) != 0)
        return false;
    const char *rest = content_type + sizeof base - 1;
    if (strncasecmp(rest, "+proto", 6) == 0)
        rest += 6;
    return *rest == 0 || *rest == ';' || *rest == ' ' || *rest == '\t';
}

bool grpc_timeout(const char *text, uint64_t *ns) {
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'H', 3600 * NS_PER_S}, {'M', 60 * NS_PER_S}, {'S', NS_PER_S},
                 {'m', NS_PER_MS},       {'u', NS_PER_US},     {'n', 1}};
    uint64_t value = 0;
    size_t n = 0;
    for (; n < 8 && text[n] >= '0' && text[n] <= '9'; n++)
        value = value * 10 + (uint64_t)(text[n] - '0');
    if (n == 0 || text[n] == 0 || text[n + 1] != 0)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].unit != text[n])
            continue;
        *ns = value > UINT64_MAX / units[i].ns ? UINT64_MAX : value * units[i].ns;
        return true;
    }
    return false;
}

void grpc_put_message(char *out, size_t size, const char *text) {
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (; *text && n + 4 <= size; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
            out[n++] = (char)byte;
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[byte >> 4];
        out[n++] = hex[byte & 15];
    }
    out[n] = 0;
}

static enum status grpc_too_large(struct error *error, size_t max) {
    return error_set(error, STATUS_LIMIT, "the message has more than %zu bytes", max);
}

/* Inflates one gzip member, and nothing behind it, in steps: memory follows what comes out, never
 * what a header claims. */
static enum status grpc_inflate_all(struct span packed, size_t max, struct buf *room,
                                    struct error *error) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)packed.bytes, .avail_in = (uInt)packed.n};
    unsigned char piece[16384];
    int result = Z_OK;
    enum status status = STATUS_OK;
    if (inflateInit2(&stream, 15 + 16) != Z_OK) /* 16: gzip and nothing else */
        return error_set(error, STATUS_NOMEM, "no memory to inflate the message");
    buf_clear(room);
    while (result == Z_OK && status == STATUS_OK) {
        stream.next_out = piece;
        stream.avail_out = sizeof piece;
        result = inflate(&stream, Z_NO_FLUSH);
        size_t n = sizeof piece - stream.avail_out;
        if (room->n + n > max)
            status = grpc_too_large(error, max);
        else
            buf_append(room, piece, n);
    }
    bool is_whole = result == Z_STREAM_END && stream.avail_in == 0;
    inflateEnd(&stream);
    TRY(status);
    if (!is_whole)
        return error_set(error, STATUS_CORRUPT, "the compressed message is not gzip");
    return buf_status(room) == STATUS_OK
               ? STATUS_OK
               : error_set(error, STATUS_NOMEM, "no memory for the message");
}

size_t grpc_length(struct span bytes) {
    const unsigned char *at = (const unsigned char *)bytes.bytes;
    return (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | (size_t)at[4];
}

enum status grpc_take(struct span *bytes, const char *encoding, size_t max, struct buf *room,
                      struct span *message, struct error *error) {
    const unsigned char *prefix = (const unsigned char *)bytes->bytes;
    if (bytes->n > 0 && prefix[0] > 1)
        return error_set(error, STATUS_CORRUPT, "a message begins with the flag %u, not 0 or 1",
                         prefix[0]);
    if (bytes->n < GRPC_PREFIX_BYTES)
        return STATUS_BUSY;
    size_t n = grpc_length(*bytes);
    if (n > max)
        return grpc_too_large(error, max);
    if (bytes->n - GRPC_PREFIX_BYTES < n)
        return STATUS_BUSY;
    struct span payload = {bytes->bytes + GRPC_PREFIX_BYTES, n};
    if (prefix[0] == 1) {
        if (!encoding || strcmp(encoding, "identity") == 0)
            return error_set(error, STATUS_CORRUPT,
                             "a message is compressed without grpc-encoding");
        if (strcmp(encoding, "gzip") != 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "grpc-encoding: `%.40s` is not served; " GRPC_ACCEPT_ENCODING " are",
                             encoding);
        TRY(grpc_inflate_all(payload, max, room, error));
        *message = (struct span){room->n > 0 ? room->data : "", room->n};
    } else {
        *message = payload;
    }
    bytes->bytes += GRPC_PREFIX_BYTES + n;
    bytes->n -= GRPC_PREFIX_BYTES + n;
    return STATUS_OK;
}

enum status grpc_take_only(struct span body, const char *encoding, size_t max, struct buf *room,
                           struct span *message, struct error *error) {
    if (body.n == 0)
        return error_set(error, STATUS_INVALID, "the call takes one message; its body has none");
    enum status status = grpc_take(&body, encoding, max, room, message, error);
    if (status == STATUS_BUSY)
        return error_set(error, STATUS_CORRUPT, "the body ends within its message");
    if (status == STATUS_OK && body.n > 0)
        return error_set(error, STATUS_INVALID, "the call takes one message; its body has more");
    return status;
}

size_t grpc_begin(struct buf *out) {
    buf_append(out, "\0\0\0\0\0", GRPC_PREFIX_BYTES);
    return out->n;
}

void grpc_end(struct buf *out, size_t begun) {
    if (out->failed)
        return;
    size_t n = out->n - begun;
    for (size_t i = 0; i < 4; i++)
        out->data[begun - 1 - i] = (char)(n >> (8 * i));
}
