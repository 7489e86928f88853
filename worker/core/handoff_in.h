/* worker/core/handoff_in.h: the receiving side of a hand-off: SUBMIT, chunks and COMMIT, in whichever
 * order they come. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* The router's SUBMIT for a sequence that is reserved here, of the same attempt. */
void handoff_in_submit(struct engine *engine, struct peer_link *router,
                       const struct submit *submit);

void handoff_in_chunk(struct engine *engine, struct peer_link *peer_link,
                      const struct chunk *chunk);
void handoff_in_commit(struct engine *engine, struct peer_link *peer_link,
                       const struct commit *commit);
