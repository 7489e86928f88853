/* The configuration: both daemons read it and say what they have read, or what is wrong. */
#include "tools/cli/doctor/doctor_parts.h"

#include "base/options/options.h"

#include <stdio.h>
#include <string.h>

#define SUBJECT    "configuration"
#define SAYS_BYTES (1u << 20)

static const char *doctor_fix_of(const char *line) {
    if (strstr(line, "ulimit -n"))
        return "raise it: ulimit -n 65536, LimitNOFILE= of the unit, or /etc/security/limits.d";
    if (strstr(line, "cannot read it"))
        return "name a file that this user may read with --config";
    if (strstr(line, "--model:") || strstr(line, "model:"))
        return "name a model: model = PATH in [cluster], or `tandem doctor PATH`";
    return "correct it; man tandem.ini, or --print-config, has every key with its bounds";
}

/* A fault for each line that the daemon ended with. */
static void doctor_take_complaints(struct doctor *doctor, const char *program, struct buf *lines) {
    char *rest = NULL;
    unsigned n = 0;
    buf_putc(lines, '\0');
    for (char *line = strtok_r(lines->data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        bool is_limit = strstr(line, "ulimit -n") != NULL;
        if (strncmp(line, "error: ", 7) != 0)
            continue;
        findings_add(&doctor->findings, FINDING_FAULT, is_limit ? "open files" : SUBJECT,
                     doctor_fix_of(line), "%s", line + 7);
        n++;
    }
    if (n == 0)
        findings_add(&doctor->findings, FINDING_FAULT, "programs",
                     "install all programs of one version in one folder", "%s ends without a word",
                     program);
}

/* Runs it with one question. False: it refused, and that was said. */
static bool doctor_config_ask(struct doctor *doctor, const char *program, const char *name,
                              const char *question, struct buf *out) {
    const char *questions[] = {question, NULL};
    struct buf errors;
    struct error error;
    int code = 0;
    buf_init(&errors, SAYS_BYTES);
    enum status status =
        settings_ask(&doctor->source, program, name, questions, out, &errors, &code, &error);
    if (status != STATUS_OK)
        findings_add(&doctor->findings, FINDING_FAULT, "programs",
                     "install all programs of one version in one folder", "%s", error.text);
    else if (code != 0)
        doctor_take_complaints(doctor, program, &errors);
    buf_fini(&errors);
    return status == STATUS_OK && code == 0;
}

static void doctor_read_settings(struct doctor *doctor, const char *program,
                                 struct settings *settings) {
    struct buf nothing;
    buf_init(&nothing, SAYS_BYTES);
    buf_init(&settings->text, SAYS_BYTES);
    if (!doctor_config_ask(doctor, program, settings->name, "--print-config", &settings->text))
        buf_fini(&settings->text);
    /* Without a file there is no daemon yet whose name, endpoint and model could be missing. */
    else if (doctor->source.config)
        (void)doctor_config_ask(doctor, program, settings->name, "--check-config", &nothing);
    buf_fini(&nothing);
}

static void doctor_compare_versions(struct doctor *doctor, const char *program) {
    static const struct settings_source nothing = {NULL, NULL};
    const char *questions[] = {"--version", NULL};
    struct buf out, errors;
    struct error error;
    char expected[128];
    int code = 0;
    snprintf(expected, sizeof expected, "%s %s", program, TANDEM_VERSION);
    buf_init(&out, SAYS_BYTES);
    buf_init(&errors, SAYS_BYTES);
    if (settings_ask(&nothing, program, "", questions, &out, &errors, &code, &error) == STATUS_OK &&
        (out.n == 0 || strncmp(out.data, expected, strlen(expected)) != 0 ||
         !strchr(" \n", out.data[strlen(expected)])))
        findings_add(&doctor->findings, FINDING_FAULT, "programs",
                     "install all programs of one version in one folder",
                     "this is tandem %s, but the program next to it is %.*s", TANDEM_VERSION,
                     out.n > 0 ? (int)strcspn(out.data, "\n") : 7,
                     out.n > 0 ? out.data : "nothing");
    buf_fini(&out);
    buf_fini(&errors);
}

static void doctor_find_workers(struct doctor *doctor) {
    struct buf names;
    char *rest = NULL;
    buf_init(&names, SAYS_BYTES);
    if (doctor->source.config)
        (void)!options_instances(doctor->source.config, "worker", &names);
    buf_putc(&names, '\0');
    for (char *name = strtok_r(names.data, "\n", &rest);
         name && doctor->n_workers < DOCTOR_WORKERS_MAX; name = strtok_r(NULL, "\n", &rest))
        snprintf(doctor->workers[doctor->n_workers++].name, sizeof doctor->workers->name, "%s",
                 name);
    buf_fini(&names);
}

/* An interface's name is another address on each host: two workers may have it alike, where they need not be on this one. */
static bool doctor_may_be_apart(const struct settings *worker, const char *endpoint) {
    return doctor_names_interface(endpoint) && !doctor_is_surely_here(worker);
}

/* Workers of the file that would take one another's place. */
static void doctor_compare_endpoints(struct doctor *doctor) {
    char a[VALUE_MAX], b[VALUE_MAX];
    for (unsigned i = 0; i < doctor->n_workers; i++)
        for (unsigned j = 0; j < i; j++)
            if (settings_get(&doctor->workers[i], "endpoint", a) &&
                settings_get(&doctor->workers[j], "endpoint", b) && a[0] && strcmp(a, b) == 0 &&
                !doctor_may_be_apart(&doctor->workers[i], a))
                findings_add(&doctor->findings, FINDING_FAULT, SUBJECT,
                             "give each [worker.NAME] an endpoint of its own",
                             "%.300s: [worker.%s] and [worker.%s] have the same endpoint", a,
                             doctor->workers[j].name, doctor->workers[i].name);
}

void doctor_look_at_config(struct doctor *doctor) {
    doctor_compare_versions(doctor, "tandem-router");
    doctor_compare_versions(doctor, "tandem-worker");
    doctor_read_settings(doctor, "tandem-router", &doctor->router);
    doctor_find_workers(doctor);
    if (doctor->n_workers == 0)
        doctor->n_workers = 1; /* by the defaults */
    for (unsigned i = 0; i < doctor->n_workers; i++) {
        struct settings *worker = &doctor->workers[i];
        bool is_named = worker->name[0] != '\0';
        const char *config = doctor->source.config;
        if (!is_named && config) { /* a file without [worker.NAME]: units name them */
            buf_init(&worker->text, SAYS_BYTES);
            if (!doctor_config_ask(doctor, "tandem-worker", "", "--print-config", &worker->text))
                buf_fini(&worker->text);
            continue;
        }
        doctor_read_settings(doctor, "tandem-worker", worker);
    }
    doctor_compare_endpoints(doctor);
    if (findings_count(&doctor->findings, FINDING_FAULT) == 0)
        findings_add(&doctor->findings, FINDING_OK, SUBJECT, NULL, "%s: a router, %u worker%s",
                     doctor->source.config ? doctor->source.config
                                           : "the defaults and TANDEM_* (no file)",
                     doctor->n_workers, doctor->n_workers == 1 ? "" : "s");
}
