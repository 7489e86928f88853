#include "worker/step/calibrate.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/estimate.h"
#include "worker/step/forward.h"

/* For all measures together: a worker starts within a second. */
#define ENOUGH_NS (600 * NS_PER_MS)

#define MEASURES_MAX ESTIMATE_RECENT /* of one size; the least of them counts */
#define MEASURES_MIN 2

enum { TOKENS_MAX = 512 };

struct calibrate {
    struct forward *forward; /* borrowed, as the next two */
    struct batch *batch;
    struct estimate *estimate; /* learns */
    uint64_t until_ns;
    uint32_t ids[TOKENS_MAX];
    uint32_t blocks[TOKENS_MAX / KV_BLOCK_TOKENS];
};

/* Computes n tokens of one sequence and answers the microseconds. */
static uint64_t measure(struct calibrate *calibrate, uint32_t n) {
    struct plan_row row = {
        .n_tokens = n, .ids = calibrate->ids, .blocks = calibrate->blocks, .sample = true};
    struct plan plan = {.n_rows = 1, .n_tokens = n, .rows = &row};
    uint64_t begin_ns = clock_now_ns();
    batch_build(calibrate->batch, &plan);
    forward_run(calibrate->forward, calibrate->batch, NULL, NULL);
    forward_end(calibrate->forward);
    return (clock_now_ns() - begin_ns) / NS_PER_US;
}

/* Measures one size until the least of its measures has come twice, or time is up. Other programs
 * use the machine too: what they took away is in some measures, seldom in all. */
static void learn(struct calibrate *calibrate, uint32_t n) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < MEASURES_MAX; i++) {
        if (i >= MEASURES_MIN && clock_now_ns() > calibrate->until_ns)
            return;
        uint64_t us = measure(calibrate, n);
        estimate_learn(calibrate->estimate, n, us);
        uint64_t apart = us > least ? us - least : least - us;
        least = us < least ? us : least;
        if (i > 0 && apart <= least / 16)
            return;
    }
}

void calibrate_run(struct forward *forward, struct batch *batch, uint32_t chunk_tokens,
                   struct estimate *estimate) {
    struct calibrate calibrate = {.forward = forward, .batch = batch, .estimate = estimate};
    uint32_t most = chunk_tokens < TOKENS_MAX ? chunk_tokens : TOKENS_MAX;
    most = batch->max_context < most ? batch->max_context : most;
    if (forward->rank.forced)
        return;
    for (uint32_t i = 0; i < TOKENS_MAX; i++)
        calibrate.ids[i] = i % forward->rank.model->facts.n_vocab;
    for (uint32_t i = 0; i < TOKENS_MAX / KV_BLOCK_TOKENS; i++)
        calibrate.blocks[i] = i % forward->rank.kv.n_blocks;
    (void)measure(&calibrate, 1); /* first touch of weights and threads */
    calibrate.until_ns = clock_now_ns() + ENOUGH_NS;
    uint32_t measured = 0;
    for (uint32_t n = 1; n <= most; n = n == 1 ? 16 : 2 * n) {
        learn(&calibrate, n);
        measured = n;
        if (estimate_cost_us(estimate, n) > ESTIMATE_STEP_US_GOAL ||
            clock_now_ns() > calibrate.until_ns)
            break;
    }
    log_info("calibrated", "tokens=1 us=%u tokens=%u us=%u chunk_tokens=%u",
             estimate_cost_us(estimate, 1), measured, estimate_cost_us(estimate, measured),
             estimate_tokens(estimate, chunk_tokens, ESTIMATE_STEP_US_GOAL));
}
