/* worker/step/calibrate.h: how fast this machine computes the model, measured before it serves. */
#pragma once

struct worker;

/* Runs growing batches for a fraction of a second and fills worker->estimate, from which the first
 * step budget follows. Also warms everything up. Does nothing for families that do not compute. */
void calibrate_run(struct worker *worker);
