/* worker/calibrate.h: how fast this machine computes the model, measured before it serves: the step
 * budget follows, so that no step is long enough to look like a hang. */
#pragma once

struct worker;

/* Runs growing batches for a fraction of a second, fills worker->estimate, and lowers
 * sizes.chunk_tokens where the config leaves it open. Also warms everything up. Does nothing for
 * families that do not compute. */
void calibrate_run(struct worker *worker);
