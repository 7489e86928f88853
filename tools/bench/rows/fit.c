#include "tools/bench/rows/fit.h"

#include "tools/bench/rows/squares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE       0.15
#define ROUNDS      14
#define RATE_WEIGHT 0.5 /* levels of one table say nearly the same */

static const char *const figure_names[FIT_FIGURES] = {
    "grid, ms per token alone", "grid, tok/s of 399",  "sweep, ITL alone",
    "sweep, TTFT alone",        "sweep, ITL at rates", "sweep, burst tok/s"};

const char *fit_figure_name(enum fit_figure figure) {
    return figure_names[figure];
}

/* What is fitted. */
enum what { WHAT_WEIGHTS, WHAT_PRODUCTS, WHAT_NUMBER };
struct parameter {
    enum what what;
    enum efficiency_format format; /* of weights and products */
    size_t offset;                 /* of a number */
    unsigned systems;              /* bits of the group's systems */
    double start, low, high;
};
#define NUMBER(member, start, low, high)                                                           \
    { WHAT_NUMBER, EFFICIENCY_16, offsetof(struct efficiencies, member), 3, start, low, high }

static const struct parameter grid_parameters[] = {
    NUMBER(step_us, 3000, 100, 20000),
    NUMBER(layer_us, 60, 1, 400),
    NUMBER(seq_us, 12, .5, 300),
    NUMBER(kv, .7, .1, 1.5),
    NUMBER(kv_heads, .08, .001, 1),
    {WHAT_PRODUCTS, EFFICIENCY_16, 0, 3, .52, .2, .9},
    {WHAT_WEIGHTS, EFFICIENCY_4, 0, 1, .32, .1, 1},
    {WHAT_PRODUCTS, EFFICIENCY_4, 0, 1, .10, .02, .8},
    {WHAT_WEIGHTS, EFFICIENCY_4, 0, 2, .80, .1, 1}, /* as the sweeps' 4-bit weights are read */
    {WHAT_PRODUCTS, EFFICIENCY_4, 0, 2, .30, .02, .8},
};

static const struct parameter sweep_parameters[] = {
    NUMBER(step_us, 3000, 100, 20000),
    NUMBER(layer_us, 60, 1, 400),
    NUMBER(seq_us, 12, .5, 300),
    NUMBER(kv, .7, .1, 1.5),
    NUMBER(nvlink, .15, .016, 1),
    NUMBER(pcie, .62, .1, 3),
    NUMBER(experts, .7, .2, 1),
    {WHAT_PRODUCTS, EFFICIENCY_16, 0, 3, .52, .2, .9},
    {WHAT_WEIGHTS, EFFICIENCY_4, 0, 3, .80, .1, 1},
    {WHAT_PRODUCTS, EFFICIENCY_4, 0, 3, .45, .02, .8},
    {WHAT_PRODUCTS, EFFICIENCY_8, 0, 3, .55, .1, .9},
};

static const struct group {
    const char *systems[FIT_SYSTEMS_MAX];
    const struct parameter *parameters;
    unsigned n_parameters;
} groups[FIT_GROUPS] = {
    {{"vllm 0.2.5", "vllm 0.2.7"},
     grid_parameters,
     sizeof grid_parameters / sizeof *grid_parameters},
    {{"vllm", NULL}, sweep_parameters, sizeof sweep_parameters / sizeof *sweep_parameters},
};

static int bench_fit_system_of(unsigned group,
                               const struct reference_configuration *configuration) {
    for (unsigned i = 0; i < FIT_SYSTEMS_MAX && groups[group].systems[i]; i++)
        if (strcmp(groups[group].systems[i], configuration->rows->system) == 0)
            return (int)i;
    return -1;
}

const struct efficiencies *fit_row_of(unsigned group, const struct fit_rows *rows,
                                      const struct reference_configuration *configuration) {
    int i = bench_fit_system_of(group, configuration);
    return i < 0 ? NULL : &rows->rows[i];
}

/* What is not fitted: reading 16- and 8-bit weights at nearly the data sheet's rate, attention at a third of the tensor
 * cores' rate, 20 us a sum. */
