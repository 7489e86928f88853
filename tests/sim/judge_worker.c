/* A worker's plans, held against the rules of its schedule: the best priority first, then the
 * oldest; who goes is the worst and newest, and only where it helps somebody. */
#include "tests/sim/judge.h"

#include "worker/core/engine_state.h"
#include "worker/core/schedule.h"

struct seen {
    uint64_t serial;
    enum queue queue;
    uint32_t priority;
    uint64_t tenant;
    uint64_t turn;
    uint64_t arrival;
    uint64_t deadline_ns;
    uint32_t n_computed;
};

struct plan_view {
    uint32_t n;
    struct seen seen[64]; /* by slot */
    uint64_t n_preemptions;
    uint32_t n_need; /* blocks that decoding may want */
    uint32_t n_free;
    uint32_t
        first_slot; /* of the next of the waiting, where it is known not to fit; or SEQUENCE_NONE */
};

static bool before(const struct seen *a, const struct seen *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->turn != b->turn)
        return a->turn < b->turn;
    return a->arrival < b->arrival;
}

static bool runs(enum queue queue) {
    return queue == QUEUE_PREFILL || queue == QUEUE_DECODE;
}

static void look(const struct engine *engine, struct plan_view *view) {
    *view = (struct plan_view){.n = engine->config.max_seqs < 64 ? engine->config.max_seqs : 64,
                               .n_preemptions = engine->figures.n_preemptions,
                               .n_free = prefix_cache_available(&engine->cache),
                               .first_slot = SEQUENCE_NONE};
    for (uint32_t i = 0; i < view->n; i++) {
        const struct sequence *sequence = &engine->sequences.slots[i];
        view->seen[i] = (struct seen){.serial = sequence->serial,
                                      .queue = sequence->queue,
                                      .priority = sequence->priority,
                                      .tenant = sequence->tenant,
                                      .turn = sequence->turn,
                                      .arrival = sequence->arrival,
                                      .deadline_ns = sequence->deadline_ns,
                                      .n_computed = sequence->n_computed};
        if (sequence->queue == QUEUE_DECODE)
            view->n_need += engine_blocks_for(engine, sequence->n_tokens) - sequence->n_blocks;
    }
    const struct sequence *waiting = tenant_next(engine);
    if (waiting && waiting->blocked)
        view->first_slot = waiting->slot;
}

/* Was it thrown out in this plan? It may have come back in at once. */
static bool was_preempted(const struct seen *was, const struct seen *is) {
    if (was->serial != is->serial || !runs(was->queue))
        return false;
    return is->queue == QUEUE_WAITING || is->n_computed < was->n_computed ||
           (was->queue == QUEUE_DECODE && is->queue == QUEUE_PREFILL);
}

static uint32_t n_running(const struct plan_view *view, uint64_t tenant) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < view->n; i++)
        n += view->seen[i].serial != 0 && runs(view->seen[i].queue) &&
             view->seen[i].tenant == tenant;
    return n;
}

/* Has it one that ran before this plan and runs on? */
static bool stays(const struct plan_view *was, const struct plan_view *is, uint64_t tenant) {
    for (uint32_t i = 0; i < was->n; i++) {
        const struct seen *seen = &was->seen[i];
        if (seen->serial != 0 && runs(seen->queue) && seen->tenant == tenant &&
            seen->serial == is->seen[i].serial && !was_preempted(seen, &is->seen[i]))
            return true;
    }
    return false;
}

/* Is one of this priority or a better one, which waited or was thrown out, of a tenant that was late in this plan? */
static bool late_waits(const struct plan_view *was, const struct plan_view *is, uint32_t priority) {
    for (uint32_t i = 0; i < was->n; i++) {
        const struct seen *seen = &was->seen[i];
        bool waits = seen->queue == QUEUE_WAITING || was_preempted(seen, &is->seen[i]);
        if (seen->serial != 0 && waits && seen->priority <= priority &&
            !stays(was, is, seen->tenant))
            return true;
    }
    return false;
}

