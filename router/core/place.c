#include "router/core/place.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/finish.h"
#include "router/core/fleet.h"
#include "router/core/note.h"
#include "router/core/pairs.h"
#include "router/core/replay.h"
#include "router/core/roles.h"
#include "router/core/trust.h"

#include <string.h>

#define PREFILL_TOKENS_PER_SEQUENCE 512 /* how queued prompt tokens count as load */

enum { TAKES_PREFILL = 1, TAKES_DECODE = 2, TAKES_BOTH = 4 };

static unsigned takes(const struct router *router, const struct slot *slot) {
    if (slot->welcome.role == ROLE_PREFILL && pairs_cut_off(router, slot))
        return TAKES_BOTH; /* it hands over to none: whole requests */
    switch (slot->welcome.role) {
    case ROLE_PREFILL:
        return TAKES_PREFILL;
    case ROLE_DECODE:
        return TAKES_DECODE;
    default:
        return TAKES_BOTH;
    }
}

static bool same_numerics(const struct slot *slot, const struct request *req) {
    return memcmp(slot->welcome.numerics_fp, req->numerics, FINGERPRINT_BYTES) == 0;
}

/* Room aside, may this request go there? */
static bool fits(const struct router *router, const struct slot *slot, const struct request *req) {
    return trust_can_hold(slot, req) && trust_badness(router, req, slot) <= req->leeway;
}

static bool open_to_others(const struct router *router, const struct slot *slot) {
    return router->alone == SLOT_NONE || router->alone_slot != slot->number;
}

/* Sequences there: what it reports and what it cannot know of yet; never fewer than ours. */
static uint32_t slot_sequences(const struct slot *slot) {
    uint64_t n = (uint64_t)slot->load.n_running + slot->load.n_waiting + slot->n_unreflected;
    n = n < slot->n_assigned ? slot->n_assigned : n;
    return n < UINT32_MAX / 2 ? (uint32_t)n : UINT32_MAX / 2;
}

static uint32_t slot_load(const struct slot *slot, enum policy_stage stage) {
    uint32_t load = slot_sequences(slot);
    if (stage == POLICY_PREFILL)
        load += (uint32_t)((slot->load.prefill_tokens_queued + slot->tokens_unreflected) /
                           PREFILL_TOKENS_PER_SEQUENCE);
    return load;
}

static bool has_room(const struct router *router, const struct slot *slot) {
    return slot_sequences(slot) < slot->welcome.max_seqs && slot->busy_until_ns <= router->now_ns;
}

/* An attempt that brought nothing may have cost seconds already: the next one goes where the last
 * answer was good, if such a worker has room, before any of which nothing is known yet. */
static uint32_t keep_proved(const struct router *router, uint32_t n) {
    struct policy_candidate *all = router->candidates;
    uint32_t n_proved = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (router->fleet.slots[all[i].slot].trust.proved)
            all[n_proved++] = all[i];
    }
    return n_proved > 0 ? n_proved : n;
}

/* What the search found, beside a choice. */
struct found {
    uint32_t slot;     /* SLOT_NONE: nobody */
    uint32_t n_fit;    /* who could take it, if there were room */
    uint32_t n_closed; /* who is kept for the request that runs alone */
};

struct search {
    enum policy_stage stage;
    unsigned takes;             /* of these kinds */
    bool exact;                 /* of the request's own numerics only */
    const struct slot *partner; /* must pair with this one; NULL: none */
    bool equal;                 /* and compute the same bits */
    bool blocks;                /* and have blocks for it, by what they announced */
};

