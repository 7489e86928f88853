/* router/serve/reload.h: what is read again on SIGHUP, while streams go on. Loop's thread only. */
#pragma once

#include "base/status.h"

struct error;
struct server;

/* Says that `what` was read again, or why not. */
void reload_tell(const char *what, enum status status, const struct error *error);

/* Reads certificates again, for the connections to come, and the files of keys, for the requests to
 * come, and says so; where a file does not serve, a warning tells why, and what was in force stays. */
void reload_all(struct server *server);
