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

/* Of a worker's places, for tenants of whose requests none has a worker: a quarter, at most so many. It
 * has four times those of a batch, or where that would be too many, hardly more than a batch, which is
 * to be full. */
#define KEPT_SHARE 4
#define KEPT_MOST  32

enum { TAKES_PREFILL = 1, TAKES_DECODE = 2, TAKES_BOTH = 4 };

static unsigned place_takes(const struct router *router, const struct slot *slot) {
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

static bool place_same_numerics(const struct slot *slot, const struct request *req) {
    return memcmp(slot->welcome.numerics_fp, req->numerics, FINGERPRINT_BYTES) == 0;
}

static bool place_open_to_others(const struct router *router, const struct slot *slot) {
    return router->alone == SLOT_NONE || router->alone_slot != slot->number;
}

static uint32_t place_u32(uint64_t n) {
    return n < UINT32_MAX / 2 ? (uint32_t)n : UINT32_MAX / 2;
}

/* Sequences there: what it reports or, if that is more, ours. */
static uint32_t place_slot_known(const struct slot *slot) {
    uint64_t n = (uint64_t)slot->load.n_running + slot->load.n_waiting;
    return place_u32(n < slot->n_assigned ? slot->n_assigned : n);
}

/* The same and what it cannot know of yet: too many, where it reports of some already of which it has not said so. */
static uint32_t place_slot_sequences(const struct slot *slot) {
    uint64_t n = (uint64_t)slot->load.n_running + slot->load.n_waiting + slot->n_unreflected;
    return place_u32(n < slot->n_assigned ? slot->n_assigned : n);
}

static uint32_t place_slot_load(const struct slot *slot, enum policy_stage stage) {
    uint32_t load = place_slot_sequences(slot);
    if (stage == POLICY_PREFILL)
        load += (uint32_t)((slot->load.prefill_tokens_queued + slot->tokens_unreflected) /
                           PREFILL_TOKENS_PER_SEQUENCE);
    return load;
}

/* What a request may take of a worker's places. */
enum claim {
    CLAIM_ALL,   /* no tenant is named: whatever there is */
    CLAIM_SOME,  /* its tenant has workers: none of the kept ones */
    CLAIM_LATE,  /* its tenant has none: kept ones too, by what is known to be there */
    CLAIM_WHOLE, /* the same, and a hand-over was refused: one worker is to do both and lets it in */
};

static enum claim place_claim(const struct router *router, uint64_t tenant) {
    if (tenant == 0)
        return CLAIM_ALL;
    return turns_serves(&router->turns, tenant) ? CLAIM_SOME : CLAIM_LATE;
}

static enum claim place_claim_of(const struct router *router, const struct request *req) {
    enum claim claim = place_claim(router, req->spec.tenant);
    return claim == CLAIM_LATE && req->was_refused ? CLAIM_WHOLE : claim;
}

/* How many it could take by its places. */
static uint32_t place_n_free(const struct slot *slot, enum claim claim) {
    uint32_t n = slot->welcome.max_seqs;
    if (claim == CLAIM_SOME)
        n -= n / KEPT_SHARE < KEPT_MOST ? n / KEPT_SHARE : KEPT_MOST;
    bool is_late = claim == CLAIM_LATE || claim == CLAIM_WHOLE;
    uint32_t n_taken = is_late ? place_slot_known(slot) : place_slot_sequences(slot);
    return n > n_taken ? n - n_taken : 0;
}

/* Could it take another one at once? */
static bool place_is_free(const struct router *router, const struct slot *slot, enum claim claim) {
    return place_open_to_others(router, slot) && place_n_free(slot, claim) > 0 &&
           (slot->busy_until_ns <= router->now_ns || claim == CLAIM_WHOLE);
}

bool place_suits_others(const struct router *router, const struct request *req) {
    if (place_claim(router, req->spec.tenant) == CLAIM_ALL)
        return false;
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_READY && place_is_free(router, slot, CLAIM_LATE))
            return true;
    }
    return false;
}

/* An attempt that brought nothing may have cost seconds already: the next one goes where the last
 * answer was good, if such a worker has room, before any of which nothing is known yet. */
static uint32_t place_keep_proved(const struct router *router, uint32_t n) {
    struct policy_candidate *all = router->candidates;
    uint32_t n_proved = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (router->fleet.slots[all[i].slot].trust->proof == PROOF_GOOD)
            all[n_proved++] = all[i];
    }
    return n_proved > 0 ? n_proved : n;
}

/* The workers that a request may go to, room aside: router->fitting (n). */
struct fits {
    uint32_t n;
    bool exact; /* they would continue its stream bit for bit: full ones are waited for */
};

