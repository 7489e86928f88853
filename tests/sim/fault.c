/* What goes wrong, and which of it a seed allows. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum kind {
    KIND_CRASH,
    KIND_PAUSE,
    KIND_SLOW,
    KIND_BREAK,
    KIND_BREAK_KV,
    KIND_PART,
    KIND_PART_ONE_WAY,
    KIND_ISOLATE,
    KIND_ROUTER_CRASH,
    KIND_ROUTER_PAUSE,
    KIND_DRAIN,
    KIND_TERM,
    KIND_CANCEL_STORM,
    KIND_HOST_DEATH,
    KIND_BURST,
    KIND_CORRUPT, /* in net.c, while its weight is not zero */
    KIND_COUNT
};

static const char *const policies[] = {"round_robin", "least_load", "two_choices",
                                       "prefix_affinity"};

static void draw_workers(struct sim *sim, struct options *options) {
    static const uint32_t pools[] = {12, 20, 40, 120};
    uint32_t pool = pools[random_below(&sim->random, 4)];
    for (uint32_t w = 0; w < options->n_workers; w++) {
        options->roles[w] = (enum worker_role)random_below(&sim->random, 3);
        options->n_blocks[w] = sim_chance(sim, 15) ? pools[random_below(&sim->random, 4)] : pool;
    }
    if (sim_chance(sim, 60)) { /* the usual shape */
        for (uint32_t w = 0; w < options->n_workers; w++)
            options->roles[w] = w % 2 ? ROLE_DECODE : ROLE_PREFILL;
    }
    options->other_numerics = options->other_model = UINT32_MAX;
    if (options->n_workers > 2 && sim_chance(sim, 15))
        options->other_numerics = options->n_workers - 1;
    else if (options->n_workers > 2 && sim_chance(sim, 10))
        options->other_model = options->n_workers - 1;
}

void fault_options(struct sim *sim) {
    struct options *options = &sim->options;
    *options = (struct options){
        .n_routers = sim_chance(sim, 25) ? 2 : 1,
        .n_workers = (uint32_t)sim_between(sim, sim_chance(sim, 10) ? 1 : 2, SIM_WORKERS),
        .max_seqs = (uint32_t)sim_between(sim, 2, 40),
        .max_batch = (uint32_t)sim_between(sim, 1, 24),
        .chunk_tokens = (uint32_t)sim_between(sim, 1, 4) * 24,
        .chunk_bytes = SIM_BLOCK_BYTES * (uint32_t)sim_between(sim, 1, 24),
        .layer_groups = 1u << random_below(&sim->random, 3),
        .credits = (uint32_t)sim_between(sim, 1, 8),
        .hwm = sim_chance(sim, 30) ? (uint32_t)sim_between(sim, 16, 64) : 256,
        .max_queue = sim_chance(sim, 25) ? (uint32_t)sim_between(sim, 1, 8) : 128,
        .local_prefill_tokens = sim_chance(sim, 50) ? 0 : (uint32_t)sim_between(sim, 1, 64),
        .policy = policies[random_below(&sim->random, 4)],
        .step_ns = sim_between(sim, 1, 40) * 500 * NS_PER_US,
        .delay_ns = sim_between(sim, 1, 200) * 20 * NS_PER_US,
        .fault_ns = sim_chance(sim, 8) ? 0 : sim_between(sim, 200, 5000) * NS_PER_MS,
        .client_ns = sim_between(sim, 5, 200) * NS_PER_MS,
        .messages_in_step = sim_chance(sim, 50),
        .overtake = sim_chance(sim, 50),
        .cancel_percent = (uint32_t)random_below(&sim->random, 30),
        .stop_percent = (uint32_t)random_below(&sim->random, 30),
        .deadline_percent = (uint32_t)random_below(&sim->random, 20),
    };
    draw_workers(sim, options);
    for (uint32_t kind = 0; kind < KIND_COUNT; kind++)
        options->weights[kind] = sim_chance(sim, 40) ? (uint32_t)sim_between(sim, 1, 10) : 0;
    if (options->fault_ns == 0)
        memset(options->weights, 0, sizeof options->weights);
}

static uint32_t any_worker(struct sim *sim) {
    return SIM_ROUTERS + (uint32_t)random_below(&sim->random, sim->options.n_workers);
}

static uint32_t any_node(struct sim *sim) {
    uint64_t i = random_below(&sim->random, sim->options.n_workers + sim->options.n_routers);
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
        struct router_stats stats;
        router_stats(node->router, &stats);
        sim->counts.replays += stats.n_replays;
        sim->counts.handoffs += stats.n_handoffs;
        client_router_died(sim, i);
        router_free(node->router);
        node->router = NULL;
    } else {
        engine_free(node->engine);
        node->engine = NULL;
    }
    net_node_died(sim, i);
    sim_at(sim, sim->now_ns + down_ns,
           (struct event){.type = EVENT_RESTART, .node = SIM_NO_NODE, .a = i});
}

static void pause(struct sim *sim, uint32_t i, uint64_t ns) {
    struct node *node = &sim->nodes[i];
    if (!node->up || node->paused_until_ns > sim->now_ns)
        return;
    sim_trace(sim, "node %u pauses for %llu ms", i, (unsigned long long)(ns / NS_PER_MS));
    sim->counts.pauses++;
    node->paused_until_ns = sim->now_ns + ns;
    sim_at(sim, node->paused_until_ns,
           (struct event){.type = EVENT_RESUME, .node = i, .b = (uint32_t)node->epoch, .c = ns});
}

