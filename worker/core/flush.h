/* worker/core/flush.h: what goes out by the links: introductions, answers that wait, tokens, signs of
 * life, digests.
 *
 * Tokens are sent once a step, to each router in as few STEPs as hold them; what was not accepted goes
 * with the next.
 * Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

void flush_all(struct engine *engine);   /* all that is due */
void flush_beats(struct engine *engine); /* the same, with a sign of life to every router at once */

/* Gives up the routers that were silent. */
void flush_end_silent(struct engine *engine);

/* When something is due next; UINT64_MAX: nothing. */
uint64_t flush_deadline(const struct engine *engine);
