#include "router/core/liveness.h"

#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/part.h"
#include "router/core/rival.h"
#include "router/core/session.h"
#include "router/core/trust.h"

#define SILENCE_NS         (10 * NS_PER_S) /* a slot without session or announcement is given up */
#define REFUSED_SILENCE_NS (3 * NS_PER_S)  /* a refused one: status should not show the dead */
#define LOADING_SILENCE_NS (3 * NS_PER_S)  /* one that loads says so each second */

void liveness_load(struct router *router, struct slot *slot, const struct load *load) {
    if (load->progress < slot->load.progress)
        return; /* of a message that came twice: an old step's time must not bound this one's */
    fleet_progress(router, slot, load->progress);
    if (load->progress != slot->load.progress) {
        slot->silent_own_ns = fleet_silent_own_ns(router, slot);
        slot->progress_own_ns = router->own_ns;
    }
    bool roomier =
        load->blocks_free + load->blocks_cached >
            slot->load.blocks_free + slot->load.blocks_cached ||
        load->n_running + load->n_waiting < slot->load.n_running + slot->load.n_waiting ||
        load->n_running < slot->load.n_running ||
        load->prefill_tokens_queued < slot->load.prefill_tokens_queued;
    slot->load = *load;
    trust_figures(router, slot, load);
    if (roomier && router->n_waiting > 0)
        router->queue_due = true;
}

/* The BEAT echoes our PING: what was sent before that PING is in the worker's figures. */
static void liveness_reflect(struct router *router, struct slot *slot, struct list *parts,
                             uint64_t t_ns) {
    list_each_entry(part, parts, struct part, link) {
        if (part->sent_ns <= t_ns)
            part_reflected(router, slot, part);
    }
}

void liveness_beat(struct router *router, struct slot *slot, const struct beat *beat) {
    liveness_load(router, slot, &beat->load);
    if (slot->n_unreflected > 0) {
        liveness_reflect(router, slot, &slot->prefills, beat->t_ns);
        liveness_reflect(router, slot, &slot->decodes, beat->t_ns);
    }
    if (beat->state == WORKER_DRAINING && slot->state == SLOT_READY)
        fleet_set_state(router, slot, SLOT_DRAINING);
    else if (beat->state == WORKER_READY && slot->state == SLOT_DRAINING &&
             slot->drain_until_ns == 0)
        fleet_set_state(router, slot, SLOT_READY);
    rival_answered(router, slot, beat->t_ns);
}

uint64_t liveness_bound_ns(const struct router *router, const struct slot *slot) {
    uint64_t said_ns = fleet_step_ns(slot), believed_ns = 2 * slot->trust->steps_ns;
    if (believed_ns < LIVENESS_STEP_NS)
        believed_ns = LIVENESS_STEP_NS;
    uint64_t steps_ns = 4 * (said_ns < believed_ns ? said_ns : believed_ns);
    return steps_ns > router->config.hang_ns_min ? steps_ns : router->config.hang_ns_min;
}

bool liveness_overdue(const struct router *router, const struct slot *slot) {
    return router->own_ns - slot->progress_own_ns > liveness_bound_ns(router, slot);
}

/* Slow is not dead: somebody else must be able to take over. */
static bool liveness_others_live(const struct router *router, const struct slot *slot) {
    fleet_each(other, &router->fleet) {
        if (other != slot && other->state == SLOT_READY && !liveness_overdue(router, other))
            return true;
    }
    return false;
}

static void liveness_ping_all(struct router *router) {
    fleet_each(slot, &router->fleet) {
        if (slot_in_session(slot) || slot->state == SLOT_RIVAL)
            fleet_ping(router, slot);
    }
    router->ping_ns = router->now_ns + PING_NS;
}

static void liveness_tick_rival(struct router *router, struct slot *slot) {
    struct slot *holder = rival_holder(router, slot);
    if (!holder)
        session_join(router, slot);
    else if (rival_outlasts(router, slot, holder, liveness_bound_ns(router, holder)))
        session_close(router, holder, "superseded"); /* which lets the rival in */
}

static void liveness_fence_hung(struct router *router, struct slot *slot) {
    session_fence(router, slot, LOSS_DIED, "hung");
    trust_hung(router, slot);
}

static void liveness_tick_slot(struct router *router, struct slot *slot) {
    uint64_t now_ns = router->now_ns;
    switch (slot->state) {
    case SLOT_READY:
    case SLOT_DRAINING:
        if (liveness_overdue(router, slot) && liveness_others_live(router, slot))
            liveness_fence_hung(router, slot);
        else if (slot->drain_until_ns != 0 && now_ns >= slot->drain_until_ns) {
            slot->drain_until_ns = now_ns + NS_PER_S;
            if (router->fleet.n_ready > 0)
                fleet_lose(router, slot, LOSS_MOVED);
        }
        return;
    case SLOT_OPENING:
    case SLOT_SUSPECT:
        if (now_ns - slot->announced_ns > SILENCE_NS && now_ns - slot->hello_ns > SILENCE_NS)
            session_close(router, slot, "silent");
        return;
    case SLOT_RIVAL:
        if (now_ns - slot->heard_ns > SILENCE_NS)
            session_close(router, slot, "silent");
        else
            liveness_tick_rival(router, slot);
        return;
    case SLOT_LOADING:
        if (now_ns - slot->announced_ns > LOADING_SILENCE_NS)
            session_close(router, slot, "silent");
        return;
    case SLOT_REFUSED:
        if (now_ns - slot->announced_ns > REFUSED_SILENCE_NS)
            session_close(router, slot, "silent");
        return;
    default:
        return;
    }
}

void liveness_tick(struct router *router) {
    if (router->now_ns >= router->ping_ns)
        liveness_ping_all(router);
    for (uint32_t i = 0; i < router->fleet.n_seen; i++)
        liveness_tick_slot(router, &router->fleet.slots[i]);
}

static uint64_t liveness_earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint64_t liveness_deadline(const struct router *router) {
    uint64_t next = TIMERS_NEVER;
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_FREE)
            continue;
        next =
            liveness_earlier(next, liveness_earlier(router->ping_ns, router->now_ns + OWN_NS_MAX));
        if (!slot_in_session(slot))
            continue;
        uint64_t hung_own = slot->progress_own_ns + liveness_bound_ns(router, slot) + 1;
        if (hung_own > router->own_ns) /* else it may stay so: the next tick looks again */
            next = liveness_earlier(next, router->now_ns + (hung_own - router->own_ns));
        if (slot->drain_until_ns != 0)
            next = liveness_earlier(next, slot->drain_until_ns);
        if (slot->busy_until_ns > router->now_ns && router->n_waiting > 0)
            next = liveness_earlier(next, slot->busy_until_ns);
        if (trust_standing(router, slot) == STANDING_ASIDE && router->n_waiting > 0)
            next = liveness_earlier(next, slot->trust->until_ns); /* then it takes one on trial */
    }
    return next;
}
