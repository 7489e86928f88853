#include "router/core/router.h"

#include "base/assert.h"
#include "base/clock.h"
#include "router/core/admit.h"
#include "router/core/core.h"
#include "router/core/digest.h"
#include "router/core/dispatch.h"
#include "router/core/finish.h"
#include "router/core/fleet.h"
#include "router/core/liveness.h"
#include "router/core/note.h"
#include "router/core/path.h"
#include "router/core/place.h"
#include "router/core/queue.h"
#include "router/core/replay.h"
#include "router/core/session.h"
#include "router/core/stream.h"

#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 30000 /* a draining worker's streams are moved after this */

enum status router_new(const struct router_config *config, const struct router_sink *sink,
                       struct router **router) {
    const struct policy *policy = policy_find(config->policy);
    if (!policy)
        return STATUS_NOT_FOUND;
    if (config->max_requests == 0 || config->max_requests >= 1u << 24 || config->max_workers == 0 ||
        config->max_workers > 4096 || config->router_id == 0 || config->n_vocab == 0)
        return STATUS_INVALID;
    struct router *self = calloc(1, sizeof *self);
    if (!self)
        return STATUS_NOMEM;
    self->config = *config;
    self->sink = *sink;
    self->random.state = config->seed;
    self->policy = policy;
    self->alone = SLOT_NONE;
    self->alone_slot = SLOT_NONE;
    list_init(&self->waiting);
    list_init(&self->ending);
    enum status status = requests_init(&self->requests, config->max_requests, config->max_workers);
    if (status == STATUS_OK)
        status = timers_init(&self->timers, config->max_requests);
    if (status == STATUS_OK)
        status = turns_init(&self->turns, config->max_requests, config->seed);
    if (status == STATUS_OK)
        status = fleet_init(&self->fleet, config->max_workers);
    if (status == STATUS_OK && policy->open)
        status = policy->open(config->max_workers, config->seed, &self->policy_state);
    self->fitting = calloc(config->max_workers, sizeof *self->fitting);
    self->candidates = calloc(config->max_workers, sizeof *self->candidates);
    if (status == STATUS_OK && !(self->fitting && self->candidates))
        status = STATUS_NOMEM;
    if (status != STATUS_OK) {
        router_free(self);
        return status;
    }
    *router = self;
    return STATUS_OK;
}

void router_free(struct router *router) {
    if (!router)
        return;
    requests_fini(&router->requests);
    timers_fini(&router->timers);
    turns_fini(&router->turns);
    fleet_fini(&router->fleet);
    if (router->policy->close)
        router->policy->close(router->policy_state);
    free(router->fitting);
    free(router->candidates);
    free(router);
}

static void router_begin(struct router *router, uint64_t now_ns) {
    if (router->sink.touched)
        router->sink.touched(router->sink.context);
    if (now_ns <= router->now_ns)
        return;
    router->own_ns += liveness_own_ns(now_ns - router->now_ns);
    router->now_ns = now_ns;
}

/* Takes those that wait by turns and advances whoever can go. */
static void router_advance_waiting(struct router *router) {
    struct request *req;
    uint32_t worst = UINT32_MAX; /* priority: none that is passed waits for one that is worse */
    while ((req = turns_next(&router->turns)) && req->spec.priority <= worst) {
        if (path_advance(router, req) != TURN_FULL)
            continue;
        if (!place_suits_others(router, req))
            break;
        worst = req->spec.priority;
        turns_pass(&router->turns, req);
    }
    turns_rewind(&router->turns);
}

static void router_advance_ending(struct router *router) {
    struct list *link;
    while ((link = list_first(&router->ending))) {
        list_remove(link);
        path_advance(router, list_entry(link, struct request, link));
    }
}

/* What this event did to workers and requests takes its course: lost attempts are replayed, and
 * requests whose outcome is decided end. */
static void router_conclude(struct router *router) {
    replay_losses(router);
    router_advance_ending(router);
}

/* The same, then advances the queue: some requests can go now. */
static void router_advance_queue(struct router *router) {
    router_conclude(router);
    while (router->queue_due) {
        router->queue_due = false;
        router_advance_waiting(router);
        router_conclude(router);
    }
}

/* Ends every event, and sends what has collected. */
static void router_settle(struct router *router) {
    router_advance_queue(router);
    fleet_flush(router);
}

