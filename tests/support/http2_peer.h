/* tests/support/http2_peer.h: the client's half of HTTP/2 for tests: frames are written byte by
 * byte here, right ones and wrong ones, and what the server sends is taken apart. Only HPACK's
 * decoder is nghttp2's. Heads are written as literals without an index. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_PREFACE     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PEER_STREAMS_MAX 256 /* odd ids below 512 */

enum {
    PEER_DATA,
    PEER_HEADERS,
    PEER_PRIORITY,
    PEER_RST_STREAM,
    PEER_SETTINGS,
    PEER_PUSH_PROMISE,
    PEER_PING,
    PEER_GOAWAY,
    PEER_WINDOW_UPDATE,
    PEER_CONTINUATION
};
enum { PEER_END_STREAM = 1, PEER_ACK = 1, PEER_END_HEADERS = 4 };

/* What came on one stream. */
struct peer_stream {
    unsigned status;
    unsigned n_heads; /* HEADERS frames: trailers are the second */
    struct buf head;  /* "name: value\n" each, trailers behind */
    struct buf body;
    unsigned n_data; /* DATA frames */
    bool ended;      /* END_STREAM came */
    bool reset;
    uint32_t reset_code;
};

struct peer {
    struct buf in; /* not yet taken apart */
    struct peer_stream streams[PEER_STREAMS_MAX];
    void *inflater;
    unsigned n_settings, n_settings_acks, n_pings, n_ping_acks, n_goaways, n_window_updates;
    uint32_t settings[8]; /* by id; of the server's first frame */
    uint32_t goaway_last, goaway_code;
};

void peer_init(struct peer *peer);
void peer_fini(struct peer *peer);

/* Takes apart what came; a wrong frame of the server's is a failed assertion. */
void peer_read(struct peer *peer, const void *bytes, size_t n);
struct peer_stream *peer_stream(struct peer *peer, uint32_t id);

void peer_frame(struct buf *out, unsigned type, unsigned flags, uint32_t id, const void *payload,
                size_t n);
void peer_frame_u32(struct buf *out, unsigned type, unsigned flags, uint32_t id, uint32_t value);
void peer_setting(struct buf *out, unsigned setting, uint32_t value); /* a frame of one */

/* One field of a head, as HPACK has it. */
void peer_field(struct buf *head, const char *name, const char *value);
/* The pseudo fields and then "name: value\n" lines. */
void peer_head(struct buf *head, const char *method, const char *path, const char *lines);
/* The preface and empty settings. */
void peer_begin(struct buf *out);
/* HEADERS with END_HEADERS of such a head. */
void peer_request(struct buf *out, uint32_t id, const char *method, const char *path,
                  const char *lines, bool end);
