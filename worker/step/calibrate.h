/* worker/step/calibrate.h: how fast this machine computes the model, measured before it serves. */
#pragma once

struct batch;
struct budget;
struct forward;

/* Runs growing batches for a fraction of a second, as budget_measure() asks for them. Also warms
 * everything up. Does nothing for families that do not compute. */
void calibrate_run(struct forward *forward, struct batch *batch, struct budget *budget);
