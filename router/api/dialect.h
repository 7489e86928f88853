/* router/api/dialect.h: the seam between HTTP and serving: a dialect turns a call into an ask, and
 * what was generated into its reply; or it answers at once. A new dialect is a file that defines
 * dialect_NAME and the row NAME of the table in router/serve/api.c; it brings its form (content
 * types, errors, how a stream begins and ends) or shares the one of its family. */
#pragma once

#include "base/buf.h"
#include "base/http/header.h"
#include "base/span.h"
#include "base/status.h"
#include "router/api/ask.h"
#include "router/api/errors.h"
#include "router/api/reply.h"

#include <stdbool.h>

struct dialect_about;
struct endpoint_request;
struct exchange;
struct server;

#define DIALECT_HEADERS_MAX 4

/* A failure as a whole reply. */
struct dialect_refusal {
    unsigned http; /* the status line */
    struct header
        headers[DIALECT_HEADERS_MAX]; /* (n_headers) their texts are constants or in `text` */
    unsigned n_headers;
    char text[1024];
    struct buf *body; /* borrowed: appended to */
};

/* How a family of dialects is told apart and framed. */
struct dialect_form {
    const char *content_type;            /* of whole replies and of errors */
    const char *stream_type;             /* of streams */
    const struct header *stream_headers; /* (n_stream_headers) of a stream's head */
    unsigned n_stream_headers;
    const char *error_name; /* of its errors in /openapi.json, */
    const char *error;      /* and SCHEMA() of them (about.h); both NULL: it is not told there */
    bool needs_http2;       /* what its trailers say, HTTP/1.1 cannot */
    const struct header *trailers; /* (n_trailers) behind every good reply; a failed stream has the
                                      headers of its refusal there */
    unsigned n_trailers;

    /* Can a body of this type (NULL: the request names none) be one of ours? Strictly: only what no
     * web page can make a browser send unasked. */
    bool (*takes)(const char *content_type, bool is_strict);
    void (*refuse)(const struct api_error *error, struct dialect_refusal *refusal);
    /* The failure of a stream whose head is out, with what ends the stream; NULL: trailers say all, or the writer's failed(). */
    void (*error_event)(const struct api_error *error, struct buf *out);
    /* What keeps proxies from closing a silent stream; NULL: the transport has its own. */
    void (*ping)(struct buf *out);
};

/* How a generating dialect writes. All append to out; nothing is sent here. */
struct dialect_writer {
    const char *id_prefix; /* "chatcmpl-" */
    bool splits_end;       /* text and finish reason never share a chunk */
    bool splits_thoughts;  /* what the model thinks has a place of its own */
    bool shows_ids;        /* every token is in a chunk at once, whether or not it has text */
    size_t state_size;     /* of reply->state: zeroed bytes of the dialect's own for each call */
    /* In front of a stream's first chunk; NULL: nothing. */
    void (*begin)(const struct reply *reply, struct buf *out);
    void (*chunk)(const struct reply *reply, const struct reply_choice *choice, struct buf *out);
    /* Behind a stream's last chunk: usage where it belongs there, and the end; NULL: nothing. */
    void (*end)(const struct reply *reply, struct buf *out);
    /* The failure of a stream whose head is out, where it is told by what came before; NULL: the form's error_event(). */
    void (*failed)(const struct reply *reply, const struct api_error *error, struct buf *out);
    void (*whole)(const struct reply *reply, const struct reply_choice *choices, uint32_t n,
                  struct buf *out);
    /* Frees what reply->state owns, however the call ended; NULL: nothing. */
    void (*drop)(void *state);
};

struct dialect {
    const char *name;   /* the label in logs and metrics */
    const char *method; /* "GET" (HEAD too), "POST" */
    const char *path;   /* exact; one that ends with a slash takes more segments */
    const struct dialect_form *form;
    const struct dialect_about
        *about;      /* what /openapi.json says of it (about.h); NULL: it is not told there */
    bool is_open;    /* needs no key */
    bool is_admin;   /* needs an admin's key, or a caller on this host (router/serve/guard.h) */
    bool is_probe;   /* is answered when all places of requests are taken, too */
    size_t body_max; /* bytes; 0: what the listener takes */

    /* Answers at once, on the loop's thread, by what router/serve/endpoint.h has. */
    void (*answer)(struct server *server, const struct endpoint_request *request);
    /* Or NULL: answer() comes before the body, which this takes as it comes, so that client and server
     * may talk in turns; not called once the reply is complete. */
    void (*piece)(struct exchange *exchange, const char *bytes, size_t n, bool end);

    /* Or: reads the request's headers into an ask with its defaults, on the loop's thread; NULL:
     * nothing does. The exchange is complete. */
    enum status (*headers)(const struct exchange *exchange, struct ask *ask,
                           struct api_error *error);
    /* And its body (borrowed until it returns). Pure, any thread. STATUS_BUSY: no memory for it now;
     * the ask is as it was. */
    enum status (*parse)(const struct span *body, const struct ask_limits *limits, struct ask *ask,
                         struct api_error *error);
    /* With the prompts as ids: the whole reply, without generating anything; or NULL. */
    void (*reply)(const struct reply *reply, struct buf *out);
    /* Or: generates. */
    const struct dialect_writer *writer;
};

/* A row for what is answered at once; more fields may follow. */
#define DIALECT_ANSWER(label, verb, at, its_form, does, ...)                                       \
    {                                                                                              \
        .name = (label), .method = (verb), .path = (at), .form = &(its_form), .answer = (does),    \
        __VA_ARGS__                                                                                \
    }

/* A row for what `reads` makes an ask of; the functions that write the reply follow. */
#define DIALECT_ASK(label, at, its_form, reads, ...)                                               \
    {                                                                                              \
        .name = (label), .method = "POST", .path = (at), .form = &(its_form), .parse = (reads),    \
        __VA_ARGS__                                                                                \
    }

extern const struct dialect dialect_chat, dialect_completions, dialect_tokenize, dialect_detokenize;
extern const struct dialect dialect_messages, dialect_count_tokens, dialect_responses;
