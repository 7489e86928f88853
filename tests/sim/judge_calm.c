/* Time as a judge. In a run without faults every message arrives, so whatever is found by a tick, by
 * a digest or by a second try had a wake-up of its own, which was lost: results would hide that. */
#include "tests/sim/judge.h"

#include "base/map.h"
#include "router/core/core.h"
#include "worker/core/engine_state.h"

#include <stdlib.h>

#define TOLD_MAX      65536            /* ends that routers told of, in one run */
#define TRANSFERS_MAX 65536            /* hand-offs of one run */
#define SLACK_NS      (10 * NS_PER_US) /* a timer is rounded up, by nanoseconds */

struct transfer {
    uint32_t client;
    uint32_t attempt;
    uint64_t serial;
};

struct calm_node {
    /* what is being handled; MESSAGE_NONE: a tick, or what a client decided */
    enum message_type reads;
    bool ticks;
    bool was_busy;  /* a send met BUSY since the last tick */
    bool reminded;  /* in this tick: a ring had room that only a try shows (chunk.c) */
    bool may_place; /* in this tick: a request ended in it, or a worker's rest did */
    uint64_t ticked_ns;
};

struct calm {
    struct map told;      /* (request, attempt and worker) that a FORGET or CANCEL went out for */
    struct map transfers; /* transfer id -> index of `owners` */
    struct transfer owners[TRANSFERS_MAX];
    uint32_t n_owners;
    struct calm_node nodes[SIM_NODES];
};

void calm_begin(struct sim *sim) {
    if (sim->options.fault_ns > 0)
        return;
    sim->calm = calloc(1, sizeof *sim->calm);
    if (!sim->calm || map_init(&sim->calm->told, TOLD_MAX, sim->seed) != STATUS_OK ||
        map_init(&sim->calm->transfers, TRANSFERS_MAX, sim->seed) != STATUS_OK)
        abort();
}

void calm_fini(struct sim *sim) {
    if (!sim->calm)
        return;
    map_fini(&sim->calm->told);
    map_fini(&sim->calm->transfers);
    free(sim->calm);
    sim->calm = NULL;
}

void calm_reads(struct sim *sim, uint32_t node, enum message_type type) {
    if (!sim->calm)
        return;
    sim->calm->nodes[node].reads = type;
}

/* --- routers ------------------------------------------------------------------------------------- */

/* Its worker refused a moment ago, and this tick is when it may be asked again. */
static bool rest_is_over(const struct sim *sim, uint32_t router) {
    const struct fleet *fleet = &sim->nodes[router].router->fleet;
    uint64_t now_ns = sim_clock(sim, router), before_ns = sim->calm->nodes[router].ticked_ns;
    for (uint32_t slot = 0; slot < fleet->n_seen; slot++) {
        uint64_t until_ns = fleet->slots[slot].busy_until_ns;
        if (until_ns > before_ns && until_ns <= now_ns && now_ns - until_ns <= SLACK_NS)
            return true;
    }
    return false;
}

void calm_ticks(struct sim *sim, uint32_t node, bool begins) {
    if (!sim->calm)
        return;
    struct calm_node *own = &sim->calm->nodes[node];
    own->ticks = begins;
    own->may_place = begins && node < SIM_ROUTERS && rest_is_over(sim, node);
    own->reminded = false;
    if (begins)
        own->was_busy = false;
    else
        own->ticked_ns = sim_clock(sim, node);
}

static void judge_placement(struct sim *sim, uint32_t router, enum message_type type) {
    const struct calm_node *own = &sim->calm->nodes[router];
    if (own->ticks && !own->may_place)
        sim_fail(sim, "router %u: a tick found that a %s was due", router, message_name(type));
}

/* A worker is told that an attempt is over: not by a digest that finds it there, but for one that is
 * under way; and by a tick where its client's time is up. */
static void judge_telling(struct sim *sim, uint32_t router, uint32_t slot,
                          struct attempt_id attempt, enum message_type type) {
    struct calm *calm = sim->calm;
    const struct calm_node *own = &calm->nodes[router];
    struct map_key key = {attempt.req.lo ^ (uint64_t)router << 63,
                          (uint64_t)attempt.attempt << 32 | slot};
    uint32_t known;
    bool told = map_get(&calm->told, key, &known) == STATUS_OK;
    if (own->reads == MESSAGE_DIGEST && !told)
        sim_fail(sim, "router %u: a digest found an attempt that nobody had ended", router);
    struct client *client = client_of_request(sim, router, attempt.req.lo);
    bool late = client && client->deadline_ns != 0 && sim_clock(sim, router) >= client->deadline_ns;
    if (own->ticks && !late)
        sim_fail(sim, "router %u: a tick found that a %s was due", router, message_name(type));
    if (!told && calm->told.n_used < TOLD_MAX)
        told = map_put(&calm->told, key, 0) == STATUS_OK;
}

