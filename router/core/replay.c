#include "router/core/replay.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/finish.h"
#include "router/core/fleet.h"
#include "router/core/liveness.h"
#include "router/core/note.h"
#include "router/core/pairs.h"
#include "router/core/part.h"
#include "router/core/queue.h"
#include "router/core/trust.h"

/* With token 0 out, its Commit is under way or has come: the decode worker knows. */
#define VERDICT_NS (300 * NS_PER_MS)
/* Workers that die together are not noticed together. What a death cost without bringing a token is
 * placed again only when the others are known, or one accident would count as several losses. */
#define HOLD_NS     (50 * NS_PER_MS)
#define BUSY_NS     (20 * NS_PER_MS) /* a worker without room is not asked again before this */
#define BUSY_NS_MAX (80 * NS_PER_MS)

void replay_reset_losses(struct router *router, struct request *req) {
    req->n_losses = 0;
    req->has_token = true;
    req->alone = false;
    req->blamed = NULL;
    req->decode.queued_own_ns = req->prefill.queued_own_ns = UINT64_MAX;
    finish_alone(router, req);
}

static void replay_requeue(struct router *router, struct request *req) {
    finish_release(router, req, SLOT_NONE);
    req->verdict_ns = 0;
    req->stage = STAGE_PLACE;
    queue_add(router, req);
}

static void replay_hold(struct router *router, struct request *req) {
    req->hold_ns = router->now_ns + HOLD_NS;
    timers_pull(&router->timers, req->index, req->hold_ns);
}

void replay_lost(struct router *router, struct request *req, struct slot *slot, enum loss loss) {
    ASSERT(req->state == REQUEST_RESERVING || req->state == REQUEST_RUNNING);
    /* Only asked for blocks so far: it did not run anywhere. */
    if (req->state == REQUEST_RESERVING && loss == LOSS_DIED)
        loss = LOSS_MOVED;
    if (slot && loss == LOSS_DIED)
        request_set_failed(req, slot->number);
    if (slot && loss == LOSS_DIED && slot->number == req->prefill.slot && req->has_token) {
        part_leave(router, &req->prefill);
        req->verdict_ns = router->now_ns + VERDICT_NS;
        timers_pull(&router->timers, req->index, req->verdict_ns);
        return;
    }
    static const char *const reasons[] = {
        [LOSS_DIED] = "worker_died", [LOSS_FAILED] = "attempt_failed", [LOSS_MOVED] = "moved"};
    note_decision(router, NOTE_REPLACED, req, slot ? slot->announce.name : NULL, reasons[loss],
                  req->n_emitted, req->n_losses);
    if (loss != LOSS_MOVED) {
        req->n_replays++;
        router->stats.n_replays++;
        if (!req->has_token)
            req->n_losses++;
        if (!req->has_token && loss == LOSS_DIED)
            replay_hold(router, req);
        if (loss == LOSS_DIED && router->alone == req->index) {
            router->stats.n_poisoned++;
            note_request(router, NOTE_POISONED, req, slot);
            finish_error(router, req, STATUS_IO, REASON_NONE);
            return;
        }
        if (req->n_losses >= REPLAY_LOSSES_MAX) {
            finish_error(router, req, STATUS_IO, REASON_NONE);
            return;
        }
        if (req->n_losses >= REPLAY_LOSSES_ALONE)
            req->alone = true;
    }
    replay_requeue(router, req);
}

void replay_all(struct router *router, struct slot *slot, enum loss loss) {
    struct list *link;
    while ((link = list_first(&slot->decodes)))
        replay_lost(router, list_entry(link, struct request, decode.link), slot, loss);
    while ((link = list_first(&slot->prefills)))
        replay_lost(router, list_entry(link, struct request, prefill.link), slot, loss);
}

void replay_losses(struct router *router) {
    struct list *link;
    while ((link = list_first(&router->fleet.lost))) {
        struct slot *slot = list_entry(link, struct slot, lost);
        list_remove(link);
        replay_all(router, slot, slot->loss);
        slot->loss = LOSS_NONE;
    }
}

/* Several refusals in flight at once count as one. */
static void replay_back_off(const struct router *router, struct slot *slot) {
    if (router->now_ns < slot->busy_until_ns && !slot->probing)
        return;
    slot->probing = false;
    slot->busy_ns = slot->busy_ns == 0 ? BUSY_NS : 2 * slot->busy_ns;
    slot->busy_ns = slot->busy_ns < BUSY_NS_MAX ? slot->busy_ns : BUSY_NS_MAX;
    slot->busy_until_ns = router->now_ns + slot->busy_ns;
}

/* Is it this attempt that was to hand over, and has the decode worker not spoken yet? */
static bool replay_hands_over(const struct request *req) {
    return req->state == REQUEST_RUNNING && req->prefill.slot != SLOT_NONE &&
           req->decode.slot != SLOT_NONE;
}

/* A failed attempt tells of its worker; one that was to hand over tells of the two. */
static void replay_blame(struct router *router, struct request *req, struct slot *slot,
                         const char *why) {
    if (replay_hands_over(req))
        pairs_failed(router, req, why);
    else
        trust_failed(router, req, slot, why, false);
}

/* The worker says that the request itself cannot be served: that is believed when another one says
 * the same, or none is left that could. True: the request has ended. */
