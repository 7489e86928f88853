/* router/serve/quotas.h: which key's quota a request counts in. Loop's thread. */
#pragma once

#include "base/status.h"
#include "router/api/errors.h"

struct exchange;
struct quota;
struct server;

/* One call more of the request's key, *quota; NULL: there are no keys, or it shows none of them.
 * STATUS_BUSY with an error for the client when the key has as many as it may have. */
NODISCARD enum status quotas_take(const struct server *server, const struct exchange *exchange,
                                  struct quota **quota, struct api_error *error);
