/* Is everything as it must be? */
#include "tests/sim/sim.h"

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

static void judge_router(struct sim *sim, uint32_t i) {
    struct router_stats stats;
    router_stats(sim->nodes[i].router, &stats);
    if (stats.n_queued + stats.n_running != 0)
        sim_fail(sim, "router %u still holds requests", i);
    struct counts *counts = &sim->counts;
    counts->replays += stats.n_replays;
    counts->handoffs += stats.n_handoffs;
    counts->fenced += stats.n_fenced;
    counts->resends += stats.n_resends;
    counts->poisoned += stats.n_poisoned;
    counts->inexact += stats.n_inexact;
    for (uint32_t slot = 0; slot < SIM_SLOTS; slot++) {
        struct worker_view view;
        if (router_worker(sim->nodes[i].router, slot, &view) == STATUS_OK && view.n_assigned != 0)
            sim_fail(sim, "router %u counts requests at slot %u after quiet", i, slot);
    }
}

void judge_quiet(struct sim *sim) {
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
