/* What tenants may expect, from the books of routers and workers. At a worker: a late one, of which
 * sequences wait and none runs, is let in before others, beyond a full batch, and with other tenants'
 * blocks where they keep as many. Each of its prompt's steps comes within a few of others'. So its
 * first token takes about twice its time alone, whatever waits or runs there. */
#include "tests/sim/judge.h"

#include "router/core/core.h"
#include "worker/core/engine_state.h"

#define LATE_PLANS                                                                                 \
    2 /* one may be too short of blocks: those that decode took what the last plan had left */

static bool runs(const struct sequence *sequence) {
    return sequence->serial != 0 &&
           (sequence->queue == QUEUE_PREFILL || sequence->queue == QUEUE_DECODE);
}

/* How many of its tenant's sequences run. */
static uint32_t n_running(const struct engine *engine, const struct sequence *of) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < engine->config.max_seqs; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        n += runs(sequence) && sequence->tenant == of->tenant;
    }
    return n;
}

bool tenant_is_late(const struct engine *engine, const struct sequence *sequence) {
    return n_running(engine, sequence) == 0;
}

const struct sequence *tenant_next(const struct engine *engine) {
    const struct sequence *first = NULL;
    list_each_entry(sequence, &engine->schedule.waiting, const struct sequence, at) {
        if (!first)
            first = sequence;
        if (sequence->priority == first->priority && tenant_is_late(engine, sequence))
            return sequence;
    }
    return first;
}

static uint32_t own_blocks(const struct engine *engine, const struct sequence *sequence) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < sequence->n_blocks; i++)
        n += engine->pool.holders[sequence->blocks[i]] == 1;
    return n;
}

static uint32_t blocks_of_tenant(const struct engine *engine, const struct sequence *of) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < engine->config.max_seqs; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        n += runs(sequence) && sequence->tenant == of->tenant ? own_blocks(engine, sequence) : 0;
    }
    return n;
}

static bool is_newer(const struct sequence *a, const struct sequence *b) {
    return a->turn != b->turn ? a->turn > b->turn : a->arrival > b->arrival;
}

bool tenant_makes_way(const struct engine *engine, const struct sequence *late) {
    const struct sequence *victim = NULL;
    uint32_t n_most = 0;
    if (!tenant_is_late(engine, late))
        return false;
    for (uint32_t i = 0; i < engine->config.max_seqs; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        if (!runs(sequence) || sequence->priority < late->priority)
            continue;
        if (sequence->priority > late->priority)
            return false; /* that one goes first, whosever it is */
        if (n_running(engine, sequence) < 2)
            continue;
        uint32_t n = blocks_of_tenant(engine, sequence);
        if (!victim || n > n_most || (n == n_most && is_newer(sequence, victim)))
            victim = sequence;
        n_most = n > n_most ? n : n_most;
    }
    return victim &&
           n_most - own_blocks(engine, victim) >= engine_blocks_for(engine, late->n_tokens);
}

/* Is one there of a better priority that came since the plan before? */
static bool better_came(const struct engine *engine, const struct sequence *than, uint64_t since) {
    for (uint32_t i = 0; i < engine->config.max_seqs; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        if (sequence->serial != 0 && sequence->priority < than->priority &&
            sequence->arrival > since)
            return true;
    }
    return false;
}

/* A late tenant's next sequence is in, or there are no blocks for it. */
static void judge_late_entry(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    const struct engine *engine = node->engine;
    const struct sequence *next = tenant_next(engine);
    uint64_t serial = 0;
    if (next && tenant_is_late(engine, next) &&
        (engine_blocks_for(engine, next->n_tokens) <= prefix_cache_available(&engine->cache) ||
         tenant_makes_way(engine, next)))
        serial = next->serial;
    bool same = serial != 0 && serial == node->starved.late &&
                !better_came(engine, next, node->starved.n_arrivals);
    node->starved.n_arrivals = engine->schedule.n_arrivals;
    node->starved.late = serial;
    node->starved.n_late = same ? node->starved.n_late + 1 : 0;
    if (node->starved.n_late >= LATE_PLANS)
        sim_fail(sim, "worker %u lets a late tenant's slot %u wait for an end", i, next->slot);
}

/* Each prompt that is computed gets tokens in its turn: two plans for each of them, one of those for a
 * late tenant's, and two of the like where one row has to do for prompts and answers. */
static void judge_prompts(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    const struct engine *engine = node->engine;
    for (uint32_t k = 0; k < engine->config.max_seqs && k < SIM_SEQS; k++) {
        const struct sequence *sequence = &engine->sequences.slots[k];
        if (sequence->queue != QUEUE_PREFILL || sequence->n_steps > 0)
            node->starved.prompts[k] = 0;
        else if (++node->starved.prompts[k] > 4 * (engine->schedule.n_prefill + 1))
            sim_fail(sim, "worker %u leaves the prompt of slot %u out of %u steps", i, k,
                     node->starved.prompts[k]);
    }
}

void tenant_planned(struct sim *sim, uint32_t i) {
    const struct engine *engine = sim->nodes[i].engine;
    const struct schedule *schedule = &engine->schedule;
    judge_late_entry(sim, i);
    judge_prompts(sim, i);
    if (sim->limits.n_tenants > 0 &&
        schedule->n_prefill + schedule->n_decode > engine->config.max_batch &&
        schedule->n_prefill > 0)
        sim_saw(sim, SIGHT_LATE_ROW);
}

/* --- routers ------------------------------------------------------------------------------------- */

uint32_t tenant_n_placed(const struct router *router, const struct request *req) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < router->requests.capacity; i++) {
        const struct request *other = &router->requests.all[i];
        n += other->state != REQUEST_FREE && other->state != REQUEST_WAITING &&
             other->spec.tenant == req->spec.tenant;
    }
    return n;
}

/* Sequences that the router counts at a worker. */
static uint32_t n_sequences(const struct slot *slot) {
    uint32_t n = slot->load.n_running + slot->load.n_waiting + slot->n_unreflected;
    return n < slot->n_assigned ? slot->n_assigned : n;
}

uint32_t tenant_n_places(const struct slot *slot) {
    uint32_t n = slot->welcome.max_seqs;
    return n - (n / 4 < 32 ? n / 4 : 32);
}

bool tenant_has_place(const struct router *router, const struct slot *slot,
                      const struct request *req) {
    uint32_t n = slot->welcome.max_seqs;
    if (req->spec.tenant == 0)
        return n_sequences(slot) < n;
    if (tenant_n_placed(router, req) > 0)
        return n_sequences(slot) < tenant_n_places(slot);
    return slot->load.n_running + slot->load.n_waiting < n && slot->n_assigned < n;
}

void tenant_placed(struct sim *sim, const struct router *router, const struct slot *slot,
                   const struct request *req) {
    if (req->spec.tenant == 0 || req->alone || n_sequences(slot) <= tenant_n_places(slot))
        return;
    sim_saw(sim, SIGHT_LATE_PLACE);
    if (tenant_n_placed(router, req) > 1)
        sim_fail(sim, "slot %u has %u sequences, and gets one more of a tenant that has a worker",
                 slot->number, n_sequences(slot) - 1);
}