void fault_resume(struct sim *sim, const struct event *event) {
    struct node *node = &sim->nodes[event->node];
    if (!node->up || (uint32_t)node->epoch != event->b)
        return;
    if (node->router) /* its loop sees how long it was away */
        router_loop_delay(node->router, event->c);
}

static void block(struct sim *sim, uint32_t from, uint32_t to, uint64_t ns) {
    uint64_t until = sim->now_ns + ns;
    if (sim->blocked_until_ns[from][to] < until)
        sim->blocked_until_ns[from][to] = until;
    sim->counts.partitions++;
}

static void break_some(struct sim *sim, bool kv) {
    uint32_t n = 0, chosen = 0;
    for (uint32_t i = 0; i < sim->n_conns; i++) {
        if (sim->conns[i].alive && sim->conns[i].kv == kv && random_below(&sim->random, ++n) == 0)
            chosen = i;
    }
    if (n == 0)
        return;
    sim_trace(sim, "connection %u-%u breaks", sim->conns[chosen].node[0],
              sim->conns[chosen].node[1]);
    sim->counts.breaks++;
    net_break(sim, chosen, sim_about(sim, 10 * NS_PER_MS));
}

static void cancel_storm(struct sim *sim) {
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct client *client = &sim->clients[i];
        if (!client->used || !sim_chance(sim, 90))
            continue;
        sim_at(sim, sim->now_ns + sim_about(sim, 50 * NS_PER_MS),
               (struct event){
                   .type = EVENT_CANCEL, .node = client->router, .a = i, .c = client->serial});
    }
}

static void drain(struct sim *sim, bool by_router) {
    uint32_t i = any_worker(sim);
    struct node *node = &sim->nodes[i], *router = &sim->nodes[0];
    if (!node->up || node->draining || node->paused_until_ns > sim->now_ns)
        return;
    sim_trace(sim, "worker %u drains", i);
    node->draining = true;
    if (!by_router) {
        engine_drain(node->engine, sim->now_ns);
        back_after(sim, i);
    } else if (router->up && router->paused_until_ns <= sim->now_ns) {
        char name[MESSAGE_NAME_MAX];
        snprintf(name, sizeof name, "worker%u", i - SIM_ROUTERS);
        if (router_drain_worker(router->router, sim->now_ns, name, false) != STATUS_OK)
            sim_trace(sim, "not in session");
        front_after(sim, 0);
    }
}

static uint64_t some_ms(struct sim *sim, uint64_t low, uint64_t high) {
    return sim_between(sim, low, high) * NS_PER_MS;
}

static void isolate(struct sim *sim, uint32_t i, uint64_t ns) {
    for (uint32_t other = 0; other < SIM_NODES; other++) {
        if (other == i)
            continue;
        block(sim, i, other, ns);
        block(sim, other, i, ns);
    }
}

static void strike(struct sim *sim, enum kind kind) {
    uint32_t a = any_node(sim), b = any_node(sim), worker = any_worker(sim);
    uint64_t ns = some_ms(sim, 20, sim_chance(sim, 30) ? 9000 : 900);
    switch (kind) {
    case KIND_CRASH:
        fault_crash(sim, worker, some_ms(sim, 20, 4000));
        return;
    case KIND_HOST_DEATH:
        sim->mute_deaths = true;
        fault_crash(sim, worker, some_ms(sim, 20, 9000));
        sim->mute_deaths = false;
        return;
    case KIND_PAUSE:
        pause(sim, worker, ns);
        return;
    case KIND_SLOW:
        sim->nodes[worker].slow = sim_chance(sim, 50) ? 1 : sim_between(sim, 2, 100);
        return;
    case KIND_BREAK:
        break_some(sim, false);
        return;
    case KIND_BREAK_KV:
        break_some(sim, true);
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
    case KIND_ROUTER_CRASH:
        fault_crash(sim, (uint32_t)random_below(&sim->random, sim->options.n_routers),
                    some_ms(sim, 20, 4000));
        return;
    case KIND_ROUTER_PAUSE:
        pause(sim, (uint32_t)random_below(&sim->random, sim->options.n_routers), ns);
        return;
    case KIND_DRAIN:
    case KIND_TERM:
        drain(sim, kind == KIND_DRAIN);
        return;
    case KIND_CANCEL_STORM:
        cancel_storm(sim);
        return;
    case KIND_BURST:
        for (uint32_t i = 0; i < 20; i++)
            client_arrive(sim, false);
        return;
    default:
        return;
    }
}

void fault_strike(struct sim *sim) {
    uint32_t total = 0;
    for (uint32_t kind = 0; kind < KIND_CORRUPT; kind++)
        total += sim->options.weights[kind];
    if (total > 0) {
        uint64_t at = random_below(&sim->random, total);
        uint32_t kind = 0;
        while (at >= sim->options.weights[kind])
            at -= sim->options.weights[kind++];
        sim->counts.faults++;
        strike(sim, (enum kind)kind);
    }
    sim_at(sim, sim->now_ns + 1 + sim_about(sim, sim->options.fault_ns),
           (struct event){.type = EVENT_FAULT, .node = SIM_NO_NODE});
}

/* From here on nothing goes wrong any more. Pauses end by themselves: what waits for their end
 * stands in the heap in its order. */
void fault_heal(struct sim *sim) {
    sim_trace(sim, "everything is healed");
    memset(sim->blocked_until_ns, 0, sizeof sim->blocked_until_ns);
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        struct node *node = &sim->nodes[i];
        node->slow = 1;
        if (node->up && node->draining)
            fault_crash(sim, i, NS_PER_S);
    }
}
