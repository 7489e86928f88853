#include "worker/step/step.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "model/model.h"
#include "worker/step/calibrate.h"
#include "worker/step/rehearse.h"

#include <string.h>

enum turn { TURN_NEXT, TURN_IDLE };

static enum turn step_receive(struct stepper *stepper) {
    receive_messages(&stepper->receive);
    if (stepper->constraint.slots)
        constraint_look(&stepper->constraint, stepper->receive.engine, stepper->receive.looked_ns);
    return TURN_NEXT;
}

/* A step that was begun ahead is the next. */
static void step_take_ahead(struct stepper *stepper) {
    stepper->plan = stepper->ahead;
    stepper->ahead.n_rows = 0;
    stepper->is_begun = true;
    stepper->is_chosen = stepper->ahead_is_chosen;
}

static enum turn step_schedule(struct stepper *stepper) {
    if (stepper->ahead.n_rows > 0) {
        step_take_ahead(stepper);
        return TURN_NEXT;
    }
    stepper->is_begun = stepper->is_chosen = false;
    engine_plan(stepper->receive.engine, stepper->receive.looked_ns, &stepper->plan);
    if (stepper->plan.n_rows > 0)
        return TURN_NEXT;
    engine_turn(stepper->receive.engine);
    return TURN_IDLE;
}

static enum turn step_batch(struct stepper *stepper) {
    if (!stepper->is_begun)
        batch_build(&stepper->batch, &stepper->plan);
    return TURN_NEXT;
}

static void step_begin(struct stepper *stepper) {
    emit_begin(&stepper->emit, stepper->receive.engine, &stepper->budget, &stepper->plan);
    forward_begin(&stepper->forward, &stepper->batch, emit_layers, &stepper->receive);
    stepper->is_begun = true;
}

static bool step_choose(struct stepper *stepper) {
    return sample_begin(&stepper->sample, stepper->receive.engine, &stepper->forward,
                        &stepper->batch);
}

/* The step behind the running one, where that is the same again. The batch is the kernels' already. */
static void step_go_ahead(struct stepper *stepper) {
    struct engine *engine = stepper->receive.engine;
    bool decodes = stepper->plan.n_prompt == 0;
    if (!stepper->is_chosen)
        stepper->is_chosen = decodes && step_choose(stepper);
    if (decodes && !stepper->is_chosen)
        return; /* too many rows or parameters for once */
    if (engine_repeat(engine, clock_now_ns(), &stepper->ahead) != REPEAT_GRANTED)
        return;
    ASSERT(stepper->is_chosen);
    batch_build(&stepper->batch, &stepper->ahead);
    emit_begin_ahead(engine, &stepper->budget, &stepper->ahead);
    forward_begin(&stepper->forward, &stepper->batch, emit_layers, &stepper->receive);
    stepper->ahead_is_chosen = step_choose(stepper);
}

/* What a device computes begins here, and waits below. */
static enum turn step_launch(struct stepper *stepper) {
    if (!stepper->is_begun && forward_launches(&stepper->forward))
        step_begin(stepper);
    if (stepper->goes_ahead)
        step_go_ahead(stepper);
    return TURN_NEXT;
}

static enum turn step_forward(struct stepper *stepper) {
    if (!stepper->is_begun)
        step_begin(stepper);
    stepper->as_it_came = true;
    if (stepper->is_chosen) /* nothing of it is handed over: no layer is waited for */
        stepper->as_it_came =
            forward_await_choice(&stepper->forward, emit_layers, &stepper->receive);
    else
        forward_follow(&stepper->forward, emit_layers, &stepper->receive);
    return TURN_NEXT;
}

static enum turn step_sample(struct stepper *stepper) {
    if (stepper->is_chosen)
        sample_take(&stepper->sample, &stepper->forward, stepper->plan.n_rows);
    else
        sample_run(&stepper->sample, stepper->receive.engine, &stepper->forward, &stepper->batch);
    if (stepper->ahead.n_rows == 0)
        forward_end(&stepper->forward);
    return TURN_NEXT;
}

static enum turn step_emit(struct stepper *stepper) {
    emit_end(&stepper->emit, stepper->receive.engine, &stepper->budget, &stepper->plan,
             stepper->sample.sampled, stepper->as_it_came);
    return TURN_NEXT;
}

static const struct {
    const char *name; /* as in docs/architecture/worker.md, and the label of its time */
    enum turn (*run)(struct stepper *stepper);
} way[] = {
    {"receive", step_receive}, {"schedule", step_schedule}, {"batch", step_batch},
    {"launch", step_launch},   {"forward", step_forward},   {"sample", step_sample},
    {"emit", step_emit},
};

_Static_assert(sizeof way / sizeof *way == STEP_STAGES, "every stage has its time");

const char *step_stage(unsigned stage) {
    ASSERT(stage < STEP_STAGES);
    return way[stage].name;
}

/* Idle turns are left out: they would hide how long the stages of a step take. */
static void step_observe(const struct stepper *stepper, const uint64_t *at_ns) {
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
    step_observe(stepper, at_ns);
    return true;
}

static enum status step_open_constraint(struct stepper *stepper, const struct step_options *options,
                                        struct error *error) {
    const struct sample_options *sample = &stepper->sample.options;
    struct constraint_options constraint = {.max_rows = sample->max_seqs,
                                            .max_slots = sample->max_slots,
                                            .n_vocab = sample->n_vocab,
                                            .n_ends = sample->n_ends,
                                            .ends = sample->ends};
    if (sample->n_vocab == 0 || !options->tokenizer)
        return STATUS_OK; /* tokens are named, not chosen; or grammars are off */
    constraint.tokenizer = *options->tokenizer;
    *options->tokenizer = NULL;
    enum status status = constraint_init(&stepper->constraint, &constraint);
    return status == STATUS_OK ? status : error_set(error, status, "no memory for grammars");
}

static enum status step_open_all(struct stepper *stepper, const struct step_options *options,
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
                                            .barred = model->textless,
                                            .constraint = &stepper->constraint};
    if (batch_init(&stepper->batch, sizes->max_tokens, sizes->max_seqs, sizes->context_max) !=
            STATUS_OK ||
        sample_init(&stepper->sample, &sample_options) != STATUS_OK)
        return error_set(error, STATUS_NOMEM, "no memory for batches of %u tokens",
                         sizes->max_tokens);
    stepper->goes_ahead = !options->no_steps_ahead && forward_goes_ahead(&stepper->forward);
    TRY(step_open_constraint(stepper, options, error));
    budget_init(&stepper->budget, facts->forced ? 0 : options->chunk_tokens, BUDGET_STEP_US_GOAL);
    calibrate_run(&stepper->forward, &stepper->batch, &stepper->budget);
    (void)rehearse_run(&stepper->forward, &stepper->batch);
    return STATUS_OK;
}

enum status step_open(struct stepper *stepper, const struct step_options *options,
                      struct error *error) {
    memset(stepper, 0, sizeof *stepper);
    enum status status = step_open_all(stepper, options, error);
    if (status != STATUS_OK)
        step_close(stepper);
    return status;
}

void step_close(struct stepper *stepper) {
    constraint_fini(&stepper->constraint);
    sample_fini(&stepper->sample);
    batch_fini(&stepper->batch);
    forward_close(&stepper->forward);
    memset(stepper, 0, sizeof *stepper);
}
