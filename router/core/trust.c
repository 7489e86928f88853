#include "router/core/trust.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/note.h"

#define ANSWERS_MASK ((1u << TRUST_ANSWERS) - 1)

/* Badness: below FAILED_ASIDE by how long it was put aside for, as a power of two. */
enum { BAD_FAILED_THIS = 1, BAD_ASIDE = 2, BAD_ASIDE_FAILED_THIS = 32 };

enum standing trust_standing(const struct router *router, const struct slot *slot) {
    if (!slot->trust.is_aside)
        return STANDING_GOOD;
    return router->now_ns < slot->trust.until_ns ? STANDING_ASIDE : STANDING_TRIAL;
}

static uint32_t n_failed(const struct trust *trust) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < TRUST_ANSWERS; i++)
        n += trust->answers >> i & 1;
    return n;
}

static void begin_epoch(struct trust *trust) {
    trust->epoch++;
    trust->n_trials = 0;
}

static void put_aside(struct router *router, struct slot *slot, const char *why) {
    struct trust *trust = &slot->trust;
    bool again = trust->for_ns > 0 &&
                 (trust->is_aside || router->now_ns - trust->back_ns < TRUST_AGAIN * trust->for_ns);
    trust->was_for_ns = trust->for_ns;
    trust->for_ns = again ? 2 * trust->for_ns : TRUST_ASIDE_NS;
    if (trust->for_ns > TRUST_ASIDE_NS_MAX)
        trust->for_ns = TRUST_ASIDE_NS_MAX;
    trust->is_aside = true;
    trust->proved = false;
    trust->until_ns = router->now_ns + trust->for_ns;
    trust->why = why;
    note_worker(router, NOTE_ASIDE, slot, why, n_failed(trust), trust->for_ns / NS_PER_MS);
    trust->answers = 0;
    begin_epoch(trust);
    router->stats.n_put_aside++;
    router->queue_due = true; /* who waited for it may go elsewhere */
}

static void end_aside(struct router *router, struct slot *slot, const char *why) {
    struct trust *trust = &slot->trust;
    trust->is_aside = false;
    trust->back_ns = router->now_ns;
    begin_epoch(trust);
    note_worker(router, NOTE_TRUSTED, slot, why, trust->for_ns / NS_PER_MS, 0);
    router->queue_due = true;
}

/* Another worker failed the same request: the mark of the first one is taken back. */
static void excuse_first(struct router *router, const struct request *req) {
    struct slot *first = fleet_slot(&router->fleet, req->blamed);
    struct trust *trust = &first->trust;
    if (trust->excused || trust->serial != req->blamed_serial)
        return;
    trust->excused = true;
    trust->answers >>= 1;
    if (!trust->is_aside)
        return;
    end_aside(router, first, "another_agrees");
    trust->for_ns = trust->was_for_ns;
}

void trust_failed(struct router *router, struct request *req, struct slot *slot, const char *why,
                  bool at_once) {
    struct trust *trust = &slot->trust;
    const struct part *part = request_part(req, slot->number);
    ASSERT(part);
    bool agrees = req->blamed != SLOT_NONE && req->blamed != slot->number;
    request_set_failed(req, slot->number);
    if (agrees)
        excuse_first(router, req);
    req->blamed = slot->number;
    trust->proved = false;
    if (part->epoch != trust->epoch) { /* it was judged since */
        req->blamed_serial = trust->serial - 1;
        return;
    }
    req->blamed_serial = ++trust->serial;
    if (agrees && !trust->excused && !trust->is_aside) {
        trust->excused = true;
        return;
    }
    trust->answers = (uint8_t)((trust->answers << 1 | 1u) & ANSWERS_MASK);
    if (at_once || trust->is_aside || n_failed(trust) >= TRUST_FAILURES)
        put_aside(router, slot, why);
}

void trust_hung(struct router *router, struct slot *slot) {
    struct trust *trust = &slot->trust;
    if (trust->hung || trust->is_aside)
        put_aside(router, slot, "hung");
    trust->hung = true;
    trust->proved = false;
}

void trust_answered(struct router *router, struct part *part) {
    struct slot *slot = fleet_slot(&router->fleet, part->slot);
    struct trust *trust = &slot->trust;
    if (part->epoch != trust->epoch)
        return;
    trust->serial++;
    trust->answers = (uint8_t)(trust->answers << 1 & ANSWERS_MASK);
    trust->hung = false;
    trust->proved = true;
    trust->excused = false;
    if (trust->is_aside)
        end_aside(router, slot, "answered");
}

