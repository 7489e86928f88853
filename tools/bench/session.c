#include "tools/bench/session.h"

#include "base/clock.h"
#include "base/exit.h"
#include "base/json/json_read.h"
#include "tools/bench/core/html.h"
#include "tools/bench/texts.h"
#include "tools/lib/http_fetch.h"

#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define METRICS_MAX (8u << 20)

static enum status bench_session_find_model(struct session *session, const struct http_url *url,
                                            struct error *error) {
    const struct bench_options *options = session->options;
    const struct http_ask ask = {"GET", "/v1/models", .api_key = options->api_key};
    json_t *root = NULL;
    int code = 0;
    if (options->model || options->native != NATIVE_NONE) { /* that API has no names */
        session->model = strdup(options->model ? options->model : "");
        return session->model ? STATUS_OK : error_set(error, STATUS_NOMEM, "out of memory");
    }
    TRY(http_fetch_json(url, &ask, options->timeout_s, &code, &root, error));
    const char *id =
        json_string_value(json_object_get(json_array_get(json_object_get(root, "data"), 0), "id"));
    session->model = id ? strdup(id) : NULL;
    json_decref(root);
    return session->model
               ? STATUS_OK
               : error_set(error, STATUS_INVALID, "%s/v1/models names no model (HTTP %d)",
                           options->targets[0], code);
}

static struct ask_form bench_session_make_form(const struct session *session) {
    const struct bench_options *options = session->options;
    return (struct ask_form){.model = session->model,
                             .role = options->compat ? "system" : "user",
                             .chat = !options->completions,
                             .stream = !options->is_whole && options->native == NATIVE_NONE,
                             .ignore_eos = !options->keeps_eos,
                             .own_sampling = options->compat,
                             .native = options->native};
}

/* What /version answered: of an object its `version`, else all of it. */
static void bench_session_put_version(struct buf *out, const char *answer, size_t n) {
    json_t *root = json_read(answer, n, 0, NULL);
    const char *version = json_string_value(json_object_get(root, "version"));
    json_text(out, version ? version : answer, version ? strlen(version) : n);
    json_decref(root);
}

static void bench_session_note_environment(struct session *session, const struct http_url *url) {
    struct buf *out = &session->environment, version;
    struct utsname host;
    struct error error;
    int code = 0;
    struct http_ask ask = {"GET", "/version", .api_key = session->options->api_key};
    buf_init(&version, 1u << 16);
    bool has_version =
        http_fetch(url, &ask, session->options->timeout_s, &code, &version, &error) == STATUS_OK &&
        code == 200 && version.data;
    uname(&host);
    buf_printf(out, "{\"tandem_bench\":\"%s\",\"unix_s\":%lld,\"host\":", TANDEM_VERSION,
               (long long)clock_unix_s());
    json_text(out, host.nodename, strlen(host.nodename));
    buf_puts(out, ",\"system\":");
    json_text(out, host.release, strlen(host.release));
    buf_printf(out, ",\"machine\":\"%s\",\"cpus\":%ld,\"target\":", host.machine,
               sysconf(_SC_NPROCESSORS_ONLN));
    json_text(out, session->options->targets[0], strlen(session->options->targets[0]));
    buf_puts(out, ",\"model\":");
    json_text(out, session->model, strlen(session->model));
    buf_puts(out, ",\"server_version\":");
    bench_session_put_version(out, has_version ? version.data : "", has_version ? version.n : 0);
    buf_puts(out, ",\"command\":");
    json_text(out, session->options->command_line, strlen(session->options->command_line));
    buf_printf(out, ",\"counted_by\":\"%s\",\"overhead_tokens\":%d,\"seed\":%llu}",
               session->lengths.counted_by, session->workload.overhead,
               (unsigned long long)session->options->seed);
    buf_fini(&version);
}

