/* What goes wrong, one stroke after the other. */
#include "tests/sim/sim.h"

#include "router/core/core.h"
#include "tests/sim/judge.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[KIND_COUNT] = {
    [KIND_CRASH] = "crash",
    [KIND_CRASH_MANY] = "crash-many",
    [KIND_HOST_DEATH] = "host-death",
    [KIND_PAUSE] = "pause",
    [KIND_SLOW] = "slow",
    [KIND_STEAL] = "steal",
    [KIND_BREAK] = "break",
    [KIND_BREAK_KV] = "break-kv",
    [KIND_PART] = "partition",
    [KIND_PART_ONE_WAY] = "partition-one-way",
    [KIND_ISOLATE] = "isolate",
    [KIND_EAT] = "eat",
    [KIND_ROUTER_CRASH] = "router-crash",
    [KIND_ROUTER_PAUSE] = "router-pause",
    [KIND_DRAIN] = "drain",
    [KIND_TERM] = "term",
    [KIND_CANCEL_STORM] = "cancel-storm",
    [KIND_BURST] = "burst",
    [KIND_LOSS] = "loss",
    [KIND_DUPLICATE] = "duplicate",
    [KIND_REORDER] = "reorder",
    [KIND_GARBLE] = "garble",
    [KIND_CORRUPT] = "corrupt",
    [KIND_CLOCKS] = "clocks",
    [KIND_NUMERICS] = "numerics",
    [KIND_MODEL] = "model",
    [KIND_SPOIL] = "spoil",
    [KIND_BUSY] = "busy",
    [KIND_ESTIMATE] = "estimate",
};

const char *kind_name(uint32_t kind) {
    return kind < KIND_COUNT ? names[kind] : NULL;
}

static uint32_t any_worker(struct sim *sim) {
    return SIM_ROUTERS + (uint32_t)random_below(&sim->draws.faults, sim->options.n_workers);
}

static uint32_t any_router(struct sim *sim) {
    return (uint32_t)random_below(&sim->draws.faults, sim->options.n_routers);
}

static uint32_t any_node(struct sim *sim) {
    uint64_t i = random_below(&sim->draws.faults, sim->options.n_workers + sim->options.n_routers);
    return i < sim->options.n_routers ? (uint32_t)i
                                      : SIM_ROUTERS + (uint32_t)(i - sim->options.n_routers);
}

void fault_crash(struct sim *sim, uint32_t i, uint64_t down_ns) {
    struct node *node = &sim->nodes[i];
    if (!node->up)
        return;
    sim_trace(sim, "node %u crashes", i);
    sim->counts.crashes++;
    node->up = false;
    node->epoch++;
    node->paused_until_ns = 0;
    node->tick_ns = UINT64_MAX;
    if (i < SIM_ROUTERS) {
        judge_router_over(sim, i);
        client_router_died(sim, i);
        router_free(node->router);
        node->router = NULL;
    } else {
        engine_free(node->engine);
        node->engine = NULL;
    }
    /* A dead host says nothing; a dead process's connections are closed by its kernel. */
    net_node_died(&sim->net, i, sim->mute_deaths ? 6 * NS_PER_S : sim->options.delay_ns);
    sim_at(sim, sim->now_ns + down_ns,
           (struct cell_event){.type = EVENT_RESTART, .node = SIM_NO_NODE, .a = i});
}

static void pause(struct sim *sim, uint32_t i, uint64_t ns) {
    struct node *node = &sim->nodes[i];
    if (!node->up || node->paused_until_ns > sim->now_ns)
        return;
    sim_trace(sim, "node %u pauses for %llu ms", i, (unsigned long long)(ns / NS_PER_MS));
    sim->counts.pauses++;
    node->paused_until_ns = sim->now_ns + ns;
    sim_trouble(sim, i, i, node->paused_until_ns);
    sim_at(
        sim, node->paused_until_ns,
        (struct cell_event){.type = EVENT_RESUME, .node = i, .b = (uint32_t)node->epoch, .c = ns});
}

void fault_resume(struct sim *sim, const struct cell_event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || (uint32_t)node->epoch != event->b || !node->router)
        return;
    judge_router_paused(sim, event->node, event->c);
}

static void block(struct sim *sim, uint32_t from, uint32_t to, uint64_t ns) {
    uint64_t until = sim->now_ns + ns;
    if (sim->blocked_until_ns[from][to] < until)
        sim->blocked_until_ns[from][to] = until;
    sim_trouble(sim, from, to, until);
    sim->counts.partitions++;
}