static void note_transfer(struct sim *sim, uint32_t router, const struct submit *submit) {
    struct calm *calm = sim->calm;
    const struct client *client = client_of_request(sim, router, submit->req.lo);
    if (!client || !submit->has_xfer || calm->n_owners == TRANSFERS_MAX)
        return;
    struct map_key key = {0, submit->xfer.transfer_id};
    if (map_put(&calm->transfers, key, calm->n_owners) == STATUS_OK)
        calm->owners[calm->n_owners++] =
            (struct transfer){(uint32_t)(client - sim->clients), submit->attempt, client->serial};
}

void calm_router_sends(struct sim *sim, uint32_t router, uint32_t slot,
                       const struct message *message) {
    if (!sim->calm)
        return;
    const struct calm_node *own = &sim->calm->nodes[router];
    switch (message->type) {
    case MESSAGE_SUBMIT:
        note_transfer(sim, router, &message->u.submit);
        judge_placement(sim, router, message->type);
        return;
    case MESSAGE_RESERVE:
        judge_placement(sim, router, message->type);
        return;
    case MESSAGE_CANCEL:
        judge_telling(sim, router, slot,
                      (struct attempt_id){message->u.cancel.req, message->u.cancel.attempt},
                      message->type);
        return;
    case MESSAGE_FORGET:
        for (uint32_t i = 0; i < message->u.forget.n; i++)
            judge_telling(sim, router, slot, message->u.forget.attempts[i], message->type);
        return;
    case MESSAGE_HELLO:
        if (own->ticks)
            sim_fail(sim, "router %u: a tick ends a session", router);
        return;
    case MESSAGE_RESEND:
    case MESSAGE_RESET:
        sim_fail(sim, "router %u sends a %s though nothing went wrong", router,
                 message_name(message->type));
        return;
    default:
        return;
    }
}

void calm_ended(struct sim *sim, uint32_t router) {
    if (sim->calm)
        sim->calm->nodes[router].may_place = true;
}

/* Nobody waits where there is room. */
static void judge_waits(struct sim *sim, uint32_t i, const struct request *first) {
    const struct router *router = sim->nodes[i].router;
    uint64_t now_ns = sim_clock(sim, i);
    for (uint32_t k = 0; k < router->fleet.n_seen; k++) {
        const struct slot *slot = &router->fleet.slots[k];
        if (slot->state == SLOT_READY && slot->welcome.role != ROLE_PREFILL &&
            request_n_tokens(first) < slot->welcome.context &&
            tenant_has_place(router, slot, first) && slot->busy_until_ns + SLACK_NS < now_ns)
            sim_fail(sim, "router %u lets request %llx wait though slot %u has room", i,
                     (unsigned long long)first->id.lo, k);
    }
}

static bool is_first_of_tenant(const struct router *router, const struct request *req) {
    list_each_entry(other, &router->waiting, const struct request, link) {
        if (other->spec.tenant == req->spec.tenant)
            return other == req;
    }
    return false;
}

/* Those of the best priority that are the first of their tenant. */
static void judge_waiting(struct sim *sim, uint32_t i) {
    const struct router *router = sim->nodes[i].router;
    if (router->n_waiting == 0 || router->alone != SLOT_NONE)
        return;
    const struct request *first = list_entry(router->waiting.next, struct request, link);
    list_each_entry(req, &router->waiting, const struct request, link) {
        if (req->spec.priority == first->spec.priority && is_first_of_tenant(router, req))
            judge_waits(sim, i, req);
    }
}

void calm_router_after(struct sim *sim, uint32_t router) {
    if (sim->calm)
        judge_waiting(sim, router);
}

/* --- workers ------------------------------------------------------------------------------------- */

/* A transfer is given up only for a request that is over. */
static void judge_abort(struct sim *sim, uint32_t node, const struct transfer_end *end) {
    uint32_t at;
    struct map_key key = {0, end->transfer_id};
    if (end->reason == REASON_UNKNOWN || map_get(&sim->calm->transfers, key, &at) != STATUS_OK)
        return;
    const struct transfer *owner = &sim->calm->owners[at];
    const struct client *client = &sim->clients[owner->client];
    bool late = client->deadline_ns != 0 && end->reason == REASON_CANCELLED; /* its worker's word */
    if (!client->used || client->serial != owner->serial || client->ended || late)
        return;
    const struct router *router = sim->nodes[client->router].router;
    const struct request *req = request_find(&router->requests, client->request);
    if (req && req->state == REQUEST_RUNNING && req->attempt == owner->attempt)
        sim_fail(sim, "worker %u gives up a transfer of client %llu: %s", node,
                 (unsigned long long)client->serial, reason_name(end->reason));
}

