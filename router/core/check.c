/* router_check(): all ledgers and bounds of the core. For tests and the simulator. */
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/router.h"

#include <stddef.h>
#include <string.h>

static const char *router_check_queue(const struct router *router) {
    uint32_t n = 0;
    const struct request *last = NULL;
    list_each_entry(req, &router->waiting, const struct request, link) {
        if (req->state != REQUEST_WAITING)
            return "a request in the queue does not wait";
        if (last && (last->spec.priority > req->spec.priority ||
                     (last->spec.priority == req->spec.priority && last->arrival >= req->arrival)))
            return "the queue is out of order";
        last = req;
        n++;
    }
    return n == router->n_waiting ? NULL : "the queue's count is wrong";
}

static const char *router_check_part(const struct router *router, const struct part *part) {
    if (part->slot == SLOT_NONE)
        return NULL;
    if (part->slot >= router->fleet.n_slots)
        return "an attempt names a slot that does not exist";
    return slot_in_session(&router->fleet.slots[part->slot])
               ? NULL
               : "an attempt stays with a worker out of session";
}

static const char *router_check_request(const struct router *router, const struct request *req) {
    bool has_parts = req->prefill.slot != SLOT_NONE || req->decode.slot != SLOT_NONE;
    switch (req->state) {
    case REQUEST_FREE:
        return has_parts ? "a free request has a worker" : NULL;
    case REQUEST_WAITING:
        if (has_parts)
            return "a waiting request has a worker";
        break;
    case REQUEST_RESERVING:
        if (req->prefill.slot == SLOT_NONE || req->decode.slot == SLOT_NONE)
            return "a reservation without two workers";
        break;
    case REQUEST_RUNNING:
        if (req->decode.slot == SLOT_NONE)
            return "a running request has no worker";
        break;
    case REQUEST_ENDING:
        return "a request outlived its end";
    }
    if (req->decode.slot != SLOT_NONE && req->decode.slot == req->prefill.slot)
        return "a hand-off from a worker to itself";
    if (req->n_emitted > req->spec.sampling.max_new)
        return "more tokens than were asked for";
    if (req->n_losses >= 8)
        return "more losses than the budget";
    const char *flaw = router_check_part(router, &req->prefill);
    return flaw ? flaw : router_check_part(router, &req->decode);
}

static uint32_t router_check_count(const struct list *head) {
    uint32_t n = 0;
    for (const struct list *link = head->next; link != head; link = link->next)
        n++;
    return n;
}

/* What a slot's state says of its link, its refusal and its name. */
static const char *router_check_slot(const struct router *router, const struct slot *slot) {
    if (slot->state == SLOT_FREE)
        return slot->linked ? "a free slot has a link" : NULL;
    if (slot->state == SLOT_LOADING)
        return slot->linked ? "a loading slot has a link" : NULL;
    if (!slot->linked && slot->state != SLOT_REFUSED)
        return "a worker has a slot and no link";
    bool is_kept_out = slot->state == SLOT_REFUSED || slot->state == SLOT_RIVAL;
    if (is_kept_out && slot->refusal == REFUSAL_NONE)
        return "a worker is refused for no reason";
    const struct router_config *own = &router->config;
    if (!slot_in_session(slot))
        return NULL;
    if (memcmp(slot->welcome.model_fp, own->model_fp, FINGERPRINT_BYTES) != 0 ||
        memcmp(slot->welcome.tokenizer_fp, own->tokenizer_fp, FINGERPRINT_BYTES) != 0)
        return "a worker of another model is in session";
    for (uint32_t i = 0; i < slot->number; i++) {
        const struct slot *other = &router->fleet.slots[i];
        if (slot_in_session(other) && fleet_same_name(other->announce.name, slot->announce.name))
            return "two workers of one name are in session";
    }
    return NULL;
}

static const char *router_check_fleet(const struct router *router) {
    const struct fleet *fleet = &router->fleet;
    uint32_t n_ready = 0;
    for (uint32_t i = 0; i < fleet->n_slots; i++) {
        const struct slot *slot = &fleet->slots[i];
        n_ready += slot->state == SLOT_READY;
        const char *flaw = router_check_slot(router, slot);
        if (flaw)
            return flaw;
        uint32_t n = router_check_count(&slot->prefills) + router_check_count(&slot->decodes);
        if (n != slot->n_assigned)
            return "a slot's count of attempts is wrong";
        if (slot->n_unreflected > n || (n == 0 && slot->tokens_unreflected != 0))
            return "a slot's unreported load is wrong";
        if (slot->n_forgets != 0)
            return "a FORGET was left over";
        if (slot->loss != LOSS_NONE || !list_empty(&slot->lost))
            return "a worker's losses were not replayed";
    }
    return n_ready == fleet->n_ready ? NULL : "the count of ready workers is wrong";
}

const char *router_check(const struct router *router) {
    const struct router_stats *stats = &router->stats;
    uint32_t n_used = 0;
    for (uint32_t i = 0; i < router->requests.n_fresh; i++) {
        const struct request *req = &router->requests.all[i];
        n_used += req->state != REQUEST_FREE;
        const char *flaw = router_check_request(router, req);
        if (flaw)
            return flaw;
    }
    if (n_used != router->requests.n_used)
        return "the pool's count is wrong";
    if (stats->n_admitted + router->n_turned_away !=
        stats->n_completed + stats->n_failed + stats->n_cancelled + stats->n_refused + n_used)
        return "requests in are not requests out";
    if (router->alone != SLOT_NONE && router->requests.all[router->alone].state == REQUEST_FREE)
        return "no request runs alone, yet a worker is kept for one";
    const char *flaw = router_check_queue(router);
    if (!flaw)
        flaw = turns_check(&router->turns, router->n_waiting);
    return flaw ? flaw : router_check_fleet(router);
}
