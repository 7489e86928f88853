/* tools/bench/rows.c: `tandem-bench rows`: the published tables by models of time. */
#include "base/cores.h"
#include "base/exit.h"
#include "base/file.h"
#include "tools/bench/commands.h"
#include "tools/bench/output.h"
#include "tools/bench/rows/fit.h"
#include "tools/bench/rows/report.h"
#include "tools/lib/args.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1u << 20)

struct rows_options {
    const char *table, *system, *efficiencies_path;
    bool fits;
    uint32_t n_jobs;
    const char *json_path, *csv_path, *markdown_path;
};

static args_read_fn bench_rows_read_jobs;

#define AT(member) offsetof(struct rows_options, member)
static const struct args_row rows_args[] = {
    {"table", "NAME", args_text, AT(table), .help = "of one published table: mistral-7b-awq"},
    {"system", "NAME", args_text, AT(system), .help = "of one system: \"vllm 0.2.7\""},
    {"efficiencies", "FILE", args_text, AT(efficiencies_path),
     .help = "rows of efficiencies in the place of the program's"},
    {"fit", NULL, args_switch, AT(fits),
     .help = "fits the published systems' efficiencies and prints them, and nothing else"},
    {"jobs", "N", bench_rows_read_jobs, AT(n_jobs), .help = "threads (default: all cores)"},
    {"json", "FILE", args_path, AT(json_path), .help = "JSON; no FILE or -: standard output",
     .flags = OPTION_ARG_OPTIONAL},
    {"csv", "FILE", args_path, AT(csv_path), .help = "CSV", .flags = OPTION_ARG_OPTIONAL},
    {"markdown", "FILE", args_path, AT(markdown_path), .help = "the tables",
     .flags = OPTION_ARG_OPTIONAL},
    {0}};
#undef AT

static void bench_rows_read_jobs(const struct args_given *given) {
    char *end = NULL;
    unsigned long value = strtoul(given->text, &end, 10);
    if (*given->text < '0' || *given->text > '9' || *end || value < 1 || value > ALL_THREADS_MAX)
        argp_error(given->state, "--jobs: \"%s\" is not a number from 1 to %u", given->text,
                   ALL_THREADS_MAX);
    *(uint32_t *)given->at = (uint32_t)value;
}

enum { N_KINDS = 3 };

static const struct {
    const char *option;
    size_t path; /* in struct rows_options */
    void (*make)(const struct all *all, struct buf *out);
} kinds[N_KINDS] = {{"--json", offsetof(struct rows_options, json_path), report_json},
                    {"--csv", offsetof(struct rows_options, csv_path), report_csv},
                    {"--markdown", offsetof(struct rows_options, markdown_path), report_markdown}};

static enum status bench_rows_open_outputs(const struct rows_options *options,
                                           struct output outputs[N_KINDS], struct error *error) {
    for (unsigned i = 0; i < N_KINDS; i++) {
        const char *path;
        memcpy(&path, (const char *)options + kinds[i].path, sizeof path);
        TRY(output_open(&outputs[i], kinds[i].option, path, error));
    }
    return STATUS_OK;
}

/* Each, also where others fail; answers the exit code. Without any, or where one failed, the table is printed. */
static int bench_rows_write_all(struct output outputs[N_KINDS], const struct all *all) {
    int code = EXIT_SUCCESS;
    bool is_said = false;
    struct buf text;
    struct error error;
    buf_init(&text, 0);
    for (unsigned i = 0; i < N_KINDS; i++) {
        if (!outputs[i].path)
            continue;
        kinds[i].make(all, &text);
        if (output_write(&outputs[i], &text, &error) != STATUS_OK)
            code = exit_with(EXIT_FAILURE, error.text);
        else
            is_said = true;
    }
    if (!is_said || code != EXIT_SUCCESS) {
        report_markdown(all, &text);
        if (output_print(&text, &error) != STATUS_OK)
            code = exit_with(EXIT_FAILURE, error.text);
    }
    buf_fini(&text);
    return code;
}

static enum status bench_rows_read_efficiencies(struct all *all, const char *path,
                                                struct error *error) {
    struct buf text;
    struct error why;
    buf_init(&text, 0);
    enum status status = file_read(path, FILE_MAX, &text, error);
    if (status == STATUS_OK) {
        status = all_efficiencies(all, text.data ? text.data : "", text.n, &why);
        if (status != STATUS_OK)
            status = error_set(error, status, "--efficiencies: %s: %s", path, why.text);
    }
    buf_fini(&text);
    return status;
}

static enum status bench_rows_print_fits(struct error *error) {
    struct reference_configuration all[REFERENCE_CONFIGURATIONS_MAX];
    size_t n = reference_configurations(all);
    struct buf text;
    enum status status = STATUS_OK;
    buf_init(&text, 0);
    for (unsigned group = 0; group < FIT_GROUPS && status == STATUS_OK; group++) {
        struct fit_rows rows;
        status = fit_group(group, all, n, SIZE_MAX, &rows);
        for (unsigned i = 0; status == STATUS_OK && i < rows.n; i++)
            efficiencies_write(&rows.rows[i], &text);
    }
    if (status == STATUS_OK)
        status = output_print(&text, error);
    else
        status = error_set(error, status, "the fit failed: %s", status_name(status));
    buf_fini(&text);
    return status;
}

/* Predicts and writes; answers the exit code. */
static int rows_run(const struct rows_options *own, struct all *all,
                    struct output outputs[N_KINDS]) {
    struct error error;
    if (own->efficiencies_path &&
        bench_rows_read_efficiencies(all, own->efficiencies_path, &error) != STATUS_OK)
        return exit_with(EXIT_CONFIG, error.text);
    if (bench_rows_open_outputs(own, outputs, &error) != STATUS_OK)
        return exit_with(EXIT_CONFIG, error.text);
    enum status status = all_predict(all, own->n_jobs);
    if (status != STATUS_OK)
        return exit_fail(EXIT_FAILURE, "a row was not predicted: %s", status_name(status));
    return bench_rows_write_all(outputs, all);
}

int rows_command(int argc, char **argv) {
    struct rows_options own = {.n_jobs = cores_usable()};
    struct output outputs[N_KINDS] = {0};
    const struct args args = {
        "",
        "Puts what a model of time gives beside the published rows: for the systems that made "
        "them, and for Tandem in their place on a virtual clock. No server is asked.",
        .parts = {{rows_args, 0}}};
    struct all all = {0};
    struct error error;
    args_parse(&args, argc, argv, &own);
    if (own.fits)
        return bench_rows_print_fits(&error) == STATUS_OK ? EXIT_SUCCESS
                                                          : exit_with(EXIT_FAILURE, error.text);
    if (all_init(&all, own.table, own.system, &error) != STATUS_OK)
        return exit_with(EXIT_CONFIG, error.text);
    int code = rows_run(&own, &all, outputs);
    for (unsigned i = 0; i < N_KINDS; i++)
        output_close(&outputs[i]);
    all_fini(&all);
    return code;
}
