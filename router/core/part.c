#include "router/core/part.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/fleet.h"

void part_join(struct router *router, struct part *part, uint32_t number, bool prefill,
               uint32_t n_tokens) {
    struct slot *slot = fleet_slot(&router->fleet, number);
    ASSERT(part->slot == SLOT_NONE);
    *part = (struct part){.slot = number,
                          .last_state = UINT8_MAX,
                          .sent_seq = UINT64_MAX,
                          .sent_ns = UINT64_MAX,
                          .queued_own_ns = UINT64_MAX,
                          .n_tokens = n_tokens,
                          .silent_ns = fleet_silent_own_ns(router, slot),
                          .epoch = slot->trust->epoch};
    list_push_back(prefill ? &slot->prefills : &slot->decodes, &part->link);
    slot->n_assigned++;
    slot->n_unreflected++;
    slot->tokens_unreflected += n_tokens;
}

void part_advanced(struct router *router, struct request *req) {
    struct part *parts[2] = {&req->decode, &req->prefill};
    req->advanced_own_ns = router->own_ns;
    for (int i = 0; i < 2; i++) {
        if (parts[i]->slot != SLOT_NONE)
            parts[i]->silent_ns =
                fleet_silent_own_ns(router, fleet_slot(&router->fleet, parts[i]->slot));
    }
}

void part_reflected(struct router *router, struct slot *slot, struct part *part) {
    if (part->reflected)
        return;
    part->reflected = true;
    /* What was counted twice is room. */
    router->queue_due = router->queue_due || router->n_waiting > 0;
    ASSERT(slot->n_unreflected > 0);
    ASSERT(slot->tokens_unreflected >= part->n_tokens);
    slot->n_unreflected--;
    slot->tokens_unreflected -= part->n_tokens;
}

void part_leave(struct router *router, struct part *part) {
    if (part->slot == SLOT_NONE)
        return;
    struct slot *slot = fleet_slot(&router->fleet, part->slot);
    part_reflected(router, slot, part);
    list_remove(&part->link);
    part->slot = SLOT_NONE;
    ASSERT(slot->n_assigned > 0);
    slot->n_assigned--;
    router->queue_due = true;
}
