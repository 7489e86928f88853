#include "worker/calibrate.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/worker.h"

#define ENOUGH_NS (400 * NS_PER_MS)

/* Computes n tokens of one sequence and answers the microseconds. */
static uint64_t measure(struct worker *worker, uint32_t *ids, uint32_t *blocks, uint32_t n) {
    struct plan_row row = {.n_tokens = n, .ids = ids, .blocks = blocks, .sample = true};
    struct plan plan = {.n_rows = 1, .n_tokens = n, .rows = &row};
    uint64_t begin_ns = clock_now_ns();
    batch_build(&worker->batch, &plan);
    forward_run(&worker->forward, &worker->batch, NULL, NULL);
    return (clock_now_ns() - begin_ns) / NS_PER_US;
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
    uint64_t begin_ns = clock_now_ns();
    for (uint32_t n = 1; n <= most; n = n == 1 ? 16 : 2 * n) {
        uint64_t us = measure(worker, ids, blocks, n), again = measure(worker, ids, blocks, n);
        us = again < us ? again : us; /* others use the machine too */
        estimate_learn(&worker->estimate, n, us);
        if (us > WORKER_STEP_US_GOAL || clock_now_ns() - begin_ns > ENOUGH_NS)
            break;
    }
    log_info("calibrated", "us_1=%u us_64=%u budget=%u", estimate_us(&worker->estimate, 1),
             estimate_us(&worker->estimate, 64),
             estimate_tokens(&worker->estimate, sizes->chunk_tokens, WORKER_STEP_US_GOAL));
}
