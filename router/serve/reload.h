/* router/serve/reload.h: what is read again while streams go on: on SIGHUP, and certificates also where
 * their files are others now. Loop's thread only. */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct error;
struct reload;
struct server;

/* Says that `what` was read again, or why not. */
void reload_tell(const char *what, enum status status, const struct error *error);

/* Reads certificates again, for the connections to come, and the files of keys, for the requests to
 * come, and says so; where a file does not serve, a warning tells why, and what was in force stays. */
void reload_all(struct server *server);

/* Looks at the files of certificates every every_ns, and reads them again as reload_all() does where one
 * is another now; a pair that does not fit is told once. The server has TLS. STATUS_NOMEM. */
NODISCARD enum status reload_new(struct server *server, uint64_t every_ns, struct reload **reload);
void reload_free(struct reload *reload); /* NULL is fine */
