/* base/http/http1.h: a strict, incremental HTTP/1.1 request parser (RFC 9112). Pure: bytes in,
 * one request out; no I/O, no clock.
 *
 * Where the RFC lets a server be lenient (bare LF, obs-fold, blanks before a colon, differing
 * Content-Lengths) it refuses, because what two parsers read differently smuggles requests. Idle
 * parsers hold no memory. One owner thread. */
#pragma once

#include "base/buf.h"
#include "base/http/header.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Above a limit: 431 for the head, 413 for the body. */
struct http1_limits {
    size_t head_bytes;            /* request line and fields; also all trailers of a chunked body */
    size_t line_bytes;            /* one line of the head */
    unsigned n_fields;            /* also of trailers */
    size_t body_bytes;            /* after chunks are joined; http1_limit_body() lowers it */
    size_t chunk_extension_bytes; /* in one chunk; sixteen times that in a body */
};

#define HTTP1_LIMITS_DEFAULT                                                                       \
    {                                                                                              \
        .head_bytes = 32 * 1024, .line_bytes = 16 * 1024, .n_fields = 100,                         \
        .body_bytes = 32u << 20, .chunk_extension_bytes = 256                                      \
    }

enum http1_event {
    HTTP1_MORE,     /* all bytes used, the request is not complete */
    HTTP1_HEAD,     /* the head is complete, once for each request: decide about its body, then feed
                     * again, even where there are no bytes left */
    HTTP1_CONTINUE, /* the client waits for "100 Continue" before it sends the body; feed again */
    HTTP1_REQUEST,  /* complete; call http1_reset() before the next */
    HTTP1_PREFACE,  /* "PRI * HTTP/2.0" and an empty line: HTTP/2 begins */
    HTTP1_BAD       /* refused: answer `status`, close; stays so until http1_reset() */
};

/* All strings and the body belong to the parser and last until http1_reset(). */
struct http1 {
    const struct http1_limits *limits; /* borrowed */
    const char *method;                /* a token, case-sensitive */
    const char *path;  /* percent-decoded once: begins with '/', valid UTF-8, no control bytes, no
                        * "." or ".." segment; or "*" */
    const char *query; /* behind the '?', as sent; "" when there is none */
    bool path_as_sent; /* see struct target */
    struct header *fields; /* owned (n_fields) */
    unsigned n_fields;
    struct buf body; /* transfer coding removed, trailers dropped */
    unsigned minor;  /* HTTP/1.minor: 0 or 1 */
    bool keep_alive; /* the client would send more: only ever with HTTP/1.1 */

    unsigned status;    /* HTTP1_BAD: what to answer */
    const char *reason; /* a constant sentence for the client, without double quotes */

    int state;
    bool head_told; /* HTTP1_HEAD was answered */
    bool head_only; /* nothing of the body has been seen yet */
    bool expects_continue;
    bool chunked;
    bool discards; /* the body's bytes are counted and dropped */
    size_t body_max;
    size_t body_seen;   /* bytes of the body that came so far, kept or dropped */
    bool skipped_blank; /* one empty line before a request is forgiven (RFC 9112, 2.2) */
    uint64_t left;      /* bytes of the body or chunk that are still to come */
    size_t line_start;  /* of the line of the head that is being read */
    size_t extension_bytes;
    size_t trailer_bytes;
    unsigned n_trailers;
    struct buf head; /* the raw head, cut into strings in place */
    struct buf line; /* a chunk's or trailer's line */
};

void http1_init(struct http1 *http1, const struct http1_limits *limits);
void http1_reset(struct http1 *http1); /* forgets the request and frees its memory */
void http1_fini(struct http1 *http1);

/* Reads up to n bytes and says what came of it; *used bytes were taken. */
enum http1_event http1_feed(struct http1 *http1, const char *bytes, size_t n, size_t *used);

/* Has a byte of a request been seen since the reset? Is its head complete? And all of it? */
bool http1_started(const struct http1 *http1);
bool http1_has_head(const struct http1 *http1);
bool http1_is_done(const struct http1 *http1);

/* After HTTP1_HEAD: takes a body of at most n bytes, if that is less than the limit. False: the
 * head announces more. One that is sent in chunks is refused where it gets longer. */
NODISCARD bool http1_limit_body(struct http1 *http1, size_t n);

/* After HTTP1_HEAD, for a request that was answered already: reads the rest of its body, up to n
 * bytes, and keeps none of it. False: it is longer, or the client may not send it at all, because
 * it waits for "100 Continue"; then the connection cannot go on. */
NODISCARD bool http1_discard_body(struct http1 *http1, size_t n);
