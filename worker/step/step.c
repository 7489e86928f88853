#include "worker/step/step.h"

#include "worker/step/emit.h"
#include "worker/step/receive.h"
#include "worker/worker.h"

enum turn { TURN_NEXT, TURN_IDLE };

static enum turn receive(struct worker *worker) {
    receive_messages(worker);
    return TURN_NEXT;
}

static enum turn schedule(struct worker *worker) {
    engine_plan(worker->engine, worker->looked_ns, &worker->plan);
    if (worker->plan.n_rows > 0)
        return TURN_NEXT;
    engine_turn(worker->engine);
    return TURN_IDLE;
}

static enum turn batch(struct worker *worker) {
    batch_build(&worker->batch, &worker->plan);
    return TURN_NEXT;
}

static enum turn forward(struct worker *worker) {
    emit_begin(worker);
    forward_run(&worker->forward, &worker->batch, emit_layers, worker);
    return TURN_NEXT;
}

static enum turn sample(struct worker *worker) {
    sample_run(&worker->sample, worker->engine, &worker->forward, &worker->batch);
    return TURN_NEXT;
}

static enum turn emit(struct worker *worker) {
    emit_end(worker);
    return TURN_NEXT;
}

static const struct {
    const char *name; /* as in the design and in traces */
    enum turn (*run)(struct worker *worker);
} way[] = {
    {"receive", receive}, {"schedule", schedule}, {"batch", batch},
    {"forward", forward}, {"sample", sample},     {"emit", emit},
};

bool step_run(struct worker *worker) {
    for (unsigned i = 0; i < sizeof way / sizeof *way; i++)
        if (way[i].run(worker) == TURN_IDLE)
            return false;
    return true;
}
