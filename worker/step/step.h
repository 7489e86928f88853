/* worker/step/step.h: the way of a token. The table in step.c is the worker's table of contents.
 *
 * Engine thread only. step_open() takes all memory; a step takes none. */
#pragma once

#include "base/error.h"
#include "base/status.h"
#include "worker/core/engine.h"
#include "worker/step/batch.h"
#include "worker/step/budget.h"
#include "worker/step/constraint.h"
#include "worker/step/emit.h"
#include "worker/step/forward.h"
#include "worker/step/receive.h"
#include "worker/step/sample.h"

#include <stdbool.h>
#include <stdint.h>

#define STEP_STAGES 7

struct metric;

/* What the steps of one worker work with. */
struct stepper {
    struct forward forward;
    struct batch batch;
    struct sample sample;
    struct constraint constraint; /* all zero: no grammar is served */
    struct budget budget;
    struct emit emit;
    struct receive receive; /* the owner fills it before the first step_run() */
    struct plan plan;       /* of the step that runs */
    struct plan ahead;      /* of the one that was begun behind it; no rows: none was */
    bool goes_ahead;        /* the backend can, and no option has switched it off */
    bool is_begun;          /* the step that runs: on a device, or ahead */
    bool is_chosen;         /* its tokens come by sample_take(); and of the one ahead */
    bool ahead_is_chosen;
    bool as_it_came;                     /* the last step's results were waited for */
    struct metric *seconds[STEP_STAGES]; /* borrowed histograms; NULL: there is no admin port */
    struct metric *tokens;               /* the same: computed in a step */
};

struct step_options {
    struct rank_options forward;
    uint32_t chunk_tokens;        /* most of a step's prompts */
    uint32_t max_slots;           /* sequences held, waiting ones included */
    bool no_steps_ahead;          /* each step waits for the results of the one before */
    struct tokenizer **tokenizer; /* it is taken, and NULL afterwards; NULL itself: no grammars */
};

/* Loads the model and measures how fast it is computed. Statuses of forward_open(). */
NODISCARD enum status step_open(struct stepper *stepper, const struct step_options *options,
                                struct error *error);
void step_close(struct stepper *stepper); /* fine on a zeroed one */

/* The name of a stage below STEP_STAGES: the label of its time in metrics. */
const char *step_stage(unsigned stage);

/* One turn of the engine: answers false when there was nothing to compute. */
bool step_run(struct stepper *stepper);
