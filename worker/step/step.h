/* worker/step/step.h: the way of a token. The table in step.c is the worker's table of contents. */
#pragma once

#include <stdbool.h>

struct worker;

/* One turn of the engine: answers false when there was nothing to compute. */
bool step_run(struct worker *worker);