static bool is_possible(const struct load *load) {
    uint64_t blocks = (uint64_t)load->blocks_free + load->blocks_used + load->blocks_reserved +
                      load->blocks_quarantined + load->blocks_cached;
    return load->step_us_expected <= MESSAGE_STEP_US_MAX && blocks <= load->blocks_total;
}

void trust_figures(struct router *router, struct slot *slot, const struct load *load) {
    if (!is_possible(load) && trust_standing(router, slot) != STANDING_ASIDE)
        put_aside(router, slot, "impossible_figures");
}

void trust_inherits(struct slot *slot, const struct trust *trust) {
    slot->trust = *trust;
    slot->trust.proved = false;
    begin_epoch(&slot->trust);
}

bool trust_has_record(const struct slot *slot) {
    const struct trust *trust = &slot->trust;
    return trust->answers != 0 || trust->hung || trust->for_ns > 0;
}

void trust_joins(struct slot *slot, struct part *part) {
    part->epoch = slot->trust.epoch;
    part->on_trial = slot->trust.is_aside;
    slot->trust.n_trials += part->on_trial;
}

void trust_leaves(struct slot *slot, const struct part *part) {
    if (part->on_trial && part->epoch == slot->trust.epoch) {
        ASSERT(slot->trust.n_trials > 0);
        slot->trust.n_trials--;
    }
}

void trust_tokens(struct router *router, struct part *part, uint32_t n) {
    part->n_given += n;
    if (part->n_given < TRUST_TRIAL_TOKENS)
        return;
    part->on_trial = false;
    struct slot *slot = fleet_slot(&router->fleet, part->slot);
    if (part->epoch == slot->trust.epoch)
        slot->trust.n_trials--;
    trust_answered(router, part);
}

static bool knows_all_of(const struct slot *slot, const struct request *req) {
    const struct sampling *sampling = &req->spec.sampling;
    if (sampling->n_grammar == 0)
        return true;
    bool has_strings = sampling->grammar[0] == MESSAGE_GRAMMAR_STRINGS;
    return slot->welcome.minor >= (has_strings ? PROTO_MINOR_STRINGS : PROTO_MINOR_GRAMMAR);
}

bool trust_can_hold(const struct slot *slot, const struct request *req) {
    if (!knows_all_of(slot, req))
        return false;
    return slot->state == SLOT_READY && !request_too_long(req, slot->number) &&
           request_n_tokens(req) < slot->welcome.context;
}

static uint32_t times_doubled(const struct trust *trust) {
    uint32_t n = 0;
    for (uint64_t ns = TRUST_ASIDE_NS; ns < trust->for_ns; ns *= 2)
        n++;
    return n;
}

/* A trial is for a request that nothing speaks against: its failure must tell of the worker. */
static bool may_try(const struct router *router, const struct request *req,
                    const struct slot *slot) {
    return trust_standing(router, slot) == STANDING_TRIAL && slot->trust.n_trials == 0 &&
           req->n_losses == 0;
}

uint32_t trust_badness(const struct router *router, const struct request *req,
                       const struct slot *slot) {
    bool failed_this = request_failed_at(req, slot->number);
    if (!slot->trust.is_aside || (!failed_this && may_try(router, req, slot)))
        return failed_this ? BAD_FAILED_THIS : 0;
    return (failed_this ? BAD_ASIDE_FAILED_THIS : BAD_ASIDE) + times_doubled(&slot->trust);
}

uint32_t trust_least_badness(const struct router *router, const struct request *req) {
    uint32_t least = UINT32_MAX;
    fleet_each(slot, &router->fleet) {
        if (!trust_can_hold(slot, req))
            continue;
        uint32_t badness = trust_badness(router, req, slot);
        least = badness < least ? badness : least;
    }
    return least;
}

bool trust_known_nowhere(const struct router *router, const struct request *req) {
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_READY && knows_all_of(slot, req))
            return false;
    }
    return true;
}

bool trust_another(const struct router *router, const struct request *req) {
    fleet_each(slot, &router->fleet) {
        if (trust_can_hold(slot, req) && !request_failed_at(req, slot->number))
            return true;
    }
    return false;
}

bool trust_any_good(const struct router *router) {
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_READY && !slot->trust.is_aside)
            return true;
    }
    return false;
}
