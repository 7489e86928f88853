/* router/serve/reload.h: what is read again on SIGHUP, while streams go on. Loop's thread only. */
#pragma once

struct server;

/* Reads certificates again, for the connections to come, and the files of keys, for the requests to
 * come, and says so; where a file does not serve, a warning tells why, and what was in force stays. */
void reload_all(struct server *server);
