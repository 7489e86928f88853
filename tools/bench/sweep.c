/* tools/bench/sweep.c: `tandem-bench sweep`: synchronous, throughput, and rates between the two.
 *
 * --compat: eleven levels as guidellm 0.1.0 makes them: nine rates, the throughput level limited to
 * five times the requests of the synchronous one, unfinished requests cancelled. */
#include "tools/bench/commands.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define COMPAT_LEVELS 9
#define COMPAT_BURST  5
#define STREAMS_MAX   16384

struct sweep {
    struct session *session; /* borrowed */
    struct row *rows;        /* owned (n_levels + 2) */
    uint32_t n_rows;
};

static enum status bench_sweep_run_level(struct sweep *sweep, const struct schedule_spec *schedule,
                                         const char *label, struct error *error) {
    const struct bench_options *options = sweep->session->options;
    struct row *row = &sweep->rows[sweep->n_rows];
    struct level_spec spec = {.schedule = *schedule,
                              .n_prompt = options->prompt_tokens,
                              .n_output = options->max_tokens,
                              .warmup_ns = (uint64_t)(options->warmup_s * (double)NS_PER_S)};
    struct level level;
    snprintf(spec.label, sizeof spec.label, "%s", label);
    *row = (struct row){.n_input = options->prompt_tokens, .n_output = options->max_tokens};
    snprintf(row->label, sizeof row->label, "%s", label);
    row->asked_rate = profile_is_open(schedule->profile) ? schedule->rate : 0;
    TRY(session_level(sweep->session, &spec, &level, error));
    figures_sweep(&row->sweep, &level);
    enum status status = figures_make(&row->figures, &level, row->asked_rate, &options->slo);
    level_fini(&level);
    if (status != STATUS_OK)
        return error_set(error, status, "out of memory");
    sweep->n_rows++;
    return STATUS_OK;
}

/* The rates between: of the compatible columns in compat mode, else of the honest ones. */
static struct figures_span bench_sweep_span(const struct sweep *sweep) {
    const struct row *alone = &sweep->rows[0], *burst = &sweep->rows[1];
    if (sweep->session->options->compat)
        return (struct figures_span){alone->sweep.requests_per_s, burst->sweep.requests_per_s};
    return figures_span(&alone->figures, &burst->figures);
}

static enum status bench_sweep_run_rates(struct sweep *sweep, struct schedule_spec spec,
                                         struct error *error) {
    const struct bench_options *options = sweep->session->options;
    struct figures_span span = bench_sweep_span(sweep);
    uint32_t n = options->compat ? COMPAT_LEVELS : options->n_levels;
    spec.profile = options->is_poisson ? PROFILE_POISSON : PROFILE_CONSTANT;
    spec.concurrency = options->compat ? options->concurrency : STREAMS_MAX;
    spec.n_requests = 0;
    if (span.high <= 0 && !runner_is_stopped(sweep->session->runner))
        return error_set(error, STATUS_CORRUPT,
                         "no request was completed in the first two levels: no rate to go on; give "
                         "--duration or --drain more seconds");
    for (uint32_t k = 1; k <= n && !runner_is_stopped(sweep->session->runner); k++) {
        char label[LEVEL_LABEL_MAX];
        spec.rate = span.low + (span.high - span.low) * k / n;
        spec.seed = options->seed + k;
        snprintf(label, sizeof label, "%s@%.2f", profile_name(spec.profile), spec.rate);
        TRY(bench_sweep_run_level(sweep, &spec, label, error));
    }
    return STATUS_OK;
}

static enum status bench_sweep_run_all(struct sweep *sweep, struct error *error) {
    const struct bench_options *options = sweep->session->options;
    char label[LEVEL_LABEL_MAX] = "throughput";
    struct schedule_spec spec = {.profile = PROFILE_SYNCHRONOUS,
                                 .concurrency = 1,
                                 .duration_ns = (uint64_t)(options->duration_s * (double)NS_PER_S)};
    TRY(bench_sweep_run_level(sweep, &spec, "synchronous", error));
    uint32_t n_sync = sweep->rows[0].figures.n_ok;
    spec.profile = PROFILE_THROUGHPUT;
    spec.concurrency = options->concurrency;
    if (options->compat)
        spec.n_requests = COMPAT_BURST * (n_sync ? n_sync : 1);
    else
        snprintf(label, sizeof label, "throughput@%u", options->concurrency);
    TRY(bench_sweep_run_level(sweep, &spec, label, error));
    return bench_sweep_run_rates(sweep, spec, error);
}

/* The knee among the levels with a rate, as a row's number. */
static int bench_sweep_find_knee(const struct sweep *sweep) {
    struct figures *figures = calloc(sweep->n_rows, sizeof *figures);
    double *rates = calloc(sweep->n_rows, sizeof *rates);
    int knee = -1;
    if (figures && rates && sweep->n_rows > 2) {
        for (uint32_t i = 2; i < sweep->n_rows; i++) {
            figures[i - 2] = sweep->rows[i].figures;
            rates[i - 2] = sweep->rows[i].asked_rate;
        }
        knee = figures_knee(figures, rates, sweep->n_rows - 2);
    }
    free(figures);
    free(rates);
    return knee < 0 ? -1 : knee + 2;
}

static enum status bench_sweep_report(struct sweep *sweep, bool *slo_held, struct error *error) {
    const struct bench_options *options = sweep->session->options;
    char title[600];
    snprintf(title, sizeof title, "sweep: %s, model %s, %u prompt and %u output tokens, %.0f s",
             options->targets[0], sweep->session->model, options->prompt_tokens,
             options->max_tokens, options->duration_s);
    struct table_set set = {.table = TABLE_SWEEP,
                            .rows = sweep->rows,
                            .n_rows = sweep->n_rows,
                            .knee = bench_sweep_find_knee(sweep),
                            .title = title};
    /* An SLO holds when some rate of the sweep holds it. */
    for (uint32_t i = 0; i < sweep->n_rows; i++)
        *slo_held |= sweep->rows[i].figures.slo_held;
    return session_report(sweep->session, &set, error);
}

static enum status sweep_run(struct session *session, const void *user, bool *slo_held,
                             struct error *error) {
    struct sweep sweep = {.session = session};
    (void)user;
    sweep.rows = calloc(session->options->n_levels + COMPAT_LEVELS + 2, sizeof *sweep.rows);
    if (!sweep.rows)
        return error_set(error, STATUS_NOMEM, "out of memory");
    enum status status = bench_sweep_run_all(&sweep, error);
    if (status == STATUS_CLOSED && sweep.n_rows > 0)
        status = STATUS_OK; /* broken off: what is whole is shown */
    if (status == STATUS_OK)
        status = bench_sweep_report(&sweep, slo_held, error);
    free(sweep.rows);
    return status;
}

int sweep_command(struct bench_options *options) {
    options->keeps_eos |= options->compat;
    options->drain_s = options->compat ? 0 : options->drain_s;
    options->concurrency = options->concurrency ? options->concurrency : 512;
    return session_run(options, sweep_run, NULL);
}