static enum status bench_session_learn_lengths(struct session *session, struct error *error) {
    const struct bench_options *options = session->options;
    struct counter_spec by = {.url = &session->urls[0],
                              .api_key = options->api_key,
                              .form = bench_session_make_form(session),
                              .tokenizer = options->tokenizer_path,
                              .timeout_s = options->timeout_s};
    return lengths_learn(&by, session->texts, session->n_texts, &session->workload,
                         &session->lengths, error);
}

static const struct {
    const char *option;
    size_t path; /* in struct bench_options */
    void (*make)(const struct table_set *set, struct buf *out);
} kinds[OUTPUTS_N] = {
    {"--json", offsetof(struct bench_options, json_path), tables_json},
    {"--csv", offsetof(struct bench_options, csv_path), tables_csv},
    {"--markdown", offsetof(struct bench_options, markdown_path), tables_markdown},
    {"--html", offsetof(struct bench_options, html_path), html_page},
};

/* Before the first request: a run is long, and what is wrong with its files shows now. */
static enum status bench_session_open_files(struct session *session, struct error *error) {
    const struct bench_options *options = session->options;
    for (unsigned i = 0; i < OUTPUTS_N; i++) {
        const char *path;
        memcpy(&path, (const char *)options + kinds[i].path, sizeof path);
        TRY(output_open(&session->outputs[i], kinds[i].option, path, error));
    }
    TRY(output_open(&session->records, "--records", options->records_path, error));
    return options->source == SOURCE_TEXTS
               ? texts_read(options->texts_path, &session->texts, &session->n_texts, error)
               : STATUS_OK;
}

static enum status bench_session_open_all(struct session *session, struct error *error) {
    const struct bench_options *options = session->options;
    for (uint32_t i = 0; i < options->n_urls; i++)
        TRY(http_url_open(options->targets[i], &options->trust, &session->urls[i], error));
    const struct http_url *url = &session->urls[0];
    TRY(bench_session_find_model(session, url, error));
    TRY(bench_session_learn_lengths(session, error));
    bench_session_note_environment(session, url);
    struct runner_spec spec = {.targets = options->targets,
                               .urls = session->urls,
                               .n_urls = options->n_urls,
                               .api_key = options->api_key,
                               .form = bench_session_make_form(session),
                               .workload = &session->workload,
                               .is_quiet = options->is_quiet};
    return runner_new(&spec, &session->runner, error);
}

static void session_close(struct session *session) {
    runner_free(session->runner);
    for (uint32_t i = 0; i < TARGETS_MAX; i++)
        http_url_close(&session->urls[i]);
    for (unsigned i = 0; i < OUTPUTS_N; i++)
        output_close(&session->outputs[i]);
    output_close(&session->records);
    texts_free(session->texts, session->n_texts);
    lengths_fini(&session->lengths);
    free(session->model);
    buf_fini(&session->environment);
}

int session_run(const struct bench_options *options,
                enum status (*run)(struct session *session, const void *user, bool *slo_held,
                                   struct error *error),
                const void *user) {
    struct session session = {.options = options,
                              .workload = {.source = options->source,
                                           .seed = options->seed,
                                           .n_shared = options->n_shared,
                                           .n_vocabulary = options->n_vocabulary,
                                           .repeats = options->compat}};
    struct error error;
    bool slo_held = false;
    buf_init(&session.environment, 0);
    bool is_ready = bench_session_open_files(&session, &error) == STATUS_OK;
    enum status status = is_ready ? bench_session_open_all(&session, &error) : STATUS_INVALID;
    if (status == STATUS_OK)
        status = run(&session, user, &slo_held, &error);
    session_close(&session);
    if (status != STATUS_OK)
        return exit_with(is_ready ? 1 : EXIT_CONFIG, error.text);
    return session.has_lost ? 1 : slo_held ? 0 : 2;
}

static uint64_t bench_session_to_ns(double s) {
    return (uint64_t)(s * (double)NS_PER_S);
}