/* No room, or too late: else it is about a request that is over. */
static void judge_refusal(struct sim *sim, uint32_t node, enum message_type type,
                          struct request_id req, enum reason reason) {
    if (reason == REASON_BUSY || reason == REASON_CANCELLED)
        return;
    for (uint32_t router = 0; router < sim->options.n_routers; router++) {
        if (sim->nodes[router].incarnation == req.hi && client_of_request(sim, router, req.lo))
            sim_fail(sim, "worker %u says %s, %s, though nothing went wrong", node,
                     message_name(type), reason_name(reason));
    }
}

void calm_worker_says(struct sim *sim, uint32_t node, const struct message *message) {
    if (!sim->calm)
        return;
    const struct calm_node *own = &sim->calm->nodes[node];
    enum message_type type = message->type;
    bool of_time = type == MESSAGE_BEAT || type == MESSAGE_DIGEST ||
                   (type == MESSAGE_STEP && sim->nodes[node].in_step) ||
                   (type == MESSAGE_COMMIT && own->reminded);
    if (own->ticks && !of_time)
        sim_fail(sim, "worker %u: a tick found that a %s was due", node, message_name(type));
    if (type == MESSAGE_FAILED || type == MESSAGE_REFUSED)
        time_refused(sim);
    if (type == MESSAGE_FAILED)
        judge_refusal(sim, node, type, message->u.failed.req, message->u.failed.reason);
    else if (type == MESSAGE_REFUSED)
        judge_refusal(sim, node, type, message->u.refused.req, message->u.refused.reason);
    else if (type == MESSAGE_ABORT)
        judge_abort(sim, node, &message->u.transfer_end);
    else if (type == MESSAGE_RESET)
        sim_fail(sim, "worker %u ends a session though nothing went wrong", node);
}

void calm_reminded(struct sim *sim, uint32_t node) {
    if (sim->calm)
        sim->calm->nodes[node].reminded = true;
}

void calm_worker_opens(struct sim *sim, uint32_t node, const char *what) {
    if (sim->calm && sim->calm->nodes[node].ticks)
        sim_fail(sim, "worker %u: a tick found that a %s was due", node, what);
}

void calm_busy(struct sim *sim, uint32_t node) {
    if (sim->calm)
        sim->calm->nodes[node].was_busy = true;
}

/* Blocks of a group of layers that are computed and not pushed. */
static bool may_push(const struct engine *engine, const struct sequence *sequence, uint32_t group) {
    const struct handoff *handoff = &sequence->handoff;
    uint32_t n_tokens = sequence->n_computed;
    if (sequence->n_steps > 0 && engine->groups[group + 1] <= engine->layers_ready)
        n_tokens = sequence->n_in_step;
    bool all = sequence->state == SEQUENCE_SENDING || n_tokens == sequence->n_tokens;
    uint32_t n_ready = all ? handoff->n_blocks : n_tokens / engine->config.block_tokens;
    return handoff->pushed[group] < n_ready;
}

/* No chunk waits where there are credits, no token where no step will take it along. */
static void judge_peer_link(struct sim *sim, uint32_t node, const struct peer_link *peer_link) {
    const struct engine *engine = sim->nodes[node].engine;
    if (peer_link->kind == PEER_LINK_ROUTER && !sim->nodes[node].in_step &&
        !list_empty(&peer_link->dirty))
        sim_fail(sim, "worker %u lets tokens wait though it runs no step", node);
    if (peer_link->kind != PEER_LINK_KV_OUT || !peer_link->ready || peer_link->broken ||
        peer_link->n_in_flight >= peer_link->credits)
        return;
    uint32_t conn = net_find(&sim->net, node, peer_link->link);
    if (conn == SIM_CONNS || sim->wires[conn].is_full)
        return;
    list_each_entry(sequence, &peer_link->transfers, const struct sequence, of_link) {
        for (uint32_t g = 0; g < engine->n_groups && !sequence->handoff.commit_sent; g++) {
            if (!sequence->dead && may_push(engine, sequence, g))
                sim_fail(sim, "worker %u lets a chunk wait though there are credits", node);
        }
    }
}

void calm_worker_after(struct sim *sim, uint32_t node) {
    if (!sim->calm)
        return;
    const struct engine *engine = sim->nodes[node].engine;
    if (engine->retry_ns != 0 && !sim->calm->nodes[node].was_busy)
        sim_fail(sim, "worker %u tries something again though nothing was busy", node);
    for (uint32_t i = 0; i < engine->peer_links.n_links; i++)
        judge_peer_link(sim, node, &engine->peer_links.links[i]);
}
