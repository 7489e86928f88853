/* router/core/liveness.h: who is alive, how busy, and how long silence may last. */
#pragma once

#include "router/core/slot.h"

#include <stdbool.h>
#include <stdint.h>

struct router;

#define PING_NS          (500 * NS_PER_MS)
#define LIVENESS_STEP_NS (1 * NS_PER_S) /* an announced step is believed so far without proof */

/* Silence is counted on the router's own time, which stops while the router does: from one event to
 * the next it goes on by OWN_NS_MAX at most, and while there are workers the next tick is wanted
 * within that. So a machine that pauses makes no worker look hung, and a worker that hangs is
 * noticed as soon as on any other machine. */
#define OWN_NS_MAX (100 * NS_PER_MS)

/* Own time for that much time since the event before. */
static inline uint64_t liveness_own_ns(uint64_t ns) {
    return ns < OWN_NS_MAX ? ns : OWN_NS_MAX;
}

/* Figures came with a STEP or BEAT of this worker. */
void liveness_load(struct router *router, struct slot *slot, const struct load *load);

/* The rest of a BEAT: state, and which of our submits it had seen when it spoke. */
void liveness_beat(struct router *router, struct slot *slot, const struct beat *beat);

/* Silent for longer than the bound. */
bool liveness_overdue(const struct router *router, const struct slot *slot);

/* The own time after which a silent worker is taken for hung, from its last progress: hang_ns_min,
 * or what its own steps explain, which is four times the one that it announces. That is believed as
 * far as a worker of its name has shown: twice the longest that it announced, was silent in and
 * ended, but LIVENESS_STEP_NS in any case. So a word alone holds no request for long, and steps that
 * grow are followed. */
uint64_t liveness_bound_ns(const struct router *router, const struct slot *slot);

/* Pings, fences the hung, drops what no longer announces itself. */
void liveness_tick(struct router *router);
uint64_t liveness_deadline(const struct router *router);
