/* tools/lib/http_fetch.h: one request, waited for. */
#pragma once

#include "base/buf.h"
#include "base/client/http_client.h"

#include <jansson.h>

/* Appends the answer's body. timeout_s: 0 is 120 s, which is also the most: a long prompt on a slow
 * machine. STATUS_OK with any HTTP status; STATUS_TIMEOUT. */
NODISCARD enum status http_fetch(const struct http_url *url, const struct http_ask *ask,
                                 double timeout_s, int *http_status, struct buf *answer,
                                 struct error *error);

/* The same for an answer of JSON, at most 16 MiB: *root is owned by the caller, and NULL where the
 * answer is none. */
NODISCARD enum status http_fetch_json(const struct http_url *url, const struct http_ask *ask,
                                      double timeout_s, int *http_status, json_t **root,
                                      struct error *error);
