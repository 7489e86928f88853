/* worker/core/retire.h: how a sequence leaves the engine: its answer is complete, it cannot go on, or
 * no router wants it any more. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* Gives up a sequence: its hand-off, its place in the schedule, its blocks, its slot. During a step
 * that computes it, blocks and slot go at the step's end. `reason` is what a peer is told. */
void retire_drop(struct engine *engine, struct sequence *sequence, enum reason reason);

/* Tells the router that the attempt cannot go on here, and drops it. */
void retire_fail(struct engine *engine, struct sequence *sequence, enum reason reason);

/* The answer is complete: blocks go, at the end of a step that computes it; ids stay until FORGET. */
void retire_end(struct engine *engine, struct sequence *sequence, enum finish finish);

/* What the token just appended ends the sequence with; `banned`: it was not allowed to stop. */
enum finish retire_reason(const struct engine *engine, const struct sequence *sequence,
                          bool banned);