static struct found search_slot(struct router *router, const struct request *req,
                                struct search search) {
    struct found found = {.slot = SLOT_NONE};
    uint32_t n = 0;
    for (uint32_t i = 0; i < router->fleet.n_seen; i++) {
        const struct slot *slot = &router->fleet.slots[i];
        if (!fits(router, slot, req) || !(takes(router, slot) & search.takes) ||
            (search.exact && !same_numerics(slot, req)) || slot == search.partner ||
            (search.partner &&
             !(fleet_pairs(slot, search.partner) && pairs_may(router, slot, search.partner))) ||
            (search.equal && !fleet_equals(slot, search.partner)))
            continue;
        if (!open_to_others(router, slot)) {
            found.n_closed++;
            continue;
        }
        found.n_fit++;
        if (has_room(router, slot) &&
            (!search.blocks || roles_has_blocks(slot, request_n_tokens(req))))
            router->candidates[n++] =
                (struct policy_candidate){.slot = i, .load = slot_load(slot, search.stage)};
    }
    if (n == 0)
        return found;
    if (req->n_losses > 0)
        n = keep_proved(router, n);
    struct policy_query query = {
        .stage = search.stage,
        .candidates = router->candidates,
        .n = n,
        .hashes = req->spec.hashes,
        .n_hashes = req->spec.n_hashes,
        .random = &router->random,
    };
    uint32_t chosen = router->policy->pick(router->policy_state, &query);
    ASSERT(chosen < n);
    found.slot = router->candidates[chosen].slot;
    return found;
}

/* Is there a worker that would continue this stream bit for bit? Full ones count: wait for them. */
static bool exact_exists(const struct router *router, const struct request *req) {
    if (!req->has_numerics)
        return false;
    fleet_each(slot, &router->fleet) {
        if (fits(router, slot, req) && same_numerics(slot, req))
            return true;
    }
    return false;
}

static uint32_t uncached_tokens(const struct router *router, const struct request *req,
                                const struct slot *slot) {
    uint32_t n_tokens = request_n_tokens(req), cached = 0;
    if (router->policy->cached)
        cached = router->policy->cached(router->policy_state, slot->number, req->spec.hashes,
                                        req->spec.n_hashes);
    uint64_t cached_tokens = (uint64_t)cached * slot->welcome.kv.block_tokens;
    return cached_tokens < n_tokens ? n_tokens - (uint32_t)cached_tokens : 0;
}

/* Nobody could ever take it as things are: wait for a worker to come, or give up. */
static enum turn nobody_fits(struct router *router, struct request *req, bool closed) {
    if (router->fleet.n_ready == 0) {
        note_waits(router, req, "no_worker");
        return TURN_FULL; /* admit_tick() ends the wait when no worker comes */
    }
    if (closed) {
        note_waits(router, req, "kept_for_another");
        return TURN_WAIT;
    }
    /* Those that are left are too small for it, but it had a worker before: that one may come back,
     * and a stream that has begun waits as long as if none were left at all. */
    if (req->n_emitted > 0) {
        if (req->unfit_ns == 0)
            req->unfit_ns = router->now_ns;
        uint64_t give_up = req->unfit_ns + router->config.no_worker_wait_ns;
        if (router->now_ns < give_up) {
            note_waits(router, req, "too_long_for_the_rest");
            timers_pull(&router->timers, req->index, give_up);
            return TURN_WAIT;
        }
    }
    if (trust_known_nowhere(router, req))
        finish_unplaced(router, req, STATUS_CLOSED, REASON_GRAMMAR);
    else
        finish_unplaced(router, req, STATUS_LIMIT, REASON_TOO_LONG);
    return TURN_ENDED;
}

static bool is_better_alone(const struct slot *slot, const struct slot *best) {
    if (slot->trust.proved != best->trust.proved)
        return slot->trust.proved;
    return slot->n_assigned < best->n_assigned;
}

/* Three losses in a row: it may be what kills workers. It gets one to itself; others move away. */
static enum turn place_alone(struct router *router, struct request *req, bool exact) {
    if (router->alone != SLOT_NONE) {
        note_waits(router, req, "another_runs_alone");
        return TURN_WAIT;
    }
    struct slot *best = NULL;
    fleet_each(slot, &router->fleet) {
        if (fits(router, slot, req) && (!exact || same_numerics(slot, req)) &&
            (!best || is_better_alone(slot, best)))
            best = slot;
    }
    if (!best)
        return nobody_fits(router, req, false);
    router->alone = req->index;
    router->alone_slot = best->number;
    note_request(router, NOTE_ALONE, req, best);
    replay_all(router, best, LOSS_MOVED);
    req->to_decode = best->number;
    req->to_prefill = SLOT_NONE;
    req->choice = "alone";
    return TURN_NEXT;
}

/* Who prefills for this decode worker: one of equal numerics; where there is none at all, one of
 * others (another tensor-parallel size), and the stream is counted as inexact. A continuation that
 * the decode worker alone can keep exact is left to it. */
