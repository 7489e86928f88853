/* router/serve/picture.h: the cluster as this router sees it, as JSON.
 *
 * One object for all who ask: /admin/status answers with it, /admin/events tells it each second.
 * docs/http-api.md names its members. Loop's thread only. */
#pragma once

struct buf;
struct server;

/* Appends {"time_ms","routers":[...],"workers":[...]}, compact: it holds no line break. time_ms is
 * Unix time, so that who reads two of them can tell rates from counts. */
void picture_put(const struct server *server, struct buf *out);