static void bench_fit_assume(struct fit_rows *rows, unsigned group) {
    *rows = (struct fit_rows){0};
    for (; rows->n < FIT_SYSTEMS_MAX && groups[group].systems[rows->n]; rows->n++) {
        struct efficiencies *row = &rows->rows[rows->n];
        *row = *efficiencies_find("limit");
        snprintf(row->name, sizeof row->name, "%s", groups[group].systems[rows->n]);
        snprintf(row->source, sizeof row->source,
                 "fitted to its published tables by tandem-bench rows --fit");
        row->weights[EFFICIENCY_16] = 1.05;
        row->weights[EFFICIENCY_8] = .95;
        row->overlap = 4;
        row->attend = .35;
        row->sum_us = 20;
        row->kv_heads = .08;
        row->nvlink = .15;
        row->pcie = .62;
    }
}

static void bench_fit_set(struct fit_rows *rows, const struct parameter *parameter, double value) {
    for (unsigned i = 0; i < rows->n; i++) {
        struct efficiencies *row = &rows->rows[i];
        unsigned f = parameter->format;
        if (!(parameter->systems >> i & 1))
            continue;
        if (parameter->what == WHAT_WEIGHTS)
            row->weights[f] = value;
        else if (parameter->what == WHAT_PRODUCTS)
            row->few[f] = row->mid[f] = row->many[f] = value;
        else
            *(double *)(void *)((char *)row + parameter->offset) = value;
    }
}

/* Whether a configuration's figures depend on the parameter. */
static bool bench_fit_tells(const struct parameter *parameter, int system,
                            const struct reference_configuration *configuration) {
    if (!(parameter->systems >> system & 1))
        return false;
    if (parameter->what != WHAT_NUMBER)
        return parameter->format == configuration->model.format;
    if (parameter->offset == offsetof(struct efficiencies, experts))
        return configuration->model.n_experts > 0;
    if (parameter->offset == offsetof(struct efficiencies, nvlink))
        return configuration->tp > 1 && configuration->device->link == DEVICE_NVLINK;
    if (parameter->offset == offsetof(struct efficiencies, pcie))
        return configuration->tp > 1 && configuration->device->link == DEVICE_PCIE;
    if (parameter->offset == offsetof(struct efficiencies, kv_heads))
        return configuration->model.n_heads > configuration->model.n_kv_heads;
    return true;
}

static void bench_fit_add(struct fit_observation *all, size_t *n, enum fit_figure figure,
                          const struct reference_row *row, double published, double predicted) {
    if (published > 0 && *n < FIT_OBSERVATIONS_MAX)
        all[(*n)++] = (struct fit_observation){figure, row, published, predicted};
}

enum status fit_observe(const struct reference_configuration *configuration,
                        const struct efficiencies *efficiencies, struct fit_observation *all,
                        size_t *n) {
    for (size_t i = 0; i < configuration->n_rows; i++) {
        const struct reference_row *row = &configuration->rows[i];
        struct prediction prediction = {0};
        if (reference_artefact(row))
            continue;
        if (efficiencies)
            TRY(predict_published(configuration, row, efficiencies, &prediction));
        switch (reference_kind(row)) {
        case REFERENCE_GRID:
            bench_fit_add(all, n, FIT_GRID_ALONE, row, row->ms_per_output_token,
                          prediction.ms_per_output_token);
            bench_fit_add(all, n, FIT_GRID_BURST, row, row->tokens_per_s, prediction.tokens_per_s);
            break;
        case REFERENCE_ALONE:
            bench_fit_add(all, n, FIT_ITL_ALONE, row, row->itl_ms, prediction.itl_ms);
            bench_fit_add(all, n, FIT_TTFT_ALONE, row, row->ttft_ms, prediction.ttft_ms);
            break;
        case REFERENCE_RATE:
            if (reference_has_itl(row))
                bench_fit_add(all, n, FIT_ITL_RATE, row, row->itl_ms, prediction.itl_ms);
            break;
        case REFERENCE_BURST:
            bench_fit_add(all, n, FIT_BURST, row, row->tokens_per_s, prediction.tokens_per_s);
        }
    }
    return STATUS_OK;
}

