/* The ledgers, and what must be zero in the end. */
#include "tests/sim/judge.h"

void judge_node(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    if (!node->up)
        return;
    const char *flaw = node->router ? router_check(node->router) : engine_check(node->engine);
    if (flaw)
        sim_fail(sim, "node %u: %s", i, flaw);
}

static void judge_engine(struct sim *sim, uint32_t i) {
    struct load load;
    engine_load(sim->nodes[i].engine, &load);
    if (!engine_idle(sim->nodes[i].engine))
        sim_fail(sim, "worker %u still holds something", i);
    else if (load.blocks_used + load.blocks_reserved + load.blocks_quarantined != 0 ||
             load.blocks_free + load.blocks_cached != load.blocks_total)
        sim_fail(sim, "worker %u: blocks used %u, reserved %u, quarantined %u after quiet", i,
                 load.blocks_used, load.blocks_reserved, load.blocks_quarantined);
    else if (load.n_running + load.n_waiting + load.prefill_tokens_queued != 0)
        sim_fail(sim, "worker %u: load after quiet", i);
    sim->counts.preemptions += load.n_preemptions;
}

/* Where nothing is wrong nothing is lost, asked for again or given up. */
static void judge_calm(struct sim *sim, uint32_t i, const struct router_stats *stats) {
    if (sim->options.fault_ns == 0 && stats->n_replays + stats->n_fenced + stats->n_resends > 0)
        sim_fail(sim, "router %u in a run without faults: %llu replays, %llu fenced, %llu resends",
                 i, (unsigned long long)stats->n_replays, (unsigned long long)stats->n_fenced,
                 (unsigned long long)stats->n_resends);
}

void judge_router_over(struct sim *sim, uint32_t i) {
    const struct node *node = &sim->nodes[i];
    struct router_stats stats;
    router_stats(node->router, &stats);
    judge_calm(sim, i, &stats);
    struct counts *counts = &sim->counts;
    counts->replays += stats.n_replays;
    counts->handoffs += stats.n_handoffs;
    counts->fenced += stats.n_fenced;
    counts->resends += stats.n_resends;
    counts->poisoned += stats.n_poisoned;
    counts->inexact += stats.n_inexact;
    if (stats.n_inexact != node->judged.n_inexact)
        sim_fail(sim, "router %u counts %llu streams as inexact, %llu were", i,
                 (unsigned long long)stats.n_inexact, (unsigned long long)node->judged.n_inexact);
}

static void judge_router(struct sim *sim, uint32_t i) {
    struct router_stats stats;
    router_stats(sim->nodes[i].router, &stats);
    if (stats.n_queued + stats.n_running != 0)
        sim_fail(sim, "router %u still holds requests", i);
    for (uint32_t slot = 0; slot < SIM_SLOTS; slot++) {
        struct worker_view view;
        if (router_worker(sim->nodes[i].router, slot, &view) == STATUS_OK && view.n_assigned != 0)
            sim_fail(sim, "router %u counts requests at slot %u after quiet", i, slot);
    }
    judge_router_over(sim, i);
}

void judge_quiet(struct sim *sim) {
    /* Each had its reason (judge_error.c). A request is given up when it loses its worker once more
     * while it runs there alone, so that a lost worker costs one request at most; or when it was
     * lost eight times. */
    uint64_t budget = sim->counts.worker_losses + sim->counts.request_losses / 8;
    if (sim->counts.given_up > budget)
        sim_fail(sim, "%llu requests were given up after losses, %llu may be",
                 (unsigned long long)sim->counts.given_up, (unsigned long long)budget);
    for (uint32_t i = 0; i < SIM_NODES; i++) {
        judge_node(sim, i);
        if (!sim->nodes[i].up)
            continue;
        if (i < SIM_ROUTERS)
            judge_router(sim, i);
        else
            judge_engine(sim, i);
    }
}
