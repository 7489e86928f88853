/* router/api/dialect.h: the seam between HTTP and serving: a dialect turns a call into an ask, and
 * what was generated into its reply. A new dialect is a file and a row of the table in
 * router/serve/api.c. */
#pragma once

#include "base/buf.h"
#include "base/status.h"
#include "router/api/ask.h"
#include "router/api/errors.h"
#include "router/api/reply.h"

#include <jansson.h>
#include <stdbool.h>

struct exchange;
struct server;

/* How a generating dialect writes. All append to out; nothing is sent here. */
struct dialect_writer {
    const char *id_prefix; /* "chatcmpl-" */
    bool splits_end;       /* text and finish reason never share a chunk */
    void (*chunk)(const struct reply *reply, const struct reply_choice *choice, struct buf *out);
    void (*usage)(const struct reply *reply, struct buf *out);
    void (*whole)(const struct reply *reply, const struct reply_choice *choices, uint32_t n,
                  struct buf *out);
};

struct dialect {
    const char *name;   /* the label in logs and metrics */
    const char *method; /* "GET" (HEAD too), "POST" */
    const char *path;   /* exact; one that ends with a slash takes one more segment */
    bool is_open;       /* needs no key */
    bool is_admin;      /* needs an admin's key, or a caller on this host (router/serve/guard.h) */
    size_t body_max;    /* bytes; 0: what the listener takes */

    /* Answers at once, on the loop's thread. `rest` is the path's last segment, or "". */
    void (*answer)(struct server *server, struct exchange *exchange, const char *rest);

    /* Or: reads a JSON body. Pure, any thread. */
    enum status (*parse)(const json_t *root, const struct ask_limits *limits, struct ask *ask,
                         struct api_error *error);
    /* With the prompts as ids: the whole reply, without generating anything; or NULL. */
    void (*reply)(const struct reply *reply, struct buf *out);
    /* Or: generates. */
    const struct dialect_writer *writer;
};

extern const struct dialect dialect_chat, dialect_completions, dialect_tokenize, dialect_detokenize;
