/* worker/core/run_queue.h: the state of a sequence: held, waiting, computing its prompt, or decoding.
 *
 * Those that wait stand by priority, then turn, then arrival. Tenants of one priority take turns: a
 * sequence's turn is that of its tenant's last one that waits and that one's tokens more, or, where
 * there is none, the greatest turn of those that ran. This is start-time fair queueing (Goyal, Vin,
 * Cheng, SIGCOMM 1996) by the tokens of prompts. Sequences of one tenant stand by arrival. The router
 * counts generated tokens too (router/core/turns.h), but what it has sent stands here. The lists and
 * their counts lie in engine->schedule; schedule.c chooses from them, and a late tenant (shares.h)
 * before others. Engine thread only. */
#pragma once

#include "worker/core/engine_state.h"

/* Its grammar is not ready: out of all steps until it is. */
void run_queue_hold(struct engine *engine, struct sequence *sequence);

/* A new sequence, or one that was preempted, waits for its turn. */
void run_queue_wait(struct engine *engine, struct sequence *sequence);

/* Its blocks are there: its prompt is computed from the next step on. */
void run_queue_prefill(struct engine *engine, struct sequence *sequence);

/* All but its last token is computed and its blocks are there: decodes from the next step on. */
void run_queue_decode(struct engine *engine, struct sequence *sequence);

/* Takes it out of the list that it is in; blocks stay. */
void run_queue_remove(struct engine *engine, struct sequence *sequence);

/* Its n_tokens or n_computed changed. */
void run_queue_account(struct engine *engine, struct sequence *sequence);

/* Does a run before b? */
bool run_queue_before(const struct sequence *a, const struct sequence *b);

/* As many sequences run as a batch holds. */
bool run_queue_is_full(const struct engine *engine);

/* The sequence that is let in before all others that wait: of the best priority the first whose tenant is
 * late (shares.h), or else the first of all. NULL: none waits. */
struct sequence *run_queue_next(const struct engine *engine);

/* Whether one that waits may run beside those that run now, blocks aside: the batch has a row for it, or
 * its tenant has none. Those that are too many for a batch then take turns, so nobody waits for an end. */
bool run_queue_lets_in(const struct engine *engine, const struct sequence *sequence);

/* False while the batch is full and others wait already: sequences handed over join the batch at
 * once, and would keep those that wait out of it for ever. */
bool run_queue_takes_more(const struct engine *engine);

/* Blocks that newcomers should leave alone: what running sequences are about to need, and what the
 * next of the waiting was refused. */
uint32_t run_queue_headroom(const struct engine *engine);
