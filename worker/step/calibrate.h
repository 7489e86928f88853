/* worker/step/calibrate.h: how fast this machine computes the model, measured before it serves. */
#pragma once

#include <stdint.h>

struct batch;
struct estimate;
struct forward;

/* Runs growing batches, of chunk_tokens at most, for a fraction of a second and fills `estimate`,
 * from which the first step budget follows. Also warms everything up. Does nothing for families
 * that do not compute. */
void calibrate_run(struct forward *forward, struct batch *batch, uint32_t chunk_tokens,
                   struct estimate *estimate);
