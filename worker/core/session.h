/* worker/core/session.h: the worker's side of its routers' sessions.
 *
 * A session begins with HELLO and ends with the link, a newer HELLO of the same router, or the
 * router's silence; its requests end with it, and no others. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

void session_hello(struct engine *engine, uint32_t link, const struct message *message);

/* Any other message on a router's link. */
void session_message(struct engine *engine, struct peer_link *peer_link,
                     const struct message *message);

/* The session is over: its requests are dropped, its link is not known any more. */
void session_drop(struct engine *engine, struct peer_link *peer_link);
