#include "worker/step/calibrate.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/worker.h"

#define ENOUGH_NS                                                                                  \
    (600 * NS_PER_MS)                /* for all measures together: a worker starts within a second \
                                      */
#define MEASURES_MAX ESTIMATE_RECENT /* of one size; the least of them counts */
#define MEASURES_MIN 2

/* Computes n tokens of one sequence and answers the microseconds. */
static uint64_t measure(struct worker *worker, uint32_t *ids, uint32_t *blocks, uint32_t n) {
    struct plan_row row = {.n_tokens = n, .ids = ids, .blocks = blocks, .sample = true};
    struct plan plan = {.n_rows = 1, .n_tokens = n, .rows = &row};
    uint64_t begin_ns = clock_now_ns();
    batch_build(&worker->batch, &plan);
    forward_run(&worker->forward, &worker->batch, NULL, NULL);
    return (clock_now_ns() - begin_ns) / NS_PER_US;
}

/* Measures one size until the least of its measures has come twice, or time is up. Other programs
 * use the machine too: what they took away is in some measures, seldom in all. */
static void learn(struct worker *worker, uint32_t *ids, uint32_t *blocks, uint32_t n,
                  uint64_t until_ns) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < MEASURES_MAX; i++) {
        if (i >= MEASURES_MIN && clock_now_ns() > until_ns)
            return;
        uint64_t us = measure(worker, ids, blocks, n);
        estimate_learn(&worker->estimate, n, us);
        uint64_t apart = us > least ? us - least : least - us;
        least = us < least ? us : least;
        if (i > 0 && apart <= least / 16)
            return;
    }
}

void calibrate_run(struct worker *worker) {
    enum { TOKENS_MAX = 512 };
    uint32_t ids[TOKENS_MAX], blocks[TOKENS_MAX / KV_BLOCK_TOKENS];
    struct worker_sizes *sizes = &worker->sizes;
    uint32_t most = sizes->chunk_tokens < TOKENS_MAX ? sizes->chunk_tokens : TOKENS_MAX;
    most = sizes->context < most ? sizes->context : most;
    if (worker->forward.forced)
        return;
    for (uint32_t i = 0; i < TOKENS_MAX; i++)
        ids[i] = i % worker->forward.model->facts.n_vocab;
    for (uint32_t i = 0; i < TOKENS_MAX / KV_BLOCK_TOKENS; i++)
        blocks[i] = i % sizes->n_blocks;
    (void)measure(worker, ids, blocks, 1); /* first touch of weights and threads */
    uint64_t until_ns = clock_now_ns() + ENOUGH_NS;
    uint32_t measured = 0;
    for (uint32_t n = 1; n <= most; n = n == 1 ? 16 : 2 * n) {
        learn(worker, ids, blocks, n, until_ns);
        measured = n;
        if (estimate_cost_us(&worker->estimate, n) > WORKER_STEP_US_GOAL ||
            clock_now_ns() > until_ns)
            break;
    }
    log_info("calibrated", "tokens=1 us=%u tokens=%u us=%u chunk_tokens=%u",
             estimate_cost_us(&worker->estimate, 1), measured,
             estimate_cost_us(&worker->estimate, measured),
             estimate_tokens(&worker->estimate, sizes->chunk_tokens, WORKER_STEP_US_GOAL));
}