/* The sum of a metric's values over its labels, in Prometheus' text format. */
static double bench_session_sum_of(const char *text, const char *name) {
    size_t n = strlen(name);
    double sum = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) != 0 || (line[n] != '{' && line[n] != ' '))
            continue;
        const char *value = line + n;
        if (*value == '{')
            value = strstr(value, "} ");
        sum += value ? strtod(value + 1, NULL) : 0;
    }
    return sum;
}

/* Requests that the servers put back for lack of KV blocks since they began, all together, as vLLM
 * and our router count them; 0 where they are not counted. */
static uint64_t bench_session_count_preempted(const struct session *session) {
    const struct bench_options *options = session->options;
    const struct http_ask ask = {"GET", "/metrics", .api_key = options->api_key};
    double sum = 0;
    for (uint32_t i = 0; i < options->n_urls; i++) {
        struct buf answer;
        struct error error;
        int code = 0;
        buf_init(&answer, METRICS_MAX);
        if (http_fetch(&session->urls[i], &ask, options->timeout_s, &code, &answer, &error) ==
                STATUS_OK &&
            code == 200 && answer.data)
            sum += bench_session_sum_of(answer.data, "vllm:num_preemptions_total");
        buf_fini(&answer);
    }
    return sum > 0 ? (uint64_t)sum : 0;
}

/* A file that cannot be written ends no run: the rest of it goes where it was asked for. */
static void bench_session_note_loss(struct session *session, enum status status,
                                    const struct error *error) {
    if (status != STATUS_OK)
        (void)exit_with(1, error->text);
    session->has_lost |= status != STATUS_OK;
}

static void bench_session_write_records(struct session *session, const struct level *level) {
    struct buf lines;
    struct error error;
    if (!session->records.path)
        return;
    buf_init(&lines, 0);
    tables_records(level, &lines);
    enum status status = output_write(&session->records, &lines, &error);
    bench_session_note_loss(session, status, &error);
    buf_fini(&lines);
    if (status != STATUS_OK)
        output_close(&session->records);
}

enum status session_level(struct session *session, struct level_spec *spec, struct level *level,
                          struct error *error) {
    const struct bench_options *options = session->options;
    if (runner_is_stopped(session->runner))
        return error_set(error, STATUS_CLOSED, "interrupted");
    spec->timeout_ns = bench_session_to_ns(options->timeout_s);
    spec->silence_ns = bench_session_to_ns(options->silence_s);
    spec->drain_ns = bench_session_to_ns(options->drain_s);
    spec->serial = session->serial;
    uint64_t n_before = bench_session_count_preempted(session);
    TRY(runner_level(session->runner, spec, level, error));
    uint64_t n_after = bench_session_count_preempted(session);
    level->n_preempted = n_after > n_before ? n_after - n_before : 0;
    session->serial += level->n_records;
    bench_session_write_records(session, level);
    return STATUS_OK;
}

static enum status bench_session_write_reports(struct session *session, const struct table_set *set,
                                               struct buf *text, struct error *error) {
    bool is_said = false;
    for (unsigned i = 0; i < OUTPUTS_N; i++) {
        struct output *output = &session->outputs[i];
        if (!output->path)
            continue;
        is_said |= strcmp(output->path, "-") == 0;
        kinds[i].make(set, text);
        bench_session_note_loss(session, output_write(output, text, error), error);
    }
    if (is_said)
        return STATUS_OK;
    tables_markdown(set, text);
    return output_print(text, error);
}

enum status session_report(struct session *session, struct table_set *set, struct error *error) {
    uint32_t n_ok = 0;
    struct buf text;
    set->environment = session->environment.data;
    set->first_error = runner_first_error(session->runner);
    set->compat = session->options->compat;
    buf_init(&text, 0);
    enum status status = bench_session_write_reports(session, set, &text, error);
    buf_fini(&text);
    TRY(status);
    for (uint32_t i = 0; i < set->n_rows; i++)
        n_ok += set->rows[i].figures.n_ok;
    return n_ok > 0
               ? STATUS_OK
               : error_set(error, STATUS_CORRUPT, "no request was completed: %s",
                           set->first_error[0] ? set->first_error : "no request was sent in time");
}
