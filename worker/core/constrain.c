#include "worker/core/constrain.h"

#include "worker/core/retire.h"
#include "worker/core/run_queue.h"

static enum reason constrain_reason_of(enum status status) {
    switch (status) {
    case STATUS_OK:
        return REASON_NONE;
    case STATUS_NOMEM: /* perhaps elsewhere, or later */
        return REASON_BUSY;
    default:
        return REASON_GRAMMAR;
    }
}

enum reason constrain_begin(struct engine *engine, struct sequence *sequence,
                            const struct submit *submit) {
    const struct engine_sink *sink = &engine->sink;
    if (submit->sampling.n_grammar == 0)
        return REASON_NONE;
    if (!sink->constrain)
        return REASON_GRAMMAR;
    enum status status = sink->constrain(sink->context, sequence->slot, sequence->serial, submit);
    sequence->awaits_grammar = status == STATUS_BUSY;
    return status == STATUS_BUSY ? REASON_NONE : constrain_reason_of(status);
}

void constrain_enter(struct engine *engine, struct sequence *sequence) {
    if (sequence->awaits_grammar)
        run_queue_hold(engine, sequence);
    else if (sequence->n_blocks > 0)
        run_queue_decode(engine, sequence);
    else
        run_queue_wait(engine, sequence);
}

void constrain_end(struct engine *engine, struct sequence *sequence, enum status status) {
    sequence->awaits_grammar = false;
    if (status != STATUS_OK) {
        retire_fail(engine, sequence, constrain_reason_of(status));
    } else if (sequence->queue == QUEUE_HELD) {
        run_queue_remove(engine, sequence);
        constrain_enter(engine, sequence);
    }
}
