/* router/serve/grpc_health.h: those who watch the server's health over gRPC
 * (grpc.health.v1.Health/Watch; grpc/grpc, doc/health-checking.md). Loop's thread. */
#pragma once

#include "base/status.h"

struct health_watches;
struct server;

/* Borrows the server, whose `watches` it becomes. STATUS_NOMEM. */
NODISCARD enum status health_watches_new(struct server *server, struct health_watches **watches);
void health_watches_free(struct health_watches *watches); /* no stream is left; NULL is fine */

/* Tells everybody who watches the state that they do not know yet. Called by itself at most
 * HEALTH_LOOK_MS after a change; to be called where telling must not wait. Where the router drains,
 * the streams end: they would keep it from ending. */
void health_watches_tell(struct health_watches *watches);
#define HEALTH_LOOK_MS 50u
