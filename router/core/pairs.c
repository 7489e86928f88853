#include "router/core/pairs.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"

static struct pair *pairs_find(struct slot *slot, uint32_t with) {
    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        if (slot->pairs[i].for_ns > 0 && slot->pairs[i].with == with)
            return &slot->pairs[i];
    }
    return NULL;
}

/* Its record, or a free one, or the one that is over first. */
static struct pair *pairs_find_or_make(struct slot *slot, uint32_t with) {
    struct pair *pair = pairs_find(slot, with);
    if (pair)
        return pair;
    pair = &slot->pairs[0];
    for (uint32_t i = 1; i < PAIRS_MAX && pair->for_ns > 0; i++) {
        if (slot->pairs[i].for_ns == 0 || slot->pairs[i].until_ns < pair->until_ns)
            pair = &slot->pairs[i];
    }
    if (pair->for_ns == 0)
        slot->n_pairs++;
    *pair = (struct pair){.with = with};
    return pair;
}

static void pairs_drop(struct slot *slot, uint32_t with) {
    struct pair *pair = pairs_find(slot, with);
    if (!pair)
        return;
    *pair = (struct pair){0};
    slot->n_pairs--;
}

static bool pairs_avoids(const struct router *router, const struct slot *slot, uint32_t with) {
    if (slot->n_pairs == 0)
        return false;
    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        const struct pair *pair = &slot->pairs[i];
        if (pair->for_ns > 0 && pair->with == with)
            return router->now_ns < pair->until_ns;
    }
    return false;
}

bool pairs_may(const struct router *router, const struct slot *a, const struct slot *b) {
    return !pairs_avoids(router, a, b->number) && !pairs_avoids(router, b, a->number);
}

static bool pairs_are_partners(const struct slot *a, const struct slot *b) {
    return ((a->welcome.role == ROLE_PREFILL && b->welcome.role == ROLE_DECODE) ||
            (a->welcome.role == ROLE_DECODE && b->welcome.role == ROLE_PREFILL)) &&
           b->state == SLOT_READY && fleet_pairs(a, b);
}

bool pairs_cut_off(const struct router *router, const struct slot *slot) {
    if (slot->n_pairs == 0)
        return false;
    bool has_partner = false;
    fleet_each(other, &router->fleet) {
        if (!pairs_are_partners(slot, other))
            continue;
        if (pairs_may(router, slot, other))
            return false;
        has_partner = true;
    }
    return has_partner;
}

static void pairs_look(struct router *router, struct slot *slot, uint64_t for_ns) {
    bool was_cut_off = slot->is_cut_off;
    slot->is_cut_off = pairs_cut_off(router, slot);
    if (slot->is_cut_off && !was_cut_off)
        note_worker(router, NOTE_CUT_OFF, slot, "no_hand_over_works", for_ns / NS_PER_MS, 0);
}

void pairs_failed(struct router *router, const struct request *req, const char *why) {
    struct slot *prefill = fleet_slot(&router->fleet, req->prefill.slot);
    struct slot *decode = fleet_slot(&router->fleet, req->decode.slot);
    struct pair *one = pairs_find_or_make(decode, prefill->number);
    if (one->for_ns > 0 && !one->on_trial && router->now_ns < one->until_ns)
        return; /* of an attempt that began before it was avoided */
    uint64_t for_ns = one->for_ns > 0 ? 2 * one->for_ns : PAIRS_AVOIDED_NS;
    for_ns = for_ns < PAIRS_AVOIDED_MAX ? for_ns : PAIRS_AVOIDED_MAX;
    one->for_ns = for_ns;
    one->on_trial = false;
    one->until_ns = router->now_ns + for_ns;
    struct pair *other = pairs_find_or_make(prefill, decode->number);
    *other = *one;
    other->with = decode->number;
    router->stats.n_pairs_failed++;
    note_pair(router, prefill, decode, why, for_ns / NS_PER_MS);
    pairs_look(router, decode, for_ns);
    pairs_look(router, prefill, for_ns);
}

void pairs_worked(struct router *router, const struct request *req) {
    struct slot *prefill = fleet_slot(&router->fleet, req->prefill.slot);
    struct slot *decode = fleet_slot(&router->fleet, req->decode.slot);
    if (prefill->n_pairs == 0 && decode->n_pairs == 0)
        return;
    pairs_drop(prefill, decode->number);
    pairs_drop(decode, prefill->number);
    prefill->is_cut_off = decode->is_cut_off = false;
}

static void pairs_try_again(struct router *router, struct slot *slot, uint32_t with) {
    struct pair *pair = slot->n_pairs > 0 ? pairs_find(slot, with) : NULL;
    if (!pair)
        return;
    pair->on_trial = true;
    pair->until_ns = router->now_ns + PAIRS_TRIAL_NS;
}

void pairs_begin(struct router *router, uint32_t prefill, uint32_t decode) {
    pairs_try_again(router, fleet_slot(&router->fleet, prefill), decode);
    pairs_try_again(router, fleet_slot(&router->fleet, decode), prefill);
}

void pairs_forget(struct router *router, const struct slot *slot) {
    for (uint32_t i = 0; i < router->fleet.n_seen; i++) {
        if (router->fleet.slots[i].n_pairs > 0)
            pairs_drop(&router->fleet.slots[i], slot->number);
    }
}
