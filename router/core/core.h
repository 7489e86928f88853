/* router/core/core.h: the whole state of the router's core, for the files of this folder only. */
#pragma once

#include "base/list.h"
#include "base/random.h"
#include "router/core/policy/policy.h"
#include "router/core/request.h"
#include "router/core/router.h"
#include "router/core/slot.h"
#include "router/core/timers.h"
#include "router/core/turns.h"

#include <stdbool.h>
#include <stdint.h>

struct router {
    struct router_config config;
    struct router_sink sink;
    uint64_t now_ns; /* of the event being handled */
    uint64_t own_ns; /* the router's own time, on which silence is counted (liveness.h) */
    struct random random;

    struct requests requests;
    struct timers timers; /* one per request: deadline, lack of progress, waiting too long */
    struct list waiting;  /* by priority, then arrival */
    struct turns turns;   /* whose request is next */
    uint32_t n_waiting;
    struct list ending; /* their outcome is decided: the last stage is due at the event's end */
    uint64_t arrivals;
    bool queue_due; /* something may have made room: look at the queue before this event ends */

    struct fleet fleet;
    const struct policy *policy;
    void *policy_state;                  /* owned by the policy */
    struct slot **fitting;               /* owned (max_workers): place.c's scratch */
    struct policy_candidate *candidates; /* the same */

    uint32_t alone; /* index of the request that runs alone, or SLOT_NONE */
    uint32_t alone_slot;

    uint64_t ping_ns; /* next one to all workers */

    struct router_stats stats;
    uint64_t n_turned_away; /* refused before they were admitted; part of stats.n_refused */
};
