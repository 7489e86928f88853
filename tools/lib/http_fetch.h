/* tools/lib/http_fetch.h: one request, waited for. */
#pragma once

#include "base/buf.h"
#include "tools/lib/http_client.h"

struct http_ask {
    const char *method;  /* "GET" or "POST" */
    const char *path;    /* of a route: "/v1/models" */
    const char *api_key; /* or NULL */
    const char *body;    /* JSON text, or NULL */
    double timeout_s;    /* 0: 120 s, which is also the most: a long prompt on a slow machine */
};

/* Appends the answer's body. STATUS_OK with any HTTP status; STATUS_TIMEOUT. */
NODISCARD enum status http_fetch(const struct http_url *url, const struct http_ask *ask,
                                 int *http_status, struct buf *answer, struct error *error);
