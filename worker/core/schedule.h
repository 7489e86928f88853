/* worker/core/schedule.h: which sequences compute what in the next step.
 *
 * Continuous batching: sequences that decode get their tokens first, up to max_batch in a step; more
 * take turns, and leave one row where prompts wait. Then prompts are computed in chunks from what is
 * left of the step's tokens, older ones first. A prompt is admitted when all of its blocks are there;
 * decoding takes a block every sixteenth token and, where none is left, preempts a new sequence
 * of the lowest priority, which is recomputed later (preempt.h). The oldest one of the best priority is never
 * preempted for others, and no sequence may need more than the whole pool, so somebody always
 * advances. A late tenant (shares.h) waits for no other's end. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* Fills engine->rows. */
void schedule_plan(struct engine *engine);

/* Whether a plan made now would try to let in the first of the waiting. */
bool schedule_admits(struct engine *engine);
