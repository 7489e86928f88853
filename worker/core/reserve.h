/* worker/core/reserve.h: blocks held for a hand-off to come: RESERVE, its answer, its lease.
 * Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

void reserve_request(struct engine *engine, struct peer_link *router,
                     const struct reserve *reserve);

/* The reservation is used: its lease begins anew. */
void reserve_renew(struct engine *engine, struct sequence *sequence);

/* Gives up the reservations whose lease ran out. */
void reserve_expire(struct engine *engine);

/* Was this sequence reserved? Also where the hand-off is over because the answer is complete. */
bool reserve_was_made(const struct sequence *sequence);