static enum status router_turn_away(struct router *router, uint32_t n, enum status status) {
    router->n_turned_away += n;
    router->stats.n_refused += n;
    return status;
}

/* Newcomers that all wait, in a queue that is too long now: as if they had never come. */
static bool router_give_back(struct router *router, const uint64_t *requests, uint32_t n) {
    if (router->n_waiting <= router->config.max_queue)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const struct request *req = request_find(&router->requests, requests[i]);
        if (!req || req->state != REQUEST_WAITING)
            return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct request *req = request_find(&router->requests, requests[i]);
        queue_remove(router, req);
        req->state = REQUEST_ENDING;
        timers_set(&router->timers, req->index, TIMERS_NEVER);
        turns_leave(&router->turns, req);
        request_give(&router->requests, req);
    }
    return true;
}

enum status router_request_all(struct router *router, uint64_t now_ns,
                               const struct request_spec *specs, uint32_t n, uint64_t *requests) {
    ASSERT(n > 0);
    router_begin(router, now_ns);
    enum status status = admit_check(router, specs, n);
    if (status != STATUS_OK)
        return router_turn_away(router, n, status);
    for (uint32_t i = 0; i < n; i++) {
        struct request *req = request_take(&router->requests, router->config.router_id);
        ASSERT(req); /* admit_check() saw enough free ones */
        req->spec = specs[i];
        req->stage = STAGE_ADMIT;
        requests[i] = req->id.lo;
        path_advance(router, req); /* into the queue */
    }
    /* Only this event's newcomers can be too many: those in front were let in before. */
    router_advance_queue(router);
    if (router_give_back(router, requests, n)) {
        fleet_flush(router);
        return router_turn_away(router, n, STATUS_BUSY);
    }
    router->stats.n_admitted += n;
    for (uint32_t i = 0; i < n; i++)
        router->stats.n_prompt_tokens += specs[i].n_prompt;
    router_settle(router);
    return STATUS_OK;
}

enum status router_request(struct router *router, uint64_t now_ns, const struct request_spec *spec,
                           uint64_t *request) {
    uint64_t name;
    TRY(router_request_all(router, now_ns, spec, 1, &name));
    *request = name;
    return STATUS_OK;
}

void router_cancel(struct router *router, uint64_t now_ns, uint64_t request) {
    router_begin(router, now_ns);
    struct request *req = request_find(&router->requests, request);
    if (req)
        finish_cancelled(router, req);
    router_settle(router);
}

void router_stop(struct router *router, uint64_t now_ns, uint64_t request, uint32_t n_tokens) {
    router_begin(router, now_ns);
    struct request *req = request_find(&router->requests, request);
    if (req) {
        if (n_tokens < req->n_emitted)
            req->n_emitted = n_tokens; /* what lies past the match never counts in usage */
        finish_done(router, req, FINISH_STOP, SLOT_NONE);
    }
    router_settle(router);
}

void router_announce(struct router *router, uint64_t now_ns, const struct announce *announce) {
    router_begin(router, now_ns);
    session_announced(router, announce);
    router_settle(router);
}

static void router_take_reserved(struct router *router, struct slot *slot,
                                 const struct reserved *reserved) {
    struct request *req = dispatch_reserved(router, slot, reserved);
    if (req)
        path_advance(router, req);
}

static void router_take_message(struct router *router, struct slot *slot,
                                const struct message *message) {
    switch (message->type) {
    case MESSAGE_BEAT:
        liveness_beat(router, slot, &message->u.beat);
        return;
    case MESSAGE_STEP:
        stream_step(router, slot, &message->u.step);
        return;
    case MESSAGE_DIGEST:
        digest_read(router, slot, &message->u.digest);
        return;
    case MESSAGE_RESERVED:
        router_take_reserved(router, slot, &message->u.reserved);
        return;
    case MESSAGE_REFUSED:
        replay_rejected(router, slot,
                        (struct attempt_id){message->u.refused.req, message->u.refused.attempt},
                        message->u.refused.reason);
        return;
    case MESSAGE_FAILED:
        replay_rejected(router, slot,
                        (struct attempt_id){message->u.failed.req, message->u.failed.attempt},
                        message->u.failed.reason);
        return;
    case MESSAGE_RESET: /* it dropped what it held for us: not a death */
        session_fence(router, slot, LOSS_MOVED, "session_ended");
        return;
    case MESSAGE_CANCELLED:
        return; /* a digest tells whether a cancel was heard */
    default:
        note_worker(router, NOTE_ODD_MESSAGE, slot, message_name(message->type), 0, 0);
        return;
    }
}

