/* tools/lib/sse_client.h: takes a stream of server-sent events apart (the `data:` field alone, as
 * OpenAI-style servers use it). Tolerates CRLF, comments and any cut between reads. */
#pragma once

#include "base/buf.h"

struct sse_client {
    struct buf line; /* that a read cut */
    /* `data`: until it returns; no NUL stands behind it. */
    void (*on_event)(void *user, const char *data, size_t n);
    void *user;
};

void sse_client_init(struct sse_client *sse,
                     void (*on_event)(void *user, const char *data, size_t n), void *user);
void sse_client_fini(struct sse_client *sse);
void sse_client_reset(struct sse_client *sse);
void sse_client_feed(struct sse_client *sse, const char *bytes, size_t n);
