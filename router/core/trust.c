#include "router/core/trust.h"

#include "base/assert.h"
#include "router/core/core.h"
#include "router/core/fleet.h"
#include "router/core/note.h"

#include <string.h>

#define ANSWERS_MASK ((1u << TRUST_ANSWERS) - 1)

/* Badness. One that is aside is the worse the more often it was put aside in a row. */
enum { BAD_FAILED_THIS = 1, BAD_ASIDE = 2, BAD_ASIDE_FAILED_THIS = 32 };
_Static_assert(BAD_ASIDE + TRUST_TIMES_MAX <= BAD_ASIDE_FAILED_THIS, "a request returns last");

enum standing trust_standing(const struct router *router, const struct slot *slot) {
    if (!slot->trust->why)
        return STANDING_GOOD;
    return router->now_ns < slot->trust->until_ns ? STANDING_ASIDE : STANDING_TRIAL;
}

static uint32_t trust_n_failed(const struct trust *trust) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < TRUST_ANSWERS; i++)
        n += trust->answers >> i & 1;
    return n;
}

/* How long the last time was; 0: never aside. */
static uint64_t trust_aside_ns(const struct trust *trust) {
    if (trust->n_times == 0)
        return 0;
    return trust->n_times < TRUST_TIMES_MAX ? TRUST_ASIDE_NS << (trust->n_times - 1)
                                            : TRUST_ASIDE_NS_MAX;
}

/* What went before is no proof any more. */
static void trust_doubt(struct trust *trust) {
    if (trust->proof == PROOF_GOOD)
        trust->proof = PROOF_NONE;
}

static void trust_put_aside(struct router *router, struct trust *trust, const char *why) {
    if (!trust->why && router->now_ns >= trust->until_ns)
        trust->n_times = 0; /* the last time is long ago */
    if (trust->n_times < TRUST_TIMES_MAX)
        trust->n_times++;
    trust->why = why;
    trust->until_ns = router->now_ns + trust_aside_ns(trust);
    note_name(router, NOTE_ASIDE, trust->name, why, trust_n_failed(trust),
              trust_aside_ns(trust) / NS_PER_MS);
    trust->answers = 0;
    trust->failed = 0;
    trust->epoch++;
    trust_doubt(trust);
    router->stats.n_put_aside++;
    router->queue_due = true; /* who waited for it may go elsewhere */
}

/* So many times in a row stay on its record. */
static void trust_end_aside(struct router *router, struct trust *trust, const char *why,
                            uint32_t n_times) {
    note_name(router, NOTE_TRUSTED, trust->name, why, trust_aside_ns(trust) / NS_PER_MS, 0);
    trust->why = NULL;
    trust->n_times = n_times;
    trust->until_ns = router->now_ns + TRUST_AGAIN * trust_aside_ns(trust);
    trust->epoch++;
    router->queue_due = true;
}

/* Another worker failed the same request: this one's failure is taken back, if it is the last that
 * is known of it, with the time aside that it began. */
static void trust_excuse(struct router *router, struct trust *trust, const struct request *req) {
    if (trust->excused || trust->failed != req->id.lo)
        return;
    trust->excused = true;
    trust->answers >>= 1;
    if (trust->why)
        trust_end_aside(router, trust, "another_agrees", trust->n_times - 1);
}

void trust_failed(struct router *router, struct request *req, struct slot *slot, const char *why,
                  bool at_once) {
    struct trust *trust = slot->trust;
    const struct part *part = request_part(req, slot->number);
    ASSERT(part);
    bool agrees = req->blamed && req->blamed != trust;
    request_set_failed(req, slot->number);
    if (agrees)
        trust_excuse(router, req->blamed, req);
    req->blamed = trust;
    trust_doubt(trust);
    if (part->epoch != trust->epoch) /* it was judged since */
        return;
    if (agrees && !trust->excused && !trust->why) {
        trust->excused = true;
        return;
    }
    trust->answers = (uint8_t)((trust->answers << 1 | 1u) & ANSWERS_MASK);
    if (at_once || trust->why || trust_n_failed(trust) >= TRUST_FAILURES)
        trust_put_aside(router, trust, why);
    trust->failed = req->id.lo;
}

void trust_hung(struct router *router, struct slot *slot) {
    struct trust *trust = slot->trust;
    if (trust->proof == PROOF_HUNG || trust->why)
        trust_put_aside(router, trust, "hung");
    trust->proof = PROOF_HUNG;
}

void trust_answered(struct router *router, struct part *part) {
    struct trust *trust = fleet_slot(&router->fleet, part->slot)->trust;
    if (part->epoch != trust->epoch)
        return;
    trust->answers = (uint8_t)(trust->answers << 1 & ANSWERS_MASK);
    trust->failed = 0;
    trust->excused = false;
    trust->proof = PROOF_GOOD;
    if (trust->why)
        trust_end_aside(router, trust, "answered", trust->n_times);
}