void router_message(struct router *router, uint64_t now_ns, uint32_t number,
                    const struct message *message) {
    router_begin(router, now_ns);
    if (number >= router->fleet.n_slots)
        return;
    struct slot *slot = &router->fleet.slots[number];
    bool known = slot->linked && slot->state != SLOT_REFUSED && message->session == slot->session;
    bool greeting = message->type == MESSAGE_WELCOME;
    if (known && slot->state == SLOT_RIVAL) { /* its beats: nothing is held there yet */
        slot->heard_ns = now_ns;
        return;
    }
    if (!known || (!greeting && !slot_in_session(slot))) {
        router->stats.n_stale_dropped++;
        return;
    }
    slot->heard_ns = now_ns;
    if (greeting)
        session_welcomed(router, slot, &message->u.welcome);
    else
        router_take_message(router, slot, message);
    router_settle(router);
}

void router_link_lost(struct router *router, uint64_t now_ns, uint32_t number) {
    router_begin(router, now_ns);
    if (number >= router->fleet.n_slots)
        return;
    struct slot *slot = &router->fleet.slots[number];
    slot->linked = false;
    if (slot->state != SLOT_REFUSED &&
        slot->state != SLOT_LOADING) /* which is shown for as long as it is announced */
        session_lost(router, slot, "link_lost");
    router_settle(router);
}

void router_tick(struct router *router, uint64_t now_ns) {
    router_begin(router, now_ns);
    liveness_tick(router);
    router_conclude(router); /* before the timers, which are of requests that live */
    uint32_t i;
    while ((i = timers_pop(&router->timers, now_ns)) != UINT32_MAX)
        replay_timer(router, &router->requests.all[i]);
    if (router->n_waiting > 0)
        router->queue_due = true;
    admit_tick(router);
    router_settle(router);
}

uint64_t router_deadline(const struct router *router) {
    uint64_t next = timers_next(&router->timers), fleet = liveness_deadline(router);
    if (router->n_waiting > 0 && router->fleet.n_ready == 0) {
        uint64_t give_up = router->fleet.no_worker_since_ns + router->config.no_worker_wait_ns;
        next = give_up < next ? give_up : next;
    }
    return fleet < next ? fleet : next;
}

static struct slot *router_find_worker(struct router *router, const char *name) {
    fleet_each(slot, &router->fleet) {
        if (slot_in_session(slot) && fleet_same_name(slot->announce.name, name))
            return slot;
    }
    return NULL;
}

static void router_send_drain(struct router *router, struct slot *slot, enum drain_order order) {
    struct message message = {.type = MESSAGE_DRAIN};
    message.u.drain.order = order;
    message.u.drain.deadline_ms = order == DRAIN_UNDO ? 0 : DRAIN_MS;
    fleet_send(router, slot, &message);
}

enum status router_drain_worker(struct router *router, uint64_t now_ns, const char *name,
                                bool exits) {
    router_begin(router, now_ns);
    struct slot *slot = router_find_worker(router, name);
    if (!slot)
        return STATUS_NOT_FOUND;
    router_send_drain(router, slot, exits ? DRAIN_EXIT : DRAIN_STOP);
    if (slot->drain_until_ns == 0) /* asked again, it has no more time than at first */
        slot->drain_until_ns = router->now_ns + DRAIN_MS * NS_PER_MS;
    if (slot->state == SLOT_READY)
        fleet_set_state(router, slot, SLOT_DRAINING);
    router_settle(router);
    return STATUS_OK;
}

/* It is ready again when its BEAT says so. */
enum status router_resume_worker(struct router *router, uint64_t now_ns, const char *name) {
    router_begin(router, now_ns);
    struct slot *slot = router_find_worker(router, name);
    if (!slot)
        return STATUS_NOT_FOUND;
    if (slot->state == SLOT_DRAINING) {
        router_send_drain(router, slot, DRAIN_UNDO);
        slot->drain_until_ns = 0;
    }
    router_settle(router);
    return STATUS_OK;
}
