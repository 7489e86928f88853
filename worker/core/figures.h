/* worker/core/figures.h: what the engine counts, and the load that routers are told. Engine thread
 * only. */
#pragma once

#include "worker/core/engine_state.h"

/* Counters, medians, blocks and queues as they are now. */
void figures_load(const struct engine *engine, struct load *load);

/* Tokens per second, once a second: also while nothing runs, so that it falls to zero. */
void figures_rate(struct engine *engine);

/* The step that began at step_begin_ns is over. */
void figures_step(struct engine *engine);
