/* tools/lib/http_fetch.h: one request, waited for. */
#pragma once

#include "base/buf.h"
#include "tools/lib/http_client.h"

/* body: JSON text or NULL. Appends the answer's body. STATUS_OK with any HTTP status;
 * STATUS_TIMEOUT after 120 s. */
NODISCARD enum status http_fetch(const struct http_url *url, const char *method, const char *path,
                                 const char *api_key, const char *body, int *http_status,
                                 struct buf *answer, struct error *error);
