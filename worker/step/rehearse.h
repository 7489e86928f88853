/* worker/step/rehearse.h: the graphs of steps that decode, made before the worker serves. */
#pragma once

#include <stdint.h>

struct batch;
struct forward;

/* Takes down one step of each shape, where the backend has any: none is then captured while streams run, and the first step of
 * a shape is as fast as the others. After calibrate_run(), which computes everything once. Answers how many there were. */
uint32_t rehearse_run(struct forward *forward, struct batch *batch);
