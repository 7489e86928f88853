/* What is seen of the router's core from outside; nothing here changes it. */
#include "router/core/core.h"
#include "router/core/pairs.h"
#include "router/core/trust.h"

#include <string.h>

void router_stats(const struct router *router, struct router_stats *stats) {
    *stats = router->stats;
    stats->n_queued = router->n_waiting;
    stats->n_running = router->requests.n_used - router->n_waiting;
}

uint64_t router_waits_since_ns(const struct router *router) {
    uint64_t since_ns = 0;
    list_each_entry(req, &router->waiting, const struct request, link) {
        uint64_t one_ns = req->dispatched_ns
                              ? router->now_ns - (router->own_ns - req->advanced_own_ns)
                              : req->admitted_ns;
        if (since_ns == 0 || one_ns < since_ns)
            since_ns = one_ns;
    }
    return since_ns;
}

static void view_trust(const struct router *router, const struct slot *slot,
                       struct worker_view *view) {
    view->standing = trust_standing(router, slot);
    if (view->standing != STANDING_GOOD)
        view->why = slot->trust->why;
    else if (pairs_cut_off(router, slot))
        view->standing = STANDING_CUT_OFF;
    if (view->standing == STANDING_ASIDE)
        view->aside_ns = slot->trust->until_ns - router->now_ns;
}

const char *router_worker_state(const struct worker_view *view) {
    if (view->state == SLOT_READY && view->standing == STANDING_ASIDE)
        return "aside";
    if (view->state == SLOT_READY && view->standing == STANDING_TRIAL)
        return "trial";
    return slot_state_name(view->state);
}

const char *router_worker_reason(const struct worker_view *view) {
    if (view->state == SLOT_REFUSED || view->state == SLOT_RIVAL)
        return refusal_name(view->refusal);
    return view->standing == STANDING_CUT_OFF ? "no_hand_over_works" : view->why;
}

enum status router_worker(const struct router *router, uint32_t number, struct worker_view *view) {
    if (number >= router->fleet.n_slots || router->fleet.slots[number].state == SLOT_FREE)
        return STATUS_NOT_FOUND;
    const struct slot *slot = &router->fleet.slots[number];
    *view = (struct worker_view){.state = slot->state,
                                 .refusal = slot->refusal,
                                 .welcome = slot->welcome,
                                 .load = slot->load,
                                 .n_assigned = slot->n_assigned,
                                 .heard_ns = slot->heard_ns,
                                 .endpoint = slot->announce.endpoint};
    if (slot_in_session(slot))
        view_trust(router, slot, view);
    memcpy(view->welcome.name, slot->announce.name, MESSAGE_NAME_MAX);
    view->welcome.incarnation = slot->announce.incarnation;
    if (slot->welcome.incarnation == 0 && slot->announce.role > 0)
        view->welcome.role = (enum worker_role)(slot->announce.role - 1);
    if (slot->state == SLOT_LOADING)
        view->loading = slot->announce.loading - 1;
    return STATUS_OK;
}

bool router_next_worker(const struct router *router, uint32_t *slot, struct worker_view *view) {
    while (*slot < router->fleet.n_slots && router_worker(router, *slot, view) != STATUS_OK)
        ++*slot;
    return *slot < router->fleet.n_slots;
}

static const char *view_name_of(const struct router *router, const struct part *part) {
    return part->slot == SLOT_NONE ? "" : router->fleet.slots[part->slot].announce.name;
}

enum status router_view_request(const struct router *router, uint64_t request,
                                struct request_view *view) {
    const struct request *req = request_find(&router->requests, request);
    if (!req)
        return STATUS_NOT_FOUND;
    *view = (struct request_view){.stage = req->stage,
                                  .waits = req->waits,
                                  .attempt = {.req = req->id, .attempt = req->attempt},
                                  .n_replays = req->n_replays,
                                  .n_tokens = req->n_emitted,
                                  .admitted_ns = req->admitted_ns,
                                  .prefill_worker = view_name_of(router, &req->prefill),
                                  .decode_worker = view_name_of(router, &req->decode)};
    return STATUS_OK;
}

bool router_ready(const struct router *router) {
    return router->fleet.n_ready > 0;
}
