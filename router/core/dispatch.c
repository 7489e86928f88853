#include "router/core/dispatch.h"

#include "base/clock.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"
#include "router/core/pairs.h"
#include "router/core/part.h"
#include "router/core/queue.h"
#include "router/core/replay.h"

#include <string.h>

#define PROBE_NS (1000 * NS_PER_MS) /* an answer should come long before */

static const char *dispatch_decode_name(struct router *router, const struct request *req) {
    return fleet_slot(&router->fleet, req->decode.slot)->announce.name;
}

static void dispatch_sent(struct router *router, struct part *part) {
    part->sent_seq = fleet_slot(&router->fleet, part->slot)->n_sent;
    part->sent_ns = router->now_ns;
}

static uint32_t dispatch_budget_ms(const struct router *router, const struct request *req) {
    if (req->spec.deadline_ns == 0)
        return 0;
    if (req->spec.deadline_ns <= router->now_ns)
        return 1;
    uint64_t ms = (req->spec.deadline_ns - router->now_ns) / NS_PER_MS + 1;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void dispatch_submit(struct router *router, struct request *req, struct part *part,
                            enum phase phase, const struct slot *partner) {
    struct message message = {.type = MESSAGE_SUBMIT};
    struct submit *submit = &message.u.submit;
    *submit = (struct submit){
        .req = req->id,
        .attempt = req->attempt,
        .phase = phase,
        .n_prompt = req->spec.n_prompt,
        .n_tokens = request_n_tokens(req),
        .tokens = req->spec.tokens,
        .salt = req->spec.salt,
        .priority = req->spec.priority,
        .budget_ms = dispatch_budget_ms(router, req),
        .tenant = req->spec.tenant,
        .has_xfer = partner != NULL,
        .has_trace = req->spec.has_trace,
        .trace = req->spec.trace,
        .sampling = req->spec.sampling,
    };
    if (partner) {
        submit->xfer = (struct xfer){.transfer_id = req->transfer_id,
                                     .gen = req->gen,
                                     .cached_tokens = req->cached_tokens,
                                     .peer_incarnation = partner->welcome.incarnation};
        memcpy(submit->xfer.peer, partner->welcome.name, sizeof submit->xfer.peer);
    }
    struct slot *slot = fleet_slot(&router->fleet, part->slot);
    fleet_send(router, slot, &message);
    dispatch_sent(router, part);
    if (router->policy->placed)
        router->policy->placed(router->policy_state, part->slot, req->spec.hashes,
                               req->spec.n_hashes);
}

static void dispatch_submitted(struct router *router, struct request *req) {
    req->state = REQUEST_RUNNING;
    part_advanced(router, req);
    if (req->submitted_ns == 0)
        req->submitted_ns = router->now_ns;
    note_decision(router, NOTE_SUBMITTED, req, dispatch_decode_name(router, req), NULL,
                  request_n_tokens(req), req->cached_tokens);
    const struct slot *slot = fleet_slot(&router->fleet, req->decode.slot);
    memcpy(req->outcome.decode_worker, slot->welcome.name, MESSAGE_NAME_MAX);
    const struct slot *other = req->handoff ? fleet_slot(&router->fleet, req->prefill.slot) : slot;
    memcpy(req->outcome.prefill_worker, other->welcome.name, MESSAGE_NAME_MAX);
    bool others = req->has_numerics &&
                  memcmp(slot->welcome.numerics_fp, req->numerics, FINGERPRINT_BYTES) != 0;
    if (!req->counted_inexact && (others || !fleet_equals(slot, other))) {
        req->counted_inexact = true;
        router->stats.n_inexact++;
        note_request(router, NOTE_INEXACT, req, slot);
    }
}

static void dispatch_ask_for_blocks(struct router *router, struct request *req) {
    req->state = REQUEST_RESERVING;
    struct message message = {.type = MESSAGE_RESERVE};
    message.u.reserve = (struct reserve){.req = req->id,
                                         .attempt = req->attempt,
                                         .n_tokens = request_n_tokens(req),
                                         .n_hashes = req->spec.n_hashes,
                                         .hashes = req->spec.hashes};
    struct slot *slot = fleet_slot(&router->fleet, req->decode.slot);
    fleet_send(router, slot, &message);
    dispatch_sent(router, &req->decode);
    if (slot->busy_ns > 0) {
        /* It refused a moment ago: the first in the queue asks alone, and no other slips past it
         * meanwhile. */
        slot->probing = true;
        slot->busy_until_ns = router->now_ns + PROBE_NS;
    }
}

static void dispatch_begin_attempt(struct router *router, struct request *req) {
    queue_remove(router, req);
    if (req->attempt++ == 0)
        turns_charge(&router->turns, req, req->spec.n_prompt);
    req->waits = NULL;
    req->handoff = req->to_prefill != SLOT_NONE;
    req->prefilled_by = req->to_prefill;
    req->cached_tokens = 0;
    req->has_token = false;
    req->computing = true;
    req->counted_inexact = false;
    req->verdict_ns = 0;
    req->unfit_ns = 0;
    req->resend_ns = 0;
    part_advanced(router, req);
    if (req->dispatched_ns == 0)
        req->dispatched_ns = router->now_ns;
    timers_pull(&router->timers, req->index, router->now_ns + REPLAY_PATIENCE_NS);
}

enum turn dispatch_request(struct router *router, struct request *req) {
    if (req->state == REQUEST_WAITING) {
        dispatch_begin_attempt(router, req);
        uint32_t n_tokens = request_n_tokens(req);
        part_join(router, &req->decode, req->to_decode, false, req->handoff ? 0 : n_tokens);
        if (req->handoff) {
            part_join(router, &req->prefill, req->to_prefill, true, n_tokens);
            pairs_begin(router, req->to_prefill, req->to_decode);
        }
        note_decision(router, NOTE_PLACED, req, dispatch_decode_name(router, req), req->choice,
                      n_tokens, (router->now_ns - req->admitted_ns) / NS_PER_US);
        if (req->handoff) {
            dispatch_ask_for_blocks(router, req);
            return TURN_WAIT;
        }
        router->stats.n_local++;
        fleet_slot(&router->fleet, req->to_decode)->busy_ns =
            0; /* it queues such requests itself */
        dispatch_submit(router, req, &req->decode, PHASE_BOTH, NULL);
        dispatch_submitted(router, req);
        return TURN_LATER;
    }
    router->stats.n_handoffs++; /* the decode worker has reserved: dispatch_reserved() */
    do {
        req->transfer_id = random_next(&router->random);
    } while (req->transfer_id == 0);
    const struct slot *prefill = fleet_slot(&router->fleet, req->prefill.slot);
    const struct slot *decode = fleet_slot(&router->fleet, req->decode.slot);
    dispatch_submit(router, req, &req->prefill, PHASE_PREFILL, decode);
    dispatch_submit(router, req, &req->decode, PHASE_DECODE, prefill);
    dispatch_submitted(router, req);
    return TURN_LATER;
}

struct request *dispatch_reserved(struct router *router, struct slot *slot,
                                  const struct reserved *reserved) {
    struct request *req = request_find(&router->requests, reserved->req.lo);
    if (!req || reserved->req.hi != router->config.router_id || req->attempt != reserved->attempt ||
        req->state != REQUEST_RESERVING || req->decode.slot != slot->number || reserved->gen == 0) {
        router->stats.n_stale_dropped++;
        return NULL;
    }
    if (slot->busy_ns > 0 || slot->probing) /* a whole request may have gone there meanwhile */
        router->queue_due = true;           /* there is room again: the others may go too */
    slot->busy_ns = 0;
    slot->busy_until_ns = 0;
    slot->probing = false;
    req->gen = reserved->gen;
    uint32_t n_tokens = request_n_tokens(req);
    req->cached_tokens = reserved->cached_tokens < n_tokens ? reserved->cached_tokens : n_tokens;
    if (req->attempt == 1)
        req->first_cached_tokens = req->cached_tokens;
    part_reflected(router, slot, &req->decode);
    return req;
}