struct fit_job {
    unsigned group;
    const struct reference_configuration *all;
    size_t n_all, left_out;
    const struct parameter *free[SQUARES_PARAMETERS_MAX]; /* that the configurations tell */
    size_t n_free;
    struct fit_rows *rows;
    struct fit_observation *observations; /* owned (FIT_OBSERVATIONS_MAX) */
};

static enum status bench_fit_observe_all(struct fit_job *job, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < job->n_all; i++) {
        const struct efficiencies *row = fit_row_of(job->group, job->rows, &job->all[i]);
        if (i != job->left_out && row)
            TRY(fit_observe(&job->all[i], row, job->observations, n));
    }
    return STATUS_OK;
}

static enum status bench_fit_residuals(void *context, const double *parameters, double *out) {
    struct fit_job *job = context;
    size_t n;
    for (size_t k = 0; k < job->n_free; k++)
        bench_fit_set(job->rows, job->free[k], parameters[k]);
    TRY(bench_fit_observe_all(job, &n));
    for (size_t i = 0; i < n; i++) {
        const struct fit_observation *own = &job->observations[i];
        double weight = own->figure == FIT_ITL_RATE ? RATE_WEIGHT : 1;
        out[i] = weight * (own->predicted > 0 ? log(own->predicted / own->published) : 3);
    }
    return STATUS_OK;
}

static void bench_fit_choose(struct fit_job *job) {
    const struct group *group = &groups[job->group];
    for (unsigned k = 0; k < group->n_parameters; k++) {
        const struct parameter *parameter = &group->parameters[k];
        bool told = false;
        bench_fit_set(job->rows, parameter, parameter->start);
        for (size_t i = 0; i < job->n_all && !told; i++) {
            int system = bench_fit_system_of(job->group, &job->all[i]);
            told = i != job->left_out && system >= 0 &&
                   bench_fit_tells(parameter, system, &job->all[i]);
        }
        if (told)
            job->free[job->n_free++] = parameter;
    }
}

static enum status bench_fit_run(struct fit_job *job) {
    double values[SQUARES_PARAMETERS_MAX], low[SQUARES_PARAMETERS_MAX],
        high[SQUARES_PARAMETERS_MAX];
    struct squares squares = {.context = job,
                              .residuals = bench_fit_residuals,
                              .n_parameters = job->n_free,
                              .low = low,
                              .high = high,
                              .scale = SCALE,
                              .n_rounds = ROUNDS};
    for (size_t k = 0; k < job->n_free; k++) {
        values[k] = job->free[k]->start;
        low[k] = job->free[k]->low;
        high[k] = job->free[k]->high;
    }
    TRY(bench_fit_observe_all(job, &squares.n_residuals));
    TRY(squares_fit(&squares, values));
    for (size_t k = 0; k < job->n_free; k++)
        bench_fit_set(job->rows, job->free[k], values[k]);
    return STATUS_OK;
}

enum status fit_group(unsigned group, const struct reference_configuration *all, size_t n_all,
                      size_t left_out, struct fit_rows *rows) {
    struct fit_job job = {
        .group = group, .all = all, .n_all = n_all, .left_out = left_out, .rows = rows};
    bench_fit_assume(rows, group);
    bench_fit_choose(&job);
    job.observations = calloc(FIT_OBSERVATIONS_MAX, sizeof *job.observations);
    enum status status = job.observations ? bench_fit_run(&job) : STATUS_NOMEM;
    free(job.observations);
    return status;
}

static int bench_fit_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void fit_error(struct fit_error *error, enum fit_figure figure, const struct fit_observation *all,
               size_t n) {
    double errors[FIT_OBSERVATIONS_MAX];
    *error = (struct fit_error){0};
    for (size_t i = 0; i < n; i++) {
        if (all[i].figure != figure)
            continue;
        double own = fabs(all[i].predicted / all[i].published - 1);
        errors[error->n++] = own;
        if (own >= error->worst) {
            error->worst = own;
            error->worst_one = &all[i];
        }
    }
    qsort(errors, error->n, sizeof *errors, bench_fit_compare);
    if (error->n > 0)
        error->median = error->n % 2 ? errors[error->n / 2]
                                     : (errors[error->n / 2 - 1] + errors[error->n / 2]) / 2;
}
