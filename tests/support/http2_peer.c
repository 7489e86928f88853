#include "tests/support/http2_peer.h"

#include "base/assert.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void peer_init(struct peer *peer) {
    nghttp2_hd_inflater *inflater;
    *peer = (struct peer){.goaway_last = UINT32_MAX};
    ASSERT(nghttp2_hd_inflate_new(&inflater) == 0);
    peer->inflater = inflater;
}

void peer_fini(struct peer *peer) {
    for (unsigned i = 0; i < PEER_STREAMS_MAX; i++) {
        buf_fini(&peer->streams[i].head);
        buf_fini(&peer->streams[i].body);
    }
    buf_fini(&peer->in);
    nghttp2_hd_inflate_del(peer->inflater);
    *peer = (struct peer){0};
}

struct peer_stream *peer_stream(struct peer *peer, uint32_t id) {
    ASSERT(id % 2 == 1 && id / 2 < PEER_STREAMS_MAX);
    return &peer->streams[id / 2];
}

static uint32_t u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void read_head(struct peer *peer, struct peer_stream *stream, const uint8_t *bytes,
                      size_t n) {
    stream->n_heads++;
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(peer->inflater, &nv, &flags, bytes, n, 1);
        ASSERT(used >= 0);
        bytes += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            buf_printf(&stream->head, "%.*s: %.*s\n", (int)nv.namelen, (const char *)nv.name,
                       (int)nv.valuelen, (const char *)nv.value);
            if (nv.namelen == 7 && memcmp(nv.name, ":status", 7) == 0)
                stream->status = (unsigned)strtoul((const char *)nv.value, NULL, 10);
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(peer->inflater);
}

static void read_settings(struct peer *peer, unsigned flags, const uint8_t *payload, size_t n) {
    if (flags & PEER_ACK) {
        peer->n_settings_acks++;
        return;
    }
    peer->n_settings++;
    for (size_t at = 0; at + 6 <= n; at += 6) {
        unsigned id = (unsigned)(payload[at] << 8 | payload[at + 1]);
        if (id < 8)
            peer->settings[id] = u32(payload + at + 2);
    }
}

static void read_frame(struct peer *peer, unsigned type, unsigned flags, uint32_t id,
                       const uint8_t *payload, size_t n) {
    struct peer_stream *stream = id ? peer_stream(peer, id) : NULL;
    switch (type) {
    case PEER_DATA:
        ASSERT(stream && !stream->ended && stream->n_heads > 0);
        buf_append(&stream->body, payload, n);
        stream->n_data++;
        stream->ended = flags & PEER_END_STREAM;
        break;
    case PEER_HEADERS:
        ASSERT(stream && !stream->ended && (flags & PEER_END_HEADERS));
        read_head(peer, stream, payload, n);
        stream->ended = flags & PEER_END_STREAM;
        break;
    case PEER_RST_STREAM:
        ASSERT(stream && n == 4);
        stream->reset = true;
        stream->reset_code = u32(payload);
        break;
    case PEER_SETTINGS:
        read_settings(peer, flags, payload, n);
        break;
    case PEER_PING:
        peer->n_pings += !(flags & PEER_ACK);
        peer->n_ping_acks += (flags & PEER_ACK) != 0;
        break;
    case PEER_GOAWAY:
        peer->n_goaways++;
        ASSERT(u32(payload) <= peer->goaway_last);
        peer->goaway_last = u32(payload);
        peer->goaway_code = u32(payload + 4);
        break;
    case PEER_WINDOW_UPDATE:
        peer->n_window_updates++;
        break;
    default:
        ASSERT(false); /* a server of ours sends no other frame */
    }
}

void peer_read(struct peer *peer, const void *bytes, size_t n) {
    buf_append(&peer->in, bytes, n);
    size_t at = 0;
    while (peer->in.n - at >= 9) {
        const uint8_t *head = (const uint8_t *)peer->in.data + at;
        size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        ASSERT(length <= 16384);
        if (peer->in.n - at < 9 + length)
            break;
        read_frame(peer, head[3], head[4], u32(head + 5) & 0x7fffffffu, head + 9, length);
        at += 9 + length;
    }
    buf_consume(&peer->in, at);
}

void peer_frame(struct buf *out, unsigned type, unsigned flags, uint32_t id, const void *payload,
                size_t n) {
    const uint8_t head[9] = {(uint8_t)(n >> 16),  (uint8_t)(n >> 8),  (uint8_t)n,
                             (uint8_t)type,       (uint8_t)flags,     (uint8_t)(id >> 24),
                             (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    buf_append(out, head, sizeof head);
    buf_append(out, payload, n);
}

void peer_frame_u32(struct buf *out, unsigned type, unsigned flags, uint32_t id, uint32_t value) {
    const uint8_t payload[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
                                (uint8_t)(value >> 8), (uint8_t)value};
    peer_frame(out, type, flags, id, payload, 4);
}

void peer_setting(struct buf *out, unsigned setting, uint32_t value) {
    const uint8_t payload[6] = {(uint8_t)(setting >> 8), (uint8_t)setting,
                                (uint8_t)(value >> 24),  (uint8_t)(value >> 16),
                                (uint8_t)(value >> 8),   (uint8_t)value};
    peer_frame(out, PEER_SETTINGS, 0, 0, payload, 6);
}

/* RFC 7541, 5.1 with a prefix of seven bits; no Huffman code. */
static void put_string(struct buf *out, const char *text, size_t n) {
    size_t left = n;
    buf_putc(out, (char)(left < 127 ? left : 127));
    if (left >= 127) {
        for (left -= 127; left >= 128; left >>= 7)
            buf_putc(out, (char)(0x80 | (left & 0x7f)));
        buf_putc(out, (char)left);
    }
    buf_append(out, text, n);
}

void peer_field(struct buf *head, const char *name, const char *value) {
    buf_putc(head, 0);
    put_string(head, name, strlen(name));
    put_string(head, value, strlen(value));
}

void peer_head(struct buf *head, const char *method, const char *path, const char *lines) {
    peer_field(head, ":method", method);
    peer_field(head, ":scheme", "http");
    peer_field(head, ":path", path);
    peer_field(head, ":authority", "h");
    while (lines && *lines) {
        char name[256], value[1024];
        int used = 0;
        ASSERT(sscanf(lines, "%255[^:]: %1023[^\n]\n%n", name, value, &used) == 2);
        peer_field(head, name, value);
        lines += used;
    }
}

void peer_begin(struct buf *out) {
    buf_puts(out, PEER_PREFACE);
    peer_frame(out, PEER_SETTINGS, 0, 0, "", 0);
}

void peer_request(struct buf *out, uint32_t id, const char *method, const char *path,
                  const char *lines, bool end) {
    struct buf head = {0};
    peer_head(&head, method, path, lines);
    peer_frame(out, PEER_HEADERS, PEER_END_HEADERS | (end ? PEER_END_STREAM : 0), id, head.data,
               head.n);
    buf_fini(&head);
}