/* Of those that can hold it the least bad ones; of these the exact ones, where there are any. */
static struct fits place_find_fits(struct router *router, const struct request *req) {
    uint32_t n = 0, least = UINT32_MAX;
    fleet_each(slot, &router->fleet) {
        if (!trust_can_hold(slot, req))
            continue;
        bool inexact = req->has_numerics && !place_same_numerics(slot, req);
        uint32_t rank = 2 * trust_badness(router, req, slot) + inexact;
        if (rank > least)
            continue;
        n = rank < least ? 0 : n;
        least = rank;
        router->fitting[n++] = slot;
    }
    return (struct fits){.n = n, .exact = n > 0 && req->has_numerics && least % 2 == 0};
}

/* Those to choose from: router->candidates (n), of the least rank that was offered. */
struct place_search {
    enum policy_stage stage;
    uint32_t rank;
    uint32_t n;
    enum claim claim;
};

/* One without room is none to choose, and keeps those of higher ranks out all the same. */
static void place_offer(struct router *router, struct place_search *search, const struct slot *slot,
                        uint32_t rank) {
    if (rank > search->rank)
        return;
    search->n = rank < search->rank ? 0 : search->n;
    search->rank = rank;
    if (place_is_free(router, slot, search->claim))
        router->candidates[search->n++] = (struct policy_candidate){
            .slot = slot->number, .load = place_slot_load(slot, search->stage)};
}

/* SLOT_NONE: there is none to choose from. */
static uint32_t place_choose(struct router *router, const struct request *req,
                             struct place_search search) {
    if (search.n == 0)
        return SLOT_NONE;
    uint32_t n = req->n_losses > 0 ? place_keep_proved(router, search.n) : search.n;
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
    return router->candidates[chosen].slot;
}

static uint32_t place_uncached_tokens(const struct router *router, const struct request *req,
                                      const struct slot *slot) {
    uint32_t n_tokens = request_n_tokens(req), cached = 0;
    if (router->policy->cached)
        cached = router->policy->cached(router->policy_state, slot->number, req->spec.hashes,
                                        req->spec.n_hashes);
    uint64_t cached_tokens = (uint64_t)cached * slot->welcome.kv.block_tokens;
    return cached_tokens < n_tokens ? n_tokens - (uint32_t)cached_tokens : 0;
}

