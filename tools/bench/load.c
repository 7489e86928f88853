/* tools/bench/load.c: `tandem-bench load`: one level. */
#include "tools/bench/commands.h"

#include "base/clock.h"
#include "base/exit.h"
#include "tools/bench/texts.h"

#include <stdio.h>
#include <string.h>

#define STREAMS_MAX                                                                                \
    16384 /* of an open loop: beyond it requests go out late, and the table says so */

static enum status bench_load_make_schedule(const struct bench_options *options,
                                            struct schedule_spec *spec, struct trace_line **trace,
                                            struct error *error) {
    const char *name = options->profile         ? options->profile
                       : options->trace_path    ? "trace"
                       : options->concurrency   ? "concurrent"
                       : options->rate_from > 0 ? "ramp"
                       : options->rate > 0      ? "constant"
                                                : "synchronous";
    uint32_t profile = 0;
    while (profile < PROFILE_N && strcmp(name, profile_name((enum profile)profile)) != 0)
        profile++;
    if (profile == PROFILE_N)
        return error_set(error, STATUS_INVALID,
                         "--profile: \"%s\" is not synchronous, concurrent, throughput, constant, "
                         "poisson, ramp or trace",
                         name);
    bool is_open = profile_is_open((enum profile)profile);
    *spec =
        (struct schedule_spec){.profile = (enum profile)profile,
                               .rate = options->rate,
                               .rate_from = options->rate_from,
                               .duration_ns = (uint64_t)(options->duration_s * (double)NS_PER_S),
                               .n_requests = options->n_requests       ? options->n_requests
                                             : options->duration_s > 0 ? 0
                                                                       : 32,
                               .concurrency = profile == PROFILE_SYNCHRONOUS ? 1
                                              : options->concurrency         ? options->concurrency
                                              : is_open                      ? STREAMS_MAX
                                                                             : 512,
                               .seed = options->seed};
    if (profile == PROFILE_CONCURRENT && options->concurrency == 0)
        return error_set(error, STATUS_INVALID, "--concurrency N is needed by profile concurrent");
    if (is_open && profile != PROFILE_TRACE && options->rate <= 0)
        return error_set(error, STATUS_INVALID, "--rate R is needed by profile %s", name);
    if (profile == PROFILE_RAMP && (options->rate_from <= 0 || options->duration_s <= 0))
        return error_set(error, STATUS_INVALID,
                         "--rate-from R and --duration S are needed by profile ramp");
    if (profile != PROFILE_TRACE)
        return STATUS_OK;
    if (!options->trace_path)
        return error_set(error, STATUS_INVALID, "--trace FILE is needed by profile trace");
    if (!options->n_requests)
        spec->n_requests = 0;
    TRY(trace_read(options->trace_path, trace, &spec->n_trace, error));
    spec->trace = *trace;
    return STATUS_OK;
}

static void bench_load_make_label(const struct schedule_spec *spec, char label[LEVEL_LABEL_MAX]) {
    const char *name = profile_name(spec->profile);
    if (spec->profile == PROFILE_CONCURRENT || spec->profile == PROFILE_THROUGHPUT)
        snprintf(label, LEVEL_LABEL_MAX, "%s@%u", name, spec->concurrency);
    else if (spec->profile == PROFILE_RAMP)
        snprintf(label, LEVEL_LABEL_MAX, "ramp@%.2f-%.2f", spec->rate_from, spec->rate);
    else if (spec->profile == PROFILE_CONSTANT || spec->profile == PROFILE_POISSON)
        snprintf(label, LEVEL_LABEL_MAX, "%s@%.2f", name, spec->rate);
    else
        snprintf(label, LEVEL_LABEL_MAX, "%s", name);
}

static enum status load_run(struct session *session, const void *user, bool *slo_held,
                            struct error *error) {
    const struct schedule_spec *schedule = user;
    const struct bench_options *options = session->options;
    struct level_spec spec = {.schedule = *schedule,
                              .n_prompt = options->prompt_tokens,
                              .n_output = options->max_tokens,
                              .warmup_ns = (uint64_t)(options->warmup_s * (double)NS_PER_S)};
    struct level level;
    struct row row = {.n_input = options->prompt_tokens, .n_output = options->max_tokens};
    char title[600];
    bench_load_make_label(schedule, spec.label);
    snprintf(row.label, sizeof row.label, "%s", spec.label);
    snprintf(title, sizeof title, "%s: %s, model %s", spec.label, options->targets[0],
             session->model);
    session->workload.trace = schedule->trace;
    TRY(session_level(session, &spec, &level, error));
    bool is_steady = schedule->profile == PROFILE_CONSTANT || schedule->profile == PROFILE_POISSON;
    row.asked_rate = is_steady && schedule->duration_ns ? schedule->rate : 0;
    enum status status = figures_make(&row.figures, &level, row.asked_rate, &options->slo);
    figures_sweep(&row.sweep, &level);
    level_fini(&level);
    if (status != STATUS_OK)
        return error_set(error, status, "out of memory");
    struct table_set set = {
        .table = TABLE_LOAD, .rows = &row, .n_rows = 1, .knee = -1, .title = title};
    *slo_held = row.figures.slo_held;
    return session_report(session, &set, error);
}

int load_command(struct bench_options *options) {
    struct schedule_spec schedule = {0};
    struct trace_line *trace = NULL;
    struct error error;
    if (bench_load_make_schedule(options, &schedule, &trace, &error) != STATUS_OK)
        return exit_with(EXIT_CONFIG, error.text);
    int code = session_run(options, load_run, &schedule);
    trace_free(trace, schedule.n_trace);
    return code;
}