static void judge_victim(struct sim *sim, uint32_t node, const struct plan_view *was,
                         const struct plan_view *is, uint32_t victim) {
    const struct seen *gone = &was->seen[victim];
    for (uint32_t i = 0; i < was->n; i++) {
        bool stayed = runs(was->seen[i].queue) && was->seen[i].serial == is->seen[i].serial &&
                      !was_preempted(&was->seen[i], &is->seen[i]);
        bool others = was->seen[i].tenant != gone->tenant &&
                      was->seen[i].priority == gone->priority && n_running(was, gone->tenant) > 1;
        if (i != victim && stayed && !others && before(gone, &was->seen[i]))
            sim_fail(sim,
                     "worker %u preempted priority %u, arrival %llu, and kept priority %u, %llu",
                     node, gone->priority, (unsigned long long)gone->arrival, was->seen[i].priority,
                     (unsigned long long)was->seen[i].arrival);
    }
    if (was->n_need <= was->n_free) { /* nobody was short of blocks: it made way */
        bool for_late =
            late_waits(was, is, gone->priority); /* or for the blocks that it has taken */
        bool for_better = was->first_slot != SEQUENCE_NONE &&
                          was->seen[was->first_slot].priority < gone->priority;
        sim_saw(sim, for_better ? SIGHT_MADE_WAY : SIGHT_LATE_BLOCKS);
        if (!for_better && !for_late)
            sim_fail(sim, "worker %u preempted priority %u for nobody better", node,
                     gone->priority);
    }
    sim_saw(sim, SIGHT_PREEMPTION);
}

static void judge_entrant(struct sim *sim, uint32_t node, const struct plan_view *was,
                          const struct plan_view *is, uint32_t entrant, uint64_t now_ns) {
    const struct seen *new = &was->seen[entrant];
    if (new->deadline_ns != 0 && new->deadline_ns <= now_ns)
        sim_fail(sim, "worker %u begins what is past its deadline", node);
    for (uint32_t i = 0; i < was->n; i++) {
        bool left = was->seen[i].queue == QUEUE_WAITING && is->seen[i].queue == QUEUE_WAITING &&
                    was->seen[i].serial == is->seen[i].serial;
        bool late = !stays(was, is, new->tenant) &&
                    new->priority == was->seen[i].priority &&new->tenant !=
                        was->seen[i].tenant &&n_running(was, was->seen[i].tenant) +
                                n_running(is, was->seen[i].tenant) >
                            0;
        if (left && !late && before(&was->seen[i], new))
            sim_fail(sim, "worker %u lets priority %u, arrival %llu overtake", node, new->priority,
                     (unsigned long long)new->arrival);
    }
}

/* A better one waits for blocks that a worse one has: it must get them. */
static void judge_way(struct sim *sim, uint32_t node, const struct plan_view *was,
                      const struct plan_view *is) {
    if (was->first_slot == SEQUENCE_NONE || is->n_preemptions > was->n_preemptions)
        return;
    for (uint32_t i = 0; i < was->n; i++) {
        if (runs(was->seen[i].queue) &&
            was->seen[i].priority > was->seen[was->first_slot].priority) {
            sim_fail(sim, "worker %u lets priority %u wait for priority %u", node,
                     was->seen[was->first_slot].priority, was->seen[i].priority);
            return;
        }
    }
}

void judge_plan(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    const struct engine *engine = node->engine;
    uint64_t now_ns = sim_clock(sim, i);
    static struct plan_view was, is;
    bool quiet = engine->schedule.n_waiting == 0 && engine->schedule.n_decode == 0;
    if (!quiet)
        look(engine, &was);
    engine_plan(node->engine, now_ns, &node->flights[0].plan);
    if (quiet)
        return;
    look(engine, &is);
    for (uint32_t k = 0; k < was.n; k++) {
        bool same = was.seen[k].serial == is.seen[k].serial;
        if (was_preempted(&was.seen[k], &is.seen[k]))
            judge_victim(sim, i, &was, &is, k);
        if (same && was.seen[k].queue == QUEUE_WAITING && runs(is.seen[k].queue))
            judge_entrant(sim, i, &was, &is, k, now_ns);
    }
    judge_way(sim, i, &was, &is);
}