static uint32_t find_partner(struct router *router, const struct request *req,
                             const struct slot *to, bool exact) {
    struct search search = {.stage = POLICY_PREFILL,
                            .takes = TAKES_PREFILL,
                            .exact = exact,
                            .partner = to,
                            .equal = true};
    struct found found = search_slot(router, req, search);
    if (found.slot != SLOT_NONE || found.n_fit + found.n_closed > 0 || exact)
        return found.slot;
    search.equal = false;
    return search_slot(router, req, search).slot;
}

/* Where it decodes: roles are preferences, and yield where nobody of the right one is left, or has
 * blocks. */
static struct found find_decode(struct router *router, struct request *req, bool exact) {
    bool by_load = router->config.roles == ROLES_LOAD;
    struct search search = {.stage = POLICY_DECODE,
                            .takes = TAKES_DECODE | TAKES_BOTH,
                            .exact = exact,
                            .blocks = by_load};
    req->choice = exact ? "same_numerics" : "policy";
    struct found decode = search_slot(router, req, search);
    if (decode.slot != SLOT_NONE)
        return decode;
    search.takes = TAKES_PREFILL;
    if (decode.n_fit + decode.n_closed == 0) {
        req->choice = "only_prefill_workers";
        search.blocks = false;
        return search_slot(router, req, search);
    }
    struct found yields = by_load ? search_slot(router, req, search) : decode;
    if (yields.slot != SLOT_NONE) {
        req->choice = "decode_workers_full";
        return yields;
    }
    search.takes = TAKES_DECODE | TAKES_BOTH;
    search.blocks = false;
    return by_load ? search_slot(router, req, search) : decode;
}

enum turn place_request(struct router *router, struct request *req) {
    ASSERT(req->state == REQUEST_WAITING);
    if (req->hold_ns > router->now_ns) {
        note_waits(router, req, "rests_after_a_loss");
        return TURN_WAIT;
    }
    req->leeway = trust_least_badness(router, req);
    bool exact = exact_exists(router, req);
    if (req->alone)
        return place_alone(router, req, exact);
    struct found decode = find_decode(router, req, exact);
    if (decode.slot == SLOT_NONE) {
        if (decode.n_fit > 0) {
            note_waits(router, req, "no_room");
            /* One that avoids workers, or goes on at some alone, says nothing of those behind it. */
            return req->n_replays > 0 || req->outgrown || exact ? TURN_WAIT : TURN_FULL;
        }
        return nobody_fits(router, req, decode.n_closed > 0);
    }
    const struct slot *to = &router->fleet.slots[decode.slot];
    req->to_decode = decode.slot;
    req->to_prefill = SLOT_NONE;
    if (to->welcome.role != ROLE_DECODE)
        return TURN_NEXT;
    uint32_t n_uncached = uncached_tokens(router, req, to);
    if (n_uncached > router->config.local_prefill_tokens)
        req->to_prefill = find_partner(router, req, to, exact);
    if (req->to_prefill != SLOT_NONE && router->config.roles == ROLES_LOAD &&
        roles_prefill_here(&router->fleet.slots[req->to_prefill], to, n_uncached)) {
        req->to_prefill = SLOT_NONE;
        req->choice = "prefill_workers_busy";
    }
    return TURN_NEXT;
}

uint32_t place_room(const struct router *router) {
    uint64_t prefill = 0, decode = 0, both = 0;
    bool any_good = trust_any_good(router);
    fleet_each(slot, &router->fleet) {
        if (slot->state != SLOT_READY || (any_good && slot->trust.is_aside) ||
            !open_to_others(router, slot) || !has_room(router, slot))
            continue;
        uint32_t room = slot->welcome.max_seqs - slot_sequences(slot);
        unsigned kind = takes(router, slot);
        *(kind == TAKES_PREFILL ? &prefill : kind == TAKES_DECODE ? &decode : &both) += room;
    }
    /* Roles are preferences: a kind that is alone does both. */
    uint64_t pairs = prefill == 0 || (decode > 0 && decode < prefill) ? decode : prefill;
    if (decode == 0 && both > 0)
        pairs = 0; /* decode workers are full: only those that do both have a place */
    return both + pairs < UINT32_MAX ? (uint32_t)(both + pairs) : UINT32_MAX;
}
