/* router/serve/events.h: GET /admin/events, a stream of pictures of the cluster for who watches it.
 *
 * Each event is a whole picture (picture.h): a watcher that reads slowly is told later ones and
 * misses those between, so that what waits for it is never more than one. Loop's thread only. */
#pragma once

#include "base/status.h"

struct events;
struct server;

#define EVENTS_WATCHERS_MAX 64u  /* at once; more are refused with STATUS_BUSY (429) */
#define EVENTS_EVERY_MS     1000 /* between two pictures of a cluster in which no state changes */
#define EVENTS_LOOK_MS      100  /* how often states are looked at while somebody watches */

/* `server` is borrowed. STATUS_NOMEM. */
NODISCARD enum status events_new(struct server *server, struct events **events);
void events_free(
    struct events *events); /* after the listener, so that no client watches; NULL is fine */

/* The router drains: each watcher is told a last picture, and its stream ends. */
void events_end(struct events *events);
