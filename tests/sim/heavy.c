#include "tests/sim/heavy.h"

#include "tests/sim/judge.h"

#include "worker/core/engine_state.h"

#include <string.h>

void heavy_draw(struct sim *sim) {
    struct options *options = &sim->options;
    struct random random = {.state = mix64(sim->seed ^ 0x4ea7)};
    if (options->fault_ns == 0 || options->sick != SICK_NONE ||
        !draw_chance(&random, HEAVY_PERCENT))
        return;
    options->heavy = true;
    options->learns = true;
    options->step_ns = draw_between(&random, HEAVY_US_MIN, HEAVY_US_MAX) * NS_PER_US;
    options->token_ns = HEAVY_TOKEN_US * NS_PER_US;
    options->chunk_tokens = SIM_PROMPT;
    options->max_batch = HEAVY_BATCH; /* one by one, steps so long serve nobody in time */
    options->max_seqs = 2 * HEAVY_BATCH;
    options->fault_ns = draw_between(&random, 5, 20) * NS_PER_S;
    options->client_ns = draw_between(&random, 5, 60) * NS_PER_MS;
    for (uint32_t w = 0; w < SIM_WORKERS; w++)
        options->n_blocks[w] = 120;
    memset(options->weights, 0, sizeof options->weights);
    options->weights[KIND_STEAL] = sim->limits.without >> KIND_STEAL & 1 ? 0 : 1;
    options->loss = options->duplicate = options->reorder = options->garble = 0;
    sim_saw(sim, SIGHT_HEAVY);
}

void heavy_judge(struct sim *sim, uint32_t i) {
    struct node *node = &sim->nodes[i];
    if (!sim->options.heavy)
        return;
    if (node->heavy.slowed)
        node->heavy.n_well = node->heavy.n_small = 0;
    if (node->heavy.slowed && node->budget.n_fits < node->budget.most)
        sim_saw(sim, SIGHT_SMALL_STEPS);
    node->heavy.n_well++;
    if (2 * node->budget.n_fits >= node->budget.most)
        node->heavy.n_small = 0;
    else if (node->flights[0].plan.n_prompt >= node->heavy.budget)
        node->heavy.n_small++;
    if (node->heavy.n_small > HEAVY_SMALL && node->heavy.n_well > HEAVY_WELL)
        sim_fail(sim,
                 "worker %u still computes %u tokens of prompts a step, %u steps after it was slow",
                 i, node->budget.n_fits, node->heavy.n_well);
}
