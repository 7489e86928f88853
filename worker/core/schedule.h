/* worker/core/schedule.h: which sequences compute what in the next step.
 *
 * Continuous batching: every sequence that decodes gets its token first, then prompts are computed
 * in chunks from what is left of the step's tokens, older ones first. A prompt is admitted when all
 * of its blocks are there; decoding takes a block every sixteenth token and, where none is left,
 * preempts the newest sequence of the lowest priority, which is recomputed later. The oldest one is
 * never preempted for others, and no sequence may need more than the whole pool, so somebody always
 * advances. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* A new sequence, or one that was preempted, waits for its turn. */
void schedule_wait(struct engine *engine, struct sequence *sequence);

/* All but its last token is computed and its blocks are there: decodes from the next step on. */
void schedule_decode(struct engine *engine, struct sequence *sequence);

/* Takes it out of whichever list it is in; blocks stay. */
void schedule_remove(struct engine *engine, struct sequence *sequence);

/* Its n_tokens or n_computed changed. */
void schedule_account(struct engine *engine, struct sequence *sequence);

/* Fills engine->rows. */
void schedule_plan(struct engine *engine);

/* Blocks that newcomers should leave alone: what running sequences are about to need, and what the
 * first of the waiting was refused. */
uint32_t schedule_headroom(const struct engine *engine);

/* False while the batch is full and others wait already: sequences handed over join the batch at
 * once, and would keep those that wait out of it for ever. */
bool schedule_takes_more(const struct engine *engine);

/* Finds the longest prefix of the ids in the cache, at most `n_max` blocks: writes the blocks and
 * the last one's name, counts those that nobody holds now. Holds nothing. */
uint32_t schedule_match(const struct engine *engine, const struct sequence *sequence,
                        uint32_t n_max, struct map_key *last, uint32_t *n_unused);
