/* base/http/http2.h: the state of an HTTP/2 connection and of its streams, for the files that work
 * on it: http2_connection.c (session, times, limits), http2_request.c (frames become an exchange),
 * http2_reply.c (an exchange becomes frames).
 *
 * nghttp2 does framing, HPACK, flow control and the checks of RFC 9113; it calls us back while
 * bytes are read and while we ask for bytes to send. Nothing is sent within a callback of either
 * kind, and no stream is freed: a closed one waits in `dead` until the turn's end. */
#pragma once

#include "base/buf.h"
#include "base/http/connection.h"
#include "base/http/exchange.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nghttp2_session;

enum http2_drain {
    HTTP2_SERVES,
    HTTP2_NOTICED, /* "no more, soon": what comes until the client has read this is served */
    HTTP2_LAST     /* the last stream is named: the connection ends with it */
};

struct http2_connection {
    struct connection *connection;   /* borrowed */
    struct connection_host *host;    /* borrowed */
    struct nghttp2_session *session; /* owned */
    struct list streams;             /* open ones, oldest first */
    struct list dead;                /* the turn frees them */
    uint32_t n_streams;
    uint32_t n_refused; /* streams with a write that was busy */
    uint32_t n_forget;  /* streams whose request's memory the turn frees */
    uint32_t n_parked;  /* streams whose requests wait for room */
    struct heads_client heads;
    struct buf input;   /* what came while it rests */
    size_t kept_bytes;  /* of heads whose requests wait or are read or answered */
    size_t out_bytes;   /* of all streams' output that nghttp2 has not taken */
    size_t reply_bytes; /* of that, the whole replies' */
    enum http2_drain drain;
    bool settled;       /* the client's settings came */
    bool failed;        /* nothing goes on: the turn closes */
    bool doomed;        /* our last GOAWAY is queued: what still comes is not looked at */
    double credit;      /* frames without use that the client may still send */
    uint64_t credit_ns; /* when it was last counted up */
    uint64_t since_ns;  /* the drain, or else the idleness began; or the connection */
    uint64_t head_ns;   /* when the head that is being read began; 0: none */
    uint64_t heard_ns;  /* when bytes came last */
    uint64_t pinged_ns; /* when we asked whether the client is there; 0: no question is out */
};

enum http2_state {
    HTTP2_HEAD,   /* its head is being read */
    HTTP2_PARKED, /* its head, which is all of it, waits until the connection has room for a reply */
    HTTP2_BODY,   /* its body is */
    HTTP2_OUT,    /* the handler has it, and all of its body or each piece as it comes */
    HTTP2_ENDED,  /* its reply is complete, or it was refused: what still comes is dropped */
};

struct http2_stream {
    struct list link; /* in streams or dead */
    struct http2_connection *http2;
    struct exchange exchange;
    int32_t id;
    enum http2_state state;

    /* The request. */
    struct buf text;       /* names and values of its fields, each with a NUL */
    struct header *fields; /* owned (n_fields): into text, once the head is complete */
    uint32_t n_fields;
    size_t n_kept;                        /* bytes of text that the connection's kept_bytes has */
    uint32_t method_at, path_at, host_at; /* in text, where the value begins; 0: not seen */
    size_t head_bytes;                    /* as RFC 9113, 6.5.2 counts them */
    unsigned bad_status;                  /* what the head is refused with, and why; 0: nothing */
    const char *bad_reason;
    struct buf body;
    uint64_t body_seen;
    uint64_t since_ns; /* head's end, or the body's last byte */
    uint64_t began_ns; /* head's end */
    bool head_only;    /* HEAD: no body goes out */
    bool is_grpc; /* by its content type, which may stand behind what its head is refused for */
    bool whole;   /* the client has ended its side */

    /* The reply. */
    struct buf out;
    size_t sent;         /* bytes of out that are gone already */
    struct buf trailers; /* name, NUL, value, NUL, ... */
    unsigned n_trailers;
    uint64_t progress_ns; /* when bytes of out were last taken, or the first of it came */
    bool answered;        /* its head is queued */
    bool complete;        /* nothing will be added to out */
    bool is_reply;        /* out is a whole reply's */
    size_t n_shared;      /* what reply_bytes has of it */
    bool waits;           /* nghttp2 found nothing in out: it has to be told of more */
    bool refused;         /* a write was: its exchange is told when there is room */
    bool forget;          /* the turn frees the request's memory: its reply streams already */
    char request_id[EXCHANGE_ID_MAX + 1];
};

static inline size_t http2_stream_pending(const struct http2_stream *stream) {
    return stream->out.n - stream->sent;
}

/* Output of the stream came (`more`), or was taken or dropped: the connection's sums follow. */
void http2_count_output(struct http2_stream *stream, size_t more, size_t less);