void judge_worker_says(struct sim *sim, uint32_t node, const struct message *message) {
    (void)node;
    switch (message->type) {
    case MESSAGE_REFUSED:
        if (message->u.refused.reason == REASON_BUSY)
            sim_saw(sim, SIGHT_REFUSED_BUSY);
        if (message->u.refused.reason == REASON_DRAINING)
            sim_saw(sim, SIGHT_REFUSED_DRAINING);
        return;
    case MESSAGE_FAILED:
        if (message->u.failed.reason == REASON_LEASE)
            sim_saw(sim, SIGHT_LEASE);
        if (message->u.failed.reason == REASON_TRANSFER)
            sim_saw(sim, SIGHT_FAILED_TRANSFER);
        if (message->u.failed.reason == REASON_DRAINING)
            sim_saw(sim, SIGHT_FAILED_DRAINING);
        if (message->u.failed.reason == REASON_CANCELLED)
            sim_saw(sim, SIGHT_DEADLINE_AT_WORKER);
        return;
    case MESSAGE_RESERVED:
        if (message->u.reserved.cached_tokens > 0)
            sim_saw(sim, SIGHT_PREFIX_HANDOFF);
        return;
    case MESSAGE_STEP:
        for (uint32_t i = 0; i < message->u.step.n; i++) {
            const struct step_entry *entry = &message->u.step.entries[i];
            if (entry->cached_tokens > 0)
                sim_saw(sim, SIGHT_PREFIX_LOCAL);
            if (request_id_equal(entry->req, sim->asked) && entry->first_index <= sim->asked_from)
                sim->resent = true;
        }
        return;
    case MESSAGE_RESET:
        sim_saw(sim, SIGHT_SESSION_RESET);
        return;
    case MESSAGE_ABORT:
        sim_saw(sim, SIGHT_ABORT);
        return;
    case MESSAGE_FENCED:
        sim_saw(sim, SIGHT_FENCED);
        return;
    default:
        return;
    }
}

/* Chunks that the hand-off of this generation has taken; UINT32_MAX: there is none. */
static uint32_t chunks_taken(const struct engine *engine, uint32_t gen) {
    uint32_t slot;
    struct map_key key = {.hi = HANDOFF_IN, .lo = gen};
    if (map_get(&engine->handoffs, key, &slot) != STATUS_OK)
        return UINT32_MAX;
    return engine->sequences.slots[slot].handoff.n_done;
}

/* The sequence of whose tokens a RESEND wants some that are there, or NULL. */
static const struct sequence *find_asked(struct engine *engine, const struct message *message) {
    if (message->type != MESSAGE_RESEND)
        return NULL;
    const struct resend *resend = &message->u.resend;
    const struct sequence *sequence = sequence_find(&engine->sequences, resend->req);
    if (!sequence || sequence->attempt != resend->attempt ||
        sequence->peer_link == PEER_LINK_NONE ||
        engine->peer_links.links[sequence->peer_link].session != message->session ||
        sequence->state == SEQUENCE_RESERVED || sequence->state == SEQUENCE_FILLING ||
        sequence->n_tokens <= sequence->n_prompt + resend->from)
        return NULL;
    return sequence;
}

struct judge_eye judge_worker_before(struct sim *sim, uint32_t i, const struct message *message) {
    struct engine *engine = sim->nodes[i].engine;
    struct judge_eye eye = {.n_reserved = engine->pool.counts[KV_RESERVED],
                            .n_in = engine->figures.n_handoffs_in,
                            .asks = find_asked(engine, message) != NULL};
    if (message->type == MESSAGE_CHUNK)
        eye.n_chunks = chunks_taken(engine, message->u.chunk.gen);
    if (eye.asks) {
        sim->asked = message->u.resend.req;
        sim->asked_from = message->u.resend.from;
        sim->resent = false;
    }
    return eye;
}

/* Tokens that were asked for have left, or are the next to leave. */
static void judge_resend(struct sim *sim, uint32_t i, const struct message *message) {
    const struct sequence *sequence = find_asked(sim->nodes[i].engine, message);
    if (sequence && !sim->resent && sequence->n_sent > sequence->n_prompt + message->u.resend.from)
        sim_fail(sim, "worker %u does not send again what it is asked for", i);
    sim->asked = (struct request_id){0};
}

void judge_worker_after(struct sim *sim, uint32_t i, const struct wire *wire,
                        const struct message *message, const struct judge_eye *eye) {
    const struct engine *engine = sim->nodes[i].engine;
    if (eye->asks)
        judge_resend(sim, i, message);
    if (engine->figures.n_handoffs_in > eye->n_in)
        sim_saw(sim, wire->shm ? SIGHT_HANDOFF_SHM : SIGHT_HANDOFF_TCP);
    else if (engine->pool.counts[KV_RESERVED] < eye->n_reserved)
        sim_saw(sim, SIGHT_QUARANTINE);
    if (message->type == MESSAGE_CHUNK && eye->n_chunks != UINT32_MAX &&
        chunks_taken(engine, message->u.chunk.gen) == eye->n_chunks)
        sim_saw(sim, SIGHT_CHUNK_TWICE);
}