/* No worker could ever take it as things are: wait for a worker to come, or give up. */
static enum turn place_nobody_fits(struct router *router, struct request *req, bool closed) {
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

static bool place_is_better_alone(const struct slot *slot, const struct slot *best) {
    bool is_proved = slot->trust->proof == PROOF_GOOD;
    if (is_proved != (best->trust->proof == PROOF_GOOD))
        return is_proved;
    return slot->n_assigned < best->n_assigned;
}

/* Three losses in a row: it may be what kills workers. It gets one to itself; others move away. */
static enum turn place_alone(struct router *router, struct request *req, struct fits fits) {
    if (router->alone != SLOT_NONE) {
        note_waits(router, req, "another_runs_alone");
        return TURN_WAIT;
    }
    if (fits.n == 0)
        return place_nobody_fits(router, req, false);
    struct slot *best = router->fitting[0];
    for (uint32_t i = 1; i < fits.n; i++) {
        if (place_is_better_alone(router->fitting[i], best))
            best = router->fitting[i];
    }
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
 * others (another tensor-parallel size), and the stream is counted as inexact. */
static uint32_t place_find_partner(struct router *router, const struct request *req,
                                   struct fits fits, const struct slot *to) {
    struct place_search search = {
        .stage = POLICY_PREFILL, .rank = UINT32_MAX, .claim = place_claim_of(router, req)};
    for (uint32_t i = 0; i < fits.n; i++) {
        const struct slot *slot = router->fitting[i];
        if (place_takes(router, slot) != TAKES_PREFILL || !fleet_pairs(slot, to) ||
            !pairs_may(router, slot, to))
            continue;
        place_offer(router, &search, slot, fleet_equals(slot, to) ? 0 : 1);
    }
    return place_choose(router, req, search);
}

enum { RANK_DECODES, RANK_YIELDS, RANK_NO_BLOCKS };

struct found {
    uint32_t slot;  /* SLOT_NONE: no worker */
    bool is_full;   /* some could take it, if there were room */
    bool is_closed; /* some are kept for the request that runs alone */
};

/* Where it decodes: roles are preferences, and yield where no worker of the right one is left, or has
 * blocks. */
static struct found place_find_decode(struct router *router, struct request *req,
                                      struct fits fits) {
    bool by_load = router->config.roles == ROLES_LOAD, has_decode = false;
    struct found found = {.slot = SLOT_NONE};
    struct place_search search = {
        .stage = POLICY_DECODE, .rank = UINT32_MAX, .claim = place_claim_of(router, req)};
    for (uint32_t i = 0; i < fits.n; i++)
        has_decode |= place_takes(router, router->fitting[i]) != TAKES_PREFILL;
    for (uint32_t i = 0; i < fits.n; i++) {
        const struct slot *slot = router->fitting[i];
        bool yields = has_decode && place_takes(router, slot) == TAKES_PREFILL;
        bool blocks = !by_load || !has_decode || roles_has_blocks(slot, request_n_tokens(req));
        if (yields && !(by_load && blocks))
            continue;
        found.is_full |= !yields && place_open_to_others(router, slot);
        found.is_closed |= !yields && !place_open_to_others(router, slot);
        uint32_t rank = blocks ? RANK_DECODES : RANK_NO_BLOCKS;
        if (place_is_free(router, slot, search.claim))
            place_offer(router, &search, slot, yields ? RANK_YIELDS : rank);
    }
    found.slot = place_choose(router, req, search);
    req->choice = fits.exact ? "same_numerics" : "policy";
    if (!has_decode)
        req->choice = "only_prefill_workers";
    else if (search.rank == RANK_YIELDS)
        req->choice = "decode_workers_full";
    return found;
}

enum turn place_request(struct router *router, struct request *req) {
    ASSERT(req->state == REQUEST_WAITING);
    if (req->hold_ns > router->now_ns) {
        note_waits(router, req, "rests_after_a_loss");
        return TURN_WAIT;
    }
    struct fits fits = place_find_fits(router, req);
    if (req->alone)
        return place_alone(router, req, fits);
    struct found decode = place_find_decode(router, req, fits);
    if (decode.slot == SLOT_NONE) {
        if (decode.is_full) {
            note_waits(router, req, "no_room");
            /* One that avoids workers, or goes on at some alone, says nothing of those behind it. */
            return req->n_replays > 0 || req->outgrown || fits.exact ? TURN_WAIT : TURN_FULL;
        }
        return place_nobody_fits(router, req, decode.is_closed);
    }
    const struct slot *to = &router->fleet.slots[decode.slot];
    req->to_decode = decode.slot;
    req->to_prefill = SLOT_NONE;
    if (to->welcome.role != ROLE_DECODE)
        return TURN_NEXT;
    if (place_claim_of(router, req) == CLAIM_WHOLE) {
        req->choice = "late_tenant";
        return TURN_NEXT;
    }
    uint32_t n_uncached = place_uncached_tokens(router, req, to);
    if (n_uncached > router->config.local_prefill_tokens)
        req->to_prefill = place_find_partner(router, req, fits, to);
    if (req->to_prefill != SLOT_NONE && router->config.roles == ROLES_LOAD &&
        roles_prefill_here(&router->fleet.slots[req->to_prefill], to, n_uncached)) {
        req->to_prefill = SLOT_NONE;
        req->choice = "prefill_workers_busy";
    }
    return TURN_NEXT;
}

static uint32_t place_count_room(const struct router *router, enum claim claim) {
    uint64_t prefill = 0, decode = 0, both = 0;
    bool any_good = false;
    fleet_each(slot, &router->fleet) {
        if (slot->state != SLOT_READY)
            continue;
        bool is_good = trust_standing(router, slot) == STANDING_GOOD;
        if (is_good && !any_good)
            prefill = decode = both = 0; /* those that are put aside count where all are */
        any_good |= is_good;
        if (is_good != any_good || !place_is_free(router, slot, claim))
            continue;
        uint32_t room = place_n_free(slot, claim);
        unsigned kind = place_takes(router, slot);
        *(kind == TAKES_PREFILL ? &prefill : kind == TAKES_DECODE ? &decode : &both) += room;
    }
    /* Roles are preferences: a kind that is alone does both. */
    uint64_t pairs = prefill == 0 || (decode > 0 && decode < prefill) ? decode : prefill;
    if (decode == 0 && both > 0)
        pairs = 0; /* decode workers are full: only those that do both have a place */
    return both + pairs < UINT32_MAX ? (uint32_t)(both + pairs) : UINT32_MAX;
}

uint32_t place_room(const struct router *router, uint64_t tenant) {
    enum claim claim = place_claim(router, tenant);
    uint32_t n = place_count_room(router, claim == CLAIM_LATE ? CLAIM_SOME : claim);
    return n == 0 && claim == CLAIM_LATE && place_count_room(router, claim) > 0 ? 1 : n;
}
