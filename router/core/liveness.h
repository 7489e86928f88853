/* router/core/liveness.h: who is alive, how busy, and how long silence may last. */
#pragma once

#include "router/core/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct router;

#define PING_NS (500 * NS_PER_MS)

/* Figures came with a STEP or BEAT of this worker. */
void liveness_load(struct router *router, struct slot *slot, const struct load *load);

/* The rest of a BEAT: state, and which of our submits it had seen when it spoke. */
void liveness_beat(struct router *router, struct slot *slot, const struct beat *beat);

/* Silent for longer than the bound. */
bool liveness_overdue(const struct router *router, const struct slot *slot);

/* The time after which a silent worker is taken for hung, from its last progress. */
uint64_t liveness_bound_ns(const struct router *router, const struct slot *slot);

/* Pings, fences the hung, drops what no longer announces itself. */
void liveness_tick(struct router *router);
uint64_t liveness_deadline(const struct router *router);
