/* worker/core/session.h: the worker's side of its routers' sessions.
 *
 * A session begins with HELLO and ends with the link, a newer HELLO of the same router, or the
 * router's silence; its requests end with it, and nobody else's. Tokens are sent once a step, one
 * STEP for each router; what was not accepted goes with the next. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

void session_hello(struct engine *engine, uint32_t link, const struct message *message);

/* Any other message on a router's link. */
void session_message(struct engine *engine, struct outlet *outlet, const struct message *message);

/* The session is over: its requests are dropped, its link is not known any more. */
void session_drop(struct engine *engine, struct outlet *outlet);

/* A message for a session that is not, or no longer. */
void session_post_reset(struct engine *engine, uint32_t link, uint64_t session, enum reason reason);

/* The sequence belongs to this router from now on. */
void session_adopt(struct engine *engine, struct outlet *router, struct sequence *sequence);

/* The sequence has tokens or an end that its router does not know. */
void session_mark(struct engine *engine, struct sequence *sequence);

void session_post_failed(struct engine *engine, const struct sequence *sequence,
                         enum reason reason);

/* session_send.c: all that is due goes out: posts, tokens; and, with `now_ns` reached, signs of
 * life and digests. */
void session_flush(struct engine *engine);
void session_tick(struct engine *engine);
void session_beat_all(struct engine *engine); /* at once */
uint64_t session_deadline(const struct engine *engine);
