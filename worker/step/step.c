#include "worker/step/step.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "model/model.h"
#include "worker/step/calibrate.h"

#include <string.h>

enum turn { TURN_NEXT, TURN_IDLE };

static enum turn receive(struct stepper *stepper) {
    receive_messages(&stepper->receive);
    return TURN_NEXT;
}

static enum turn schedule(struct stepper *stepper) {
    engine_plan(stepper->receive.engine, stepper->receive.looked_ns, &stepper->plan);
    if (stepper->plan.n_rows > 0)
        return TURN_NEXT;
    engine_turn(stepper->receive.engine);
    return TURN_IDLE;
}

static enum turn batch(struct stepper *stepper) {
    batch_build(&stepper->batch, &stepper->plan);
    return TURN_NEXT;
}

static enum turn forward(struct stepper *stepper) {
    emit_begin(&stepper->emit, stepper->receive.engine, &stepper->budget, &stepper->plan);
    forward_run(&stepper->forward, &stepper->batch, emit_layers, &stepper->receive);
    return TURN_NEXT;
}

static enum turn sample(struct stepper *stepper) {
    sample_run(&stepper->sample, stepper->receive.engine, &stepper->forward, &stepper->batch);
    forward_end(&stepper->forward);
    return TURN_NEXT;
}

static enum turn emit(struct stepper *stepper) {
    emit_end(&stepper->emit, stepper->receive.engine, &stepper->budget, &stepper->plan,
             stepper->sample.sampled);
    return TURN_NEXT;
}

static const struct {
    const char *name; /* as in ARCHITECTURE.md, and the label of its time */
    enum turn (*run)(struct stepper *stepper);
} way[] = {
    {"receive", receive}, {"schedule", schedule}, {"batch", batch},
    {"forward", forward}, {"sample", sample},     {"emit", emit},
};

_Static_assert(sizeof way / sizeof *way == STEP_STAGES, "every stage has its time");

const char *step_stage(unsigned stage) {
    ASSERT(stage < STEP_STAGES);
    return way[stage].name;
}

/* Idle turns are left out: they would hide how long the stages of a step take. */
static void observe(const struct stepper *stepper, const uint64_t *at_ns) {
    for (unsigned i = 0; i < STEP_STAGES; i++)
        if (stepper->seconds[i])
            metric_observe(stepper->seconds[i],
                           (double)(at_ns[i + 1] - at_ns[i]) / (double)NS_PER_S);
    if (stepper->tokens)
        metric_observe(stepper->tokens, stepper->plan.n_tokens);
}

bool step_run(struct stepper *stepper) {
    uint64_t at_ns[STEP_STAGES + 1] = {clock_now_ns()};
    for (unsigned i = 0; i < STEP_STAGES; i++) {
        if (way[i].run(stepper) == TURN_IDLE)
            return false;
        at_ns[i + 1] = clock_now_ns();
    }
    observe(stepper, at_ns);
    return true;
}

static enum status open_all(struct stepper *stepper, const struct step_options *options,
                            struct error *error) {
    const struct rank_options *sizes = &options->forward;
    const struct model *model = sizes->model;
    TRY(forward_open(&stepper->forward, sizes, error));
    const struct family_facts *facts = &stepper->forward.rank.model->facts;
    struct sample_options sample_options = {.max_seqs = sizes->max_seqs,
                                            .max_slots = options->max_slots,
                                            .context = sizes->context_max,
                                            .n_vocab = facts->forced ? 0 : facts->n_vocab,
                                            .n_ends = model->config.n_stop_ids,
                                            .ends = model->config.stop_ids,
                                            .n_barred = model->n_textless,
                                            .barred = model->textless};
    if (batch_init(&stepper->batch, sizes->max_tokens, sizes->max_seqs, sizes->context_max) !=
            STATUS_OK ||
        sample_init(&stepper->sample, &sample_options) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for batches of %u tokens",
                         sizes->max_tokens);
    budget_init(&stepper->budget, facts->forced ? 0 : options->chunk_tokens, BUDGET_STEP_US_GOAL);
    calibrate_run(&stepper->forward, &stepper->batch, &stepper->budget);
    return STATUS_OK;
}

enum status step_open(struct stepper *stepper, const struct step_options *options,
                      struct error *error) {
    memset(stepper, 0, sizeof *stepper);
    enum status status = open_all(stepper, options, error);
    if (status != STATUS_OK)
        step_close(stepper);
    return status;
}

void step_close(struct stepper *stepper) {
    sample_fini(&stepper->sample);
    batch_fini(&stepper->batch);
    forward_close(&stepper->forward);
    memset(stepper, 0, sizeof *stepper);
}
