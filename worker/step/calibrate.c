#include "worker/step/calibrate.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/budget.h"
#include "worker/step/forward.h"

struct calibrate {
    struct forward *forward; /* borrowed, as the next */
    struct batch *batch;
    uint32_t ids[BUDGET_MEASURE_MAX];
    uint32_t blocks[BUDGET_MEASURE_MAX / KV_BLOCK_TOKENS];
};

/* Computes n tokens of one sequence and answers the microseconds. */
static uint64_t calibrate_measure(struct calibrate *calibrate, uint32_t n) {
    struct plan_row row = {
        .n_tokens = n, .ids = calibrate->ids, .blocks = calibrate->blocks, .sample = true};
    struct plan plan = {.n_rows = 1, .n_tokens = n, .rows = &row};
    uint64_t begin_ns = clock_now_ns();
    batch_build(calibrate->batch, &plan);
    forward_run(calibrate->forward, calibrate->batch, NULL, NULL);
    forward_end(calibrate->forward);
    return (clock_now_ns() - begin_ns) / NS_PER_US;
}

void calibrate_run(struct forward *forward, struct batch *batch, struct budget *budget) {
    struct calibrate calibrate = {.forward = forward, .batch = batch};
    uint32_t measured = 0;
    if (forward->rank.forced)
        return;
    for (uint32_t i = 0; i < BUDGET_MEASURE_MAX; i++)
        calibrate.ids[i] = i % forward->rank.model->facts.n_vocab;
    for (uint32_t i = 0; i < BUDGET_MEASURE_MAX / KV_BLOCK_TOKENS; i++)
        calibrate.blocks[i] = i % forward->rank.kv.n_blocks;
    (void)calibrate_measure(&calibrate, 1); /* first touch of weights and threads */
    for (uint32_t n; (n = budget_measure(budget, batch->max_context)) > 0; measured = n)
        budget_measured(budget, calibrate_measure(&calibrate, n));
    log_info("calibrated", "tokens=1 us=%u tokens=%u us=%u chunk_tokens=%u",
             budget_cost_us(budget, 1), measured, budget_cost_us(budget, measured), budget->n_fits);
}
