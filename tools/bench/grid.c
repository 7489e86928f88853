/* tools/bench/grid.c: `tandem-bench grid`: input lengths x output lengths, each one by one and then
 * as a burst (or at --rate with Poisson gaps). */
#include "tools/bench/commands.h"

#include <stdio.h>
#include <stdlib.h>

#define WARM_REQUESTS 2

static enum status bench_grid_run_phase(struct session *session, const struct row *row,
                                        const char *phase, const struct schedule_spec *schedule,
                                        struct level *level, struct error *error) {
    struct level_spec spec = {
        .schedule = *schedule, .n_prompt = row->n_input, .n_output = row->n_output};
    snprintf(spec.label, sizeof spec.label, "%s %s", row->label, phase);
    return session_level(session, &spec, level, error);
}

static enum status bench_grid_run_cell(struct session *session, struct row *row,
                                       struct error *error) {
    const struct bench_options *options = session->options;
    struct schedule_spec one = {
        .profile = PROFILE_SYNCHRONOUS, .concurrency = 1, .n_requests = WARM_REQUESTS};
    struct schedule_spec all = {.profile = options->rate > 0 ? PROFILE_POISSON : PROFILE_THROUGHPUT,
                                .concurrency = options->n_prompts,
                                .rate = options->rate,
                                .seed = options->seed,
                                .n_requests = options->n_prompts};
    struct level warm, alone, burst;
    snprintf(row->label, sizeof row->label, "%ux%u", row->n_input, row->n_output);
    if (!options->compat) {
        TRY(bench_grid_run_phase(session, row, "warm-up", &one, &warm, error));
        level_fini(&warm);
    }
    one.n_requests = options->n_alone;
    TRY(bench_grid_run_phase(session, row, "alone", &one, &alone, error));
    enum status status = bench_grid_run_phase(session, row, "burst", &all, &burst, error);
    if (status == STATUS_OK) {
        /* The original counted what TGI said that it made, which may stop before. */
        bool assumed = options->compat && options->native != NATIVE_TGI;
        figures_grid(&row->grid, &alone, &burst, options->n_prompts, assumed);
        if (figures_make(&row->alone, &alone, 0, &options->slo) != STATUS_OK ||
            figures_make(&row->figures, &burst, options->rate, &options->slo) != STATUS_OK)
            status = error_set(error, STATUS_NOMEM, "out of memory");
        if (row->figures.n_sent < options->n_prompts)
            row->figures.marks |= MARK_FEW;
        row->figures.marks |= row->alone.marks & (MARK_SHORT | MARK_PROMPT | MARK_FAILED);
        level_fini(&burst);
    }
    level_fini(&alone);
    return status;
}

static enum status grid_run(struct session *session, const void *user, bool *slo_held,
                            struct error *error) {
    (void)user;
    const struct bench_options *options = session->options;
    uint32_t n_cells = options->n_inputs * options->n_outputs, n = 0;
    struct row *rows = calloc(n_cells, sizeof *rows);
    char title[600];
    enum status status = STATUS_OK;
    if (!rows)
        return error_set(error, STATUS_NOMEM, "out of memory");
    *slo_held = true;
    while (n < n_cells && status == STATUS_OK && !runner_is_stopped(session->runner)) {
        rows[n].n_input = options->inputs[n / options->n_outputs];
        rows[n].n_output = options->outputs[n % options->n_outputs];
        status = bench_grid_run_cell(session, &rows[n], error);
        if (status == STATUS_OK)
            *slo_held &= rows[n++].figures.slo_held;
    }
    if (status == STATUS_CLOSED && n > 0)
        status = STATUS_OK; /* broken off: what is whole is shown */
    snprintf(title, sizeof title, "grid: %s, model %s, %u alone, %u %s", options->targets[0],
             session->model, options->n_alone, options->n_prompts,
             options->rate > 0 ? "with Poisson gaps" : "at once");
    struct table_set set = {
        .table = TABLE_GRID, .rows = rows, .n_rows = n, .knee = -1, .title = title};
    if (status == STATUS_OK)
        status = session_report(session, &set, error);
    free(rows);
    return status;
}

int grid_command(struct bench_options *options) {
    options->is_whole |= options->compat; /* the original does not stream */
    return session_run(options, grid_run, NULL);
}