static void break_some(struct sim *sim, bool kv) {
    uint32_t n = 0, chosen = 0;
    for (uint32_t i = 0; i < sim->net.n_conns; i++) {
        if (sim->net.conns[i].alive && sim->net.conns[i].kv == kv &&
            random_below(&sim->draws.faults, ++n) == 0)
            chosen = i;
    }
    if (n == 0)
        return;
    sim_trace(sim, "connection %u-%u breaks", sim->net.conns[chosen].node[0],
              sim->net.conns[chosen].node[1]);
    sim->counts.breaks++;
    wire_break(sim, chosen, draw_about(&sim->draws.faults, 10 * NS_PER_MS));
}

static void cancel_storm(struct sim *sim) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (!client->used || !draw_chance(&sim->draws.faults, 90))
            continue;
        sim_at(sim, sim->now_ns + draw_about(&sim->draws.faults, 50 * NS_PER_MS),
               (struct cell_event){
                   .type = EVENT_CANCEL, .node = client->router, .a = i, .c = client->serial});
    }
}

static void drain(struct sim *sim, uint32_t i, bool by_router) {
    struct node *node = &sim->nodes[i], *router = &sim->nodes[0];
    if (!node->up || node->draining || node->paused_until_ns > sim->now_ns)
        return;
    sim_trace(sim, "worker %u drains", i);
    node->draining = true;
    if (!by_router) {
        sim_saw(sim, SIGHT_DRAIN_BY_SIGNAL);
        engine_drain(node->engine, sim_clock(sim, i));
        back_after(sim, i);
    } else if (router->up && router->paused_until_ns <= sim->now_ns) {
        char name[MESSAGE_NAME_MAX];
        snprintf(name, sizeof name, "worker%u", i - SIM_ROUTERS);
        if (router_drain_worker(router->router, sim_clock(sim, 0), name, false) == STATUS_OK)
            sim_saw(sim, SIGHT_DRAIN_BY_ROUTER);
        else
            sim_trace(sim, "not in session");
        front_after(sim, 0);
    }
}

static void isolate(struct sim *sim, uint32_t i, uint64_t ns) {
    for (uint32_t other = 0; other < SIM_NODES; other++) {
        if (other == i)
            continue;
        block(sim, i, other, ns);
        block(sim, other, i, ns);
    }
}

/* Several at once: a rack, or a deployment. Often all of them. */
static void crash_many(struct sim *sim) {
    struct random *random = &sim->draws.faults;
    bool all = draw_chance(random, 40);
    uint32_t n = 0;
    sim->mute_deaths = draw_chance(random, 20);
    for (uint32_t w = 0; w < sim->options.n_workers; w++) {
        if (!all && !draw_chance(random, 60))
            continue;
        n += sim->nodes[SIM_ROUTERS + w].up;
        fault_crash(sim, SIM_ROUTERS + w, draw_between(random, 20, 8000) * NS_PER_MS);
    }
    sim->mute_deaths = false;
    if (n > 1)
        sim_saw(sim, SIGHT_CRASH_MANY);
}

static void steal(struct sim *sim, uint32_t worker, uint64_t ns) {
    struct node *node = &sim->nodes[worker];
    sim_saw(sim, SIGHT_STOLEN);
    sim->counts.stolen++;
    node->stolen_until_ns = sim->now_ns + ns;
    node->stolen_factor = draw_between(&sim->draws.faults, 2, 8);
    sim_trace(sim, "worker %u has a %lluth of its CPU", worker,
              (unsigned long long)node->stolen_factor);
}

/* Nothing of one type gets through to or from one node. */
static void eat(struct sim *sim, uint32_t node, uint64_t ns) {
    static const enum message_type diet[] = {
        MESSAGE_HELLO,  MESSAGE_WELCOME, MESSAGE_PEERS,  MESSAGE_PING,      MESSAGE_BEAT,
        MESSAGE_DIGEST, MESSAGE_RESERVE, MESSAGE_SUBMIT, MESSAGE_SUBMIT,    MESSAGE_RESERVED,
        MESSAGE_STEP,   MESSAGE_FORGET,  MESSAGE_RESEND, MESSAGE_CANCEL,    MESSAGE_FAILED,
        MESSAGE_RESET,  MESSAGE_CHUNK,   MESSAGE_COMMIT, MESSAGE_CHUNK_ACK, MESSAGE_COMMIT_ACK,
        MESSAGE_ABORT,  MESSAGE_REFUSED};
    struct random *random = &sim->draws.faults;
    struct eater *eater = &sim->eaters[random_below(random, SIM_EATERS)];
    *eater = (struct eater){.until_ns = sim->now_ns + ns,
                            .type = diet[random_below(random, sizeof diet / sizeof *diet)],
                            .node = node};
    if (draw_chance(random, 10)) { /* so long that no attempt gets anywhere */
        eater->type = MESSAGE_SUBMIT;
        eater->node = any_router(sim);
        eater->until_ns = sim->now_ns + 45 * NS_PER_S;
    }
    sim_trace(sim, "no %s passes node %u for %llu ms", message_name(eater->type), eater->node,
              (unsigned long long)((eater->until_ns - sim->now_ns) / NS_PER_MS));
}

