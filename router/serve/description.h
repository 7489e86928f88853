/* router/serve/description.h: GET /openapi.json: the API as a document (router/api/openapi.h), made once, at start.
 *
 * Loop's thread only. */
#pragma once

#include "base/status.h"

struct dialect;
struct server;
struct description;

/* `nth` has what is served; the server's guard knows who may ask. STATUS_NOMEM. */
NODISCARD enum status description_new(const struct server *server,
                                      const struct dialect *(*nth)(unsigned n),
                                      struct description **description);
void description_free(struct description *description); /* NULL is fine */
