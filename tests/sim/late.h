/* tests/sim/late.h: runs in which workers' steps go one step ahead (engine_repeat()), as those of
 * workers on a device do: the device begins with a step while nobody has read what the one before
 * chose, and that is read at once, some time later, or even after the step ahead is over.
 *
 * Nothing else is different: every rule and judge is the same. Such runs draw from a stream of their
 * own, so that others are what they were. */
#pragma once

#include "base/random.h"

#include <stdbool.h>
#include <stdint.h>

#define LATE_PERCENT   40 /* of all runs */
#define LATE_PENALISED 8  /* one request of so many has penalties */
#define LATE_SALT      0x1a7eu

struct sim;

/* After all other options. */
void late_draw(struct sim *sim);

/* How long after its device the host reads, when the device begins with a step that lasts so long. */
uint64_t late_delay(struct sim *sim, uint64_t lasts_ns);

/* Has the request with this seed penalties? */
static inline bool late_penalised(uint64_t seed) {
    return mix64(seed ^ LATE_SALT) % LATE_PENALISED == 0;
}