bool fault_eats(struct sim *sim, const struct conn *conn, enum message_type type) {
    for (uint32_t i = 0; i < SIM_EATERS; i++) {
        const struct eater *eater = &sim->eaters[i];
        if (eater->type == type && eater->until_ns > sim->now_ns &&
            (conn->node[0] == eater->node || conn->node[1] == eater->node))
            return true;
    }
    return false;
}

static void strike_worker(struct sim *sim, enum kind kind, uint32_t worker, uint64_t ns) {
    struct random *random = &sim->draws.faults;
    struct node *node = &sim->nodes[worker];
    switch (kind) {
    case KIND_CRASH:
        fault_crash(sim, worker, draw_between(random, 20, 4000) * NS_PER_MS);
        return;
    case KIND_HOST_DEATH:
        sim->mute_deaths = true;
        fault_crash(sim, worker, draw_between(random, 20, 9000) * NS_PER_MS);
        sim->mute_deaths = false;
        return;
    case KIND_PAUSE:
        pause(sim, worker, ns);
        return;
    case KIND_SLOW:
        node->slow = draw_chance(random, 50) ? 1 : draw_between(random, 2, 100);
        return;
    case KIND_STEAL:
        steal(sim, worker, ns + NS_PER_S);
        return;
    default:
        drain(sim, worker, kind == KIND_DRAIN);
        return;
    }
}

static void strike(struct sim *sim, enum kind kind) {
    struct random *random = &sim->draws.faults;
    uint32_t a = any_node(sim), b = any_node(sim), worker = any_worker(sim);
    uint64_t ns = draw_between(random, 20, draw_chance(random, 30) ? 9000 : 900) * NS_PER_MS;
    switch (kind) {
    case KIND_CRASH_MANY:
        crash_many(sim);
        return;
    case KIND_BREAK:
    case KIND_BREAK_KV:
        break_some(sim, kind == KIND_BREAK_KV);
        return;
    case KIND_PART:
        block(sim, a, b, ns);
        block(sim, b, a, ns);
        return;
    case KIND_PART_ONE_WAY:
        block(sim, a, b, ns);
        return;
    case KIND_ISOLATE:
        isolate(sim, a, ns);
        return;
    case KIND_EAT:
        eat(sim, a, draw_chance(random, 15) ? 8 * ns : ns);
        return;
    case KIND_ROUTER_CRASH:
        fault_crash(sim, any_router(sim), draw_between(random, 20, 4000) * NS_PER_MS);
        return;
    case KIND_ROUTER_PAUSE:
        pause(sim, any_router(sim), ns);
        return;
    case KIND_CANCEL_STORM:
        cancel_storm(sim);
        return;
    case KIND_BURST:
        for (uint32_t i = 0; i < 20; i++)
            client_arrive(sim, false);
        return;
    default:
        strike_worker(sim, kind, worker, ns);
        return;
    }
}

void fault_strike(struct sim *sim) {
    uint32_t total = 0;
    for (uint32_t kind = 0; kind < KIND_STRUCK; kind++)
        total += sim->options.weights[kind];
    if (total > 0) {
        uint64_t at = random_below(&sim->draws.faults, total);
        uint32_t kind = 0;
        while (at >= sim->options.weights[kind])
            at -= sim->options.weights[kind++];
        sim->counts.faults++;
        strike(sim, (enum kind)kind);
    }
    sim_at(sim, sim->now_ns + 1 + draw_about(&sim->draws.faults, sim->options.fault_ns),
           (struct cell_event){.type = EVENT_FAULT, .node = SIM_NO_NODE});
}

/* From here on nothing goes wrong any more. Pauses end by themselves: what waits for their end
 * stands in the heap in its order. */
void fault_heal(struct sim *sim) {
    sim_trace(sim, "everything is healed");
    sick_heal(sim);
    memset(sim->blocked_until_ns, 0, sizeof sim->blocked_until_ns);
    memset(sim->eaters, 0, sizeof sim->eaters);
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        struct node *node = &sim->nodes[i];
        node->slow = 1;
        node->stolen_until_ns = 0;
        if (node->up && node->draining)
            fault_crash(sim, i, NS_PER_S);
    }
}