static bool trust_is_possible(const struct load *load) {
    uint64_t blocks = (uint64_t)load->blocks_free + load->blocks_used + load->blocks_reserved +
                      load->blocks_quarantined + load->blocks_cached;
    return load->step_us_expected <= MESSAGE_STEP_US_MAX && blocks <= load->blocks_total;
}

void trust_figures(struct router *router, struct slot *slot, const struct load *load) {
    if (!trust_is_possible(load) && trust_standing(router, slot) != STANDING_ASIDE)
        trust_put_aside(router, slot->trust, "impossible_figures");
}

/* The name of a worker whose slot it has still. */
static bool trust_is_held(const struct fleet *fleet, const struct trust *trust) {
    for (uint32_t i = 0; i < fleet->n_seen; i++) {
        if (fleet->slots[i].trust == trust && fleet->slots[i].state != SLOT_FREE)
            return true;
    }
    return false;
}

/* Nothing speaks against it, or its time is over first. */
static bool trust_is_missed_less(const struct trust *a, const struct trust *b) {
    bool a_is_clean = a->answers == 0 && a->n_times == 0 && a->proof != PROOF_HUNG;
    bool b_is_clean = b->answers == 0 && b->n_times == 0 && b->proof != PROOF_HUNG;
    return a_is_clean != b_is_clean ? a_is_clean : a->until_ns < b->until_ns;
}

struct trust *trust_of(struct fleet *fleet, const char *name) {
    struct trust *spare = NULL;
    for (uint32_t i = fleet->n_slots; i-- > 0;) { /* fresh ones are the last */
        struct trust *trust = &fleet->trusts[i];
        if (fleet_same_name(trust->name, name))
            return trust;
        if ((!spare || trust_is_missed_less(trust, spare)) && !trust_is_held(fleet, trust))
            spare = trust;
    }
    ASSERT(spare); /* there are as many as slots */
    *spare = (struct trust){0};
    memcpy(spare->name, name, sizeof spare->name);
    return spare;
}

void trust_left(struct slot *slot) {
    trust_doubt(slot->trust);
}

void trust_tokens(struct router *router, struct part *part, uint32_t n) {
    const struct trust *trust = fleet_slot(&router->fleet, part->slot)->trust;
    if (!trust->why || part->epoch != trust->epoch)
        return;
    part->n_given += n;
    if (part->n_given >= TRUST_TRIAL_TOKENS)
        trust_answered(router, part);
}

static bool trust_knows_all_of(const struct slot *slot, const struct request *req) {
    const struct sampling *sampling = &req->spec.sampling;
    if (sampling->n_grammar == 0)
        return true;
    bool has_strings = sampling->grammar[0] == MESSAGE_GRAMMAR_STRINGS;
    return slot->welcome.minor >= (has_strings ? PROTO_MINOR_STRINGS : PROTO_MINOR_GRAMMAR);
}

bool trust_can_hold(const struct slot *slot, const struct request *req) {
    if (!trust_knows_all_of(slot, req))
        return false;
    return slot->state == SLOT_READY && !request_too_long(req, slot->number) &&
           request_n_tokens(req) < slot->welcome.context;
}

static bool trust_tries(const struct list *parts, const struct trust *trust,
                        const struct request *req) {
    list_each_entry(part, parts, const struct part, link) {
        if (part->epoch == trust->epoch && part != &req->decode && part != &req->prefill)
            return true;
    }
    return false;
}

/* A trial is for one request that nothing speaks against: its failure must tell of the worker. */
static bool trust_may_try(const struct router *router, const struct request *req,
                          const struct slot *slot) {
    return trust_standing(router, slot) == STANDING_TRIAL && req->n_losses == 0 &&
           !trust_tries(&slot->prefills, slot->trust, req) &&
           !trust_tries(&slot->decodes, slot->trust, req);
}

uint32_t trust_badness(const struct router *router, const struct request *req,
                       const struct slot *slot) {
    bool failed_this = request_failed_at(req, slot->number);
    if (!slot->trust->why || (!failed_this && trust_may_try(router, req, slot)))
        return failed_this ? BAD_FAILED_THIS : 0;
    return (failed_this ? BAD_ASIDE_FAILED_THIS : BAD_ASIDE) + slot->trust->n_times - 1;
}

bool trust_known_nowhere(const struct router *router, const struct request *req) {
    fleet_each(slot, &router->fleet) {
        if (slot->state == SLOT_READY && trust_knows_all_of(slot, req))
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

bool trust_elsewhere(const struct router *router, const struct request *req,
                     const struct slot *slot) {
    fleet_each(other, &router->fleet) {
        if (other != slot && trust_can_hold(other, req) && fleet_equals(other, slot) &&
            !request_failed_at(req, other->number))
            return true;
    }
    return false;
}