static bool replay_take_verdict(struct router *router, struct request *req, struct slot *slot,
                                enum reason reason) {
    bool agrees = req->blamed && req->blamed != slot->trust && req->verdict == reason;
    trust_failed(router, req, slot, reason_name(reason), reason == REASON_NUMERICS);
    req->verdict = reason;
    if (!agrees && trust_another(router, req))
        return false;
    finish_error(router, req, reason == REASON_INVALID ? STATUS_INVALID : STATUS_CORRUPT, reason);
    return true;
}

void replay_unusable(struct router *router, struct request *req, struct slot *slot) {
    if (!replay_take_verdict(router, req, slot, REASON_NUMERICS))
        replay_lost(router, req, slot, LOSS_FAILED);
}

void replay_outgrown(struct router *router, struct request *req, struct slot *slot) {
    trust_answered(router, request_part(req, slot->number));
    finish_release(router, req, slot->number);
    req->outgrown = true;
    replay_lost(router, req, slot, LOSS_MOVED);
}

void replay_rejected(struct router *router, struct slot *slot, struct attempt_id attempt,
                     enum reason reason) {
    struct request *req = request_find(&router->requests, attempt.req.lo);
    if (!req || attempt.req.hi != router->config.router_id || req->attempt != attempt.attempt ||
        !request_part(req, slot->number)) {
        router->stats.n_stale_dropped++;
        return;
    }
    enum loss loss = LOSS_MOVED;
    switch (reason) {
    case REASON_INVALID:
    case REASON_NUMERICS:
        if (replay_take_verdict(router, req, slot, reason))
            return;
        loss = LOSS_FAILED;
        break;
    case REASON_GRAMMAR: /* the request's own doing, which no worker is blamed for */
        finish_error(router, req, STATUS_CONFLICT, reason);
        return;
    case REASON_TOO_LONG:
        req->too_long[slot->number / 64] |= 1ull << (slot->number % 64);
        break;
    case REASON_DRAINING:
        if (slot->state == SLOT_READY)
            fleet_set_state(router, slot, SLOT_DRAINING);
        break;
    case REASON_BUSY:
    case REASON_CANCELLED: /* its clock ran out a moment before ours */
        req->was_refused = req->handoff;
        replay_back_off(router, slot);
        break;
    default:
        replay_blame(router, req, slot, reason_name(reason));
        req->verdict = REASON_NONE;
        loss = LOSS_FAILED;
        break;
    }
    replay_lost(router, req, slot, loss);
}

/* When the attempt makes no progress for too long, in own time. The patience is for live workers: of each
 * silence of one half a second counts, so a worker that stops now and then has its time, and one that
 * goes on without this attempt is found out. What widens the bound for "hung" widens the patience. */
static uint64_t replay_still_at_own_ns(const struct router *router, const struct request *req) {
    uint64_t silent = 0, patience = REPLAY_PATIENCE_NS;
    const struct part *parts[2] = {&req->decode, &req->prefill};
    for (int i = 0; i < 2; i++) {
        if (parts[i]->slot == SLOT_NONE)
            continue;
        const struct slot *slot = &router->fleet.slots[parts[i]->slot];
        uint64_t bound = liveness_bound_ns(router, slot);
        patience = bound > patience ? bound : patience;
        uint64_t silent_there = fleet_silent_own_ns(router, slot) - parts[i]->silent_ns;
        silent = silent_there > silent ? silent_there : silent;
    }
    return req->advanced_own_ns + silent + patience;
}

void replay_timer(struct router *router, struct request *req) {
    uint64_t now_ns = router->now_ns;
    if (req->spec.deadline_ns != 0 && now_ns >= req->spec.deadline_ns) {
        finish_error(router, req, STATUS_TIMEOUT, REASON_NONE);
        return;
    }
    if (req->state == REQUEST_RUNNING || req->state == REQUEST_RESERVING) {
        uint64_t stalled_own = replay_still_at_own_ns(router, req);
        bool no_verdict = req->verdict_ns != 0 && now_ns >= req->verdict_ns;
        if (no_verdict || router->own_ns >= stalled_own) {
            struct slot *at =
                req->decode.slot == SLOT_NONE ? NULL : &router->fleet.slots[req->decode.slot];
            note_request(router, no_verdict ? NOTE_NO_VERDICT : NOTE_REQUEST_STILL, req, at);
            if (at && !no_verdict) /* without a verdict the prefill worker died, and that is all */
                replay_blame(router, req, at, "stands_still");
            replay_lost(router, req, NULL, LOSS_FAILED);
            if (req->state != REQUEST_WAITING)
                return; /* it ended */
        } else {
            uint64_t usual_own = req->advanced_own_ns + REPLAY_PATIENCE_NS;
            uint64_t look_own =
                usual_own > router->own_ns ? usual_own : router->own_ns + REPLAY_LOOK_NS;
            look_own = look_own < stalled_own ? look_own : stalled_own;
            timers_pull(&router->timers, req->index, now_ns + (look_own - router->own_ns));
            if (req->verdict_ns != 0)
                timers_pull(&router->timers, req->index, req->verdict_ns);
        }
    }
    if (req->state == REQUEST_WAITING && req->hold_ns > now_ns)
        timers_pull(&router->timers, req->index, req->hold_ns);
    if (req->spec.deadline_ns != 0)
        timers_pull(&router->timers, req->index, req->spec.deadline_ns);
}
