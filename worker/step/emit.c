#include "worker/step/emit.h"

#include "base/clock.h"
#include "worker/step/receive.h"
#include "worker/worker.h"

#define LOOK_NS (5 * NS_PER_MS) /* in a long step the links are looked at this often */

void emit_begin(struct worker *worker) {
    worker->step_begin_ns = clock_now_ns();
    engine_step_begin(worker->engine, worker->step_begin_ns,
                      estimate_us(&worker->estimate, worker->plan.n_tokens));
}

void emit_layers(void *context, uint32_t layer_begin, uint32_t layer_end) {
    struct worker *worker = context;
    uint64_t now_ns = clock_now_ns();
    engine_layers_done(worker->engine, now_ns, layer_begin, layer_end);
    if (now_ns - worker->looked_ns > LOOK_NS)
        receive_messages(worker); /* credits for chunks, cancels, pings */
}

void emit_end(struct worker *worker) {
    uint64_t now_ns = clock_now_ns();
    estimate_learn(&worker->estimate, worker->plan.n_tokens,
                   (now_ns - worker->step_begin_ns) / NS_PER_US);
    /* Families that do not compute take as long as they were told to. */
    if (worker->plan.n_tokens >= 16 && !worker->forward.forced)
        engine_budget(worker->engine, estimate_tokens(&worker->estimate, worker->sizes.chunk_tokens,
                                                      WORKER_STEP_US_GOAL));
    engine_step_end(worker->engine, now_ns, worker->sample.sampled);
}
