/* tests/sim/heavy.h: runs in which most of a step's time is the same for any number of tokens, and
 * nothing goes wrong but that workers are slow for a while.
 *
 * There a budget that has become small cannot come back by itself: steps are only as large as it
 * is, so nothing is learnt of larger ones. Every size fits the goal of a step when nobody slows it,
 * so a worker that has been well for a time must compute steps of half the full size at least:
 * noise may take the rest. */
#pragma once

#include <stdint.h>

#define HEAVY_PERCENT  6      /* of the runs with faults that are not sick, about 70 of 100 */
#define HEAVY_US_MIN   70000  /* of every step: more than half of BUDGET_STEP_US_GOAL, */
#define HEAVY_US_MAX   200000 /* or more than all of it */
#define HEAVY_TOKEN_US 100
#define HEAVY_BATCH    16
#define HEAVY_WELL     100 /* steps in a row that nothing slowed, */
#define HEAVY_SMALL    12  /* and among them those that a small budget cut short */

struct sim;

/* After the other options, from draws of its own. */
void heavy_draw(struct sim *sim);

/* A step of this worker ended, and its budget has learnt from it. */
void heavy_judge(struct sim *sim, uint32_t node);
