/* Sessions on both sides: whose words count, who is told of whom, and what an end leaves behind. */
#include "tests/sim/judge.h"

#include "router/core/core.h"
#include "worker/core/engine_state.h"

#define SILENCE_NS (10 * NS_PER_S) /* a slot without session and announcement is given up */

struct judge_ear judge_session_before(struct sim *sim, uint32_t i, uint32_t number,
                                      const struct message *message) {
    const struct router *router = sim->nodes[i].router;
    const struct slot *slot = &router->fleet.slots[number];
    struct judge_ear ear = {.n_stale = router->stats.n_stale_dropped,
                            .foreign = message->session != slot->session};
    bool refused = message->type == MESSAGE_REFUSED;
    if (ear.foreign || (!refused && message->type != MESSAGE_FAILED))
        return ear;
    /* REFUSED and FAILED begin alike. */
    const struct attempt_id *id = (const struct attempt_id *)(const void *)&message->u;
    struct request *req = request_find(&router->requests, id->req.lo);
    bool drains =
        (refused ? message->u.refused.reason : message->u.failed.reason) == REASON_DRAINING;
    ear.drains = drains && req && req->attempt == id->attempt && request_part(req, number) &&
                 slot_in_session(slot);
    return ear;
}

void judge_session_after(struct sim *sim, uint32_t i, uint32_t number,
                         const struct judge_ear *ear) {
    const struct router *router = sim->nodes[i].router;
    if (ear->foreign && router->stats.n_stale_dropped == ear->n_stale)
        sim_fail(sim, "router %u listens to slot %u under another session", i, number);
    if (ear->drains && router->fleet.slots[number].state == SLOT_READY)
        sim_fail(sim, "router %u takes slot %u for ready, which said that it drains", i, number);
}

static uint64_t sum_of_peers(const struct peers *peers) {
    uint64_t sum = peers->n;
    for (uint32_t i = 0; i < peers->n; i++)
        sum += mix64(peers->peers[i].incarnation);
    return sum;
}

void judge_peers_told(struct sim *sim, uint32_t router, uint32_t slot, const struct peers *peers) {
    sim->nodes[router].judged.peers[slot] = sum_of_peers(peers);
}

void judge_fleet(struct sim *sim, uint32_t i) {
    const struct node *node = &sim->nodes[i];
    const struct fleet *fleet = &node->router->fleet;
    uint64_t now_ns = sim_clock(sim, i), sum = 0;
    for (uint32_t k = 0; k < fleet->n_seen; k++) {
        const struct slot *slot = &fleet->slots[k];
        if (slot_in_session(slot))
            sum += mix64(slot->welcome.incarnation) + 1;
        bool waits = slot->state == SLOT_OPENING || slot->state == SLOT_SUSPECT;
        if (node->judged.ticking && waits && now_ns > slot->announced_ns + SILENCE_NS &&
            now_ns > slot->hello_ns + SILENCE_NS)
            sim_fail(sim, "router %u keeps slot %u for one that says nothing", i, k);
    }
    for (uint32_t k = 0; k < fleet->n_seen; k++) {
        if (slot_in_session(&fleet->slots[k]) && node->judged.peers[k] != sum)
            sim_fail(sim, "router %u has not told slot %u who is there", i, k);
    }
}

/* --- workers ------------------------------------------------------------------------------------- */

static struct judge_tomb *find_tomb(struct node *node, struct request_id req) {
    for (uint32_t i = 0; i < JUDGE_TOMBS; i++) {
        if (request_id_equal(node->tombs[i].req, req))
            return &node->tombs[i];
    }
    return NULL;
}

static void bury(struct node *node, uint64_t router_id, struct attempt_id attempt) {
    if (attempt.req.hi != router_id)
        return; /* ids carry their router's number: none ends another's */
    struct judge_tomb *tomb = find_tomb(node, attempt.req);
    if (!tomb) {
        tomb = &node->tombs[node->n_tombs++ % JUDGE_TOMBS];
        *tomb = (struct judge_tomb){.req = attempt.req};
    }
    tomb->attempt = attempt.attempt > tomb->attempt ? attempt.attempt : tomb->attempt;
}

bool judge_is_hello(const struct engine *engine, uint32_t link, const struct message *message) {
    uint32_t index;
    struct map_key key = {.hi = 0, .lo = link};
    if (message->type != MESSAGE_HELLO)
        return false;
    if (map_get(&engine->peer_links.by_link, key, &index) != STATUS_OK)
        return true;
    const struct peer_link *peer_link = &engine->peer_links.links[index];
    return peer_link->kind == PEER_LINK_ROUTER && peer_link->session != message->u.hello.session;
}

/* A new session begins with nothing: what its router had here is over. */
void judge_greeted(struct sim *sim, uint32_t i, uint64_t router_id) {
    const struct sequence_table *table = &sim->nodes[i].engine->sequences;
    for (uint32_t k = 0; k < table->n_slots; k++) {
        const struct sequence *sequence = &table->slots[k];
        if (sequence->serial != 0 && !sequence->dead && sequence->peer_link != PEER_LINK_NONE &&
            sequence->req.hi == router_id)
            sim_fail(sim, "worker %u keeps request %llx of a session that is over", i,
                     (unsigned long long)sequence->req.lo);
    }
}

static const struct peer_link *router_of(const struct engine *engine, uint32_t link,
                                         const struct message *message) {
    uint32_t index;
    struct map_key key = {.hi = 0, .lo = link};
    if (map_get(&engine->peer_links.by_link, key, &index) != STATUS_OK)
        return NULL;
    const struct peer_link *peer_link = &engine->peer_links.links[index];
    return peer_link->kind == PEER_LINK_ROUTER && peer_link->session == message->session ? peer_link
                                                                                         : NULL;
}

/* Before the worker's core hears it. */
void judge_ends(struct sim *sim, uint32_t i, uint32_t link, const struct message *message) {
    struct node *node = &sim->nodes[i];
    if (message->type != MESSAGE_CANCEL && message->type != MESSAGE_FORGET)
        return;
    const struct peer_link *peer_link = router_of(node->engine, link, message);
    if (!peer_link)
        return;
    if (message->type == MESSAGE_CANCEL)
        bury(node, peer_link->router_id,
             (struct attempt_id){message->u.cancel.req, message->u.cancel.attempt});
    for (uint32_t k = 0; message->type == MESSAGE_FORGET && k < message->u.forget.n; k++)
        bury(node, peer_link->router_id, message->u.forget.attempts[k]);
}

/* After it: an attempt that is over does not begin, however late its messages are. */
void judge_risen(struct sim *sim, uint32_t i, const struct message *message) {
    struct node *node = &sim->nodes[i];
    struct request_id req;
    if (message->type == MESSAGE_RESERVE)
        req = message->u.reserve.req;
    else if (message->type == MESSAGE_SUBMIT)
        req = message->u.submit.req;
    else
        return;
    const struct judge_tomb *tomb = find_tomb(node, req);
    const struct sequence *sequence = tomb ? sequence_find(&node->engine->sequences, req) : NULL;
    if (sequence && sequence->attempt <= tomb->attempt)
        sim_fail(sim, "worker %u begins attempt %u of request %llx, of which %u was ended", i,
                 sequence->attempt, (unsigned long long)req.lo, tomb->attempt);
}
