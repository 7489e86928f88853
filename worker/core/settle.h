/* worker/core/settle.h: what an event ends with, and what the clock makes due. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* Lets go of the links that were given up during the event, and sends what may not wait. */
void settle_event(struct engine *engine);

/* What is due behind a step: links, chunks and messages that met BUSY, signs of life; then
 * settle_event(). No router counts as silent: what came during the step is not read yet. */
void settle_step(struct engine *engine);

/* What is due at now_ns: leases, a drain's end, routers that are silent; then settle_step(). */
void settle_tick(struct engine *engine);

/* A link of any kind is gone. Answers how many hand-offs that ends. */
uint32_t settle_link_lost(struct engine *engine, struct peer_link *peer_link);
