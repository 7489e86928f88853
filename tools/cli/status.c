#include "tools/cli/status.h"

#include "tools/cli/target.h"
#include "tools/lib/args.h"
#include "tools/lib/http_fetch.h"
#include "tools/lib/http_trust.h"

#include "base/buf.h"
#include "base/exit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct status_ask {
    struct cli_target target;
    const char *worker; /* of drain and kill */
    bool json;
    bool undo, exits; /* of drain */
};

#define AT(member) offsetof(struct status_ask, member)
static const struct args_row rows[] = {
    {"json", NULL, args_switch, AT(json), .help = "print the JSON object"},
    {NULL, "WORKER", args_text, .at = AT(worker)}, /* of `status`, too, which refuses it */
    {0}};
static const struct args_row drain_rows[] = {
    {"undo", NULL, args_switch, AT(undo), .help = "take a drain back: the worker takes work again"},
    {"exit", NULL, args_switch, AT(exits),
     .help = "the worker's process ends with 0 once it is empty"},
    {0}};

/* The answer's JSON; NULL after an error was printed. */
static json_t *tandem_status_request(struct status_ask *ask, const char *method, const char *path,
                                     const char *body) {
    struct http_url url = {0};
    struct error error;
    int code = 0;
    json_t *root = NULL;
    const struct http_ask what = {
        .method = method, .path = path, .api_key = ask->target.key, .body = body};
    enum status status =
        http_url_open(target_server(ask->target.server), &ask->target.trust, &url, &error);
    if (status == STATUS_OK)
        status = target_find_key(&ask->target, &error);
    if (status == STATUS_OK)
        status = http_fetch_json(&url, &what, 0, &code, &root, &error);
    http_url_close(&url);
    target_forget(&ask->target);
    if (status == STATUS_OK && code == 200 && root)
        return root;
    const char *message =
        json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    if (status != STATUS_OK)
        exit_fail(1, "%s%s", error.text, target_hint(error.text));
    else
        exit_fail(1, "%s%s: HTTP status %d: %s", target_server(ask->target.server), path, code,
                  message ? message : "no Tandem server?");
    json_decref(root);
    return NULL;
}

static long long tandem_status_number(const json_t *object, const char *group, const char *key) {
    return json_integer_value(
        json_object_get(group ? json_object_get(object, group) : object, key));
}

static const char *tandem_status_text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static void tandem_status_print_tables(const json_t *root) {
    size_t i;
    json_t *row;
    printf("%-12s %8s %8s %8s %10s %8s %9s %8s\n", "router", "uptime s", "queued", "running",
           "completed", "failed", "cancelled", "refused");
    json_array_foreach(json_object_get(root, "routers"), i, row) {
        printf("%-12s %8lld %8lld %8lld %10lld %8lld %9lld %8lld\n",
               tandem_status_text_of(row, "name"),
               (long long)json_number_value(json_object_get(row, "uptime_s")),
               tandem_status_number(row, "requests", "queued"),
               tandem_status_number(row, "requests", "running"),
               tandem_status_number(row, "requests", "completed"),
               tandem_status_number(row, "requests", "failed"),
               tandem_status_number(row, "requests", "cancelled"),
               tandem_status_number(row, "requests", "refused"));
    }
    printf("\n%-12s %-8s %-9s %7s %7s %8s %8s %8s %9s %8s %8s  %s\n", "worker", "role", "state",
           "running", "waiting", "blocks", "used", "cached", "hand-offs", "tokens/s", "pid",
           "host");
    json_array_foreach(json_object_get(root, "workers"), i, row) {
        const char *reason = json_string_value(json_object_get(row, "reason"));
        char state[32];
        json_t *percent = json_object_get(row, "percent");
        snprintf(state, sizeof state, "%s", tandem_status_text_of(row, "state"));
        if (percent)
            snprintf(state, sizeof state, "load %lld%%", json_integer_value(percent));
        printf("%-12s %-8s %-9s %7lld %7lld %8lld %8lld %8lld %9lld %8.0f %8lld  %s",
               tandem_status_text_of(row, "name"), tandem_status_text_of(row, "role"), state,
               tandem_status_number(row, "sequences", "running"),
               tandem_status_number(row, "sequences", "waiting"),
               tandem_status_number(row, "blocks", "total"),
               tandem_status_number(row, "blocks", "used") +
                   tandem_status_number(row, "blocks", "reserved"),
               tandem_status_number(row, "blocks", "cached"),
               tandem_status_number(row, "handoffs", "in") +
                   tandem_status_number(row, "handoffs", "out"),
               json_number_value(json_object_get(row, "tokens_per_s")),
               tandem_status_number(row, NULL, "pid"), tandem_status_text_of(row, "host"));
        const char *sums = json_string_value(json_object_get(row, "sums"));
        printf("%s%s%s%s\n", sums ? "  sums: " : "", sums ? sums : "", reason ? "  " : "",
               reason ? reason : "");
    }
}

int status_command(int argc, char **argv) {
    static const struct args args = {
        "", "Routers and workers of a running server.",
        .parts = {{rows, 0}, {target_rows, AT(target)}, {http_trust_rows, AT(target.trust)}}};
    struct status_ask ask = {0};
    args_parse(&args, argc, argv, &ask);
    if (ask.worker)
        return exit_fail(EXIT_CONFIG, "status takes no argument (\"%s\")", ask.worker);
    json_t *root = tandem_status_request(&ask, "GET", "/admin/status", NULL);
    if (!root)
        return 1;
    if (ask.json) {
        json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        tandem_status_print_tables(root);
    }
    json_decref(root);
    return 0;
}

static int tandem_status_order_worker(struct status_ask *ask, const char *path) {
    if (!ask->worker)
        return exit_fail(EXIT_CONFIG, "which worker? (tandem status lists them)");
    if (ask->undo && ask->exits)
        return exit_fail(EXIT_CONFIG, "--undo and --exit exclude each other");
    json_t *body = json_pack("{s:s}", "worker", ask->worker);
    if (body && ask->exits)
        json_object_set_new(body, "exit", json_true());
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return exit_fail(EXIT_CONFIG, "the worker's name is not valid UTF-8");
    json_t *root = tandem_status_request(ask, "POST", path, text);
    free(text);
    json_decref(root);
    return root ? 0 : 1;
}

int status_drain_command(int argc, char **argv) {
    static const struct args args = {"WORKER", "Asks a worker to finish its work and take no more.",
                                     .parts = {{rows, 0},
                                               {drain_rows, 0},
                                               {target_rows, AT(target)},
                                               {http_trust_rows, AT(target.trust)}}};
    struct status_ask ask = {0};
    args_parse(&args, argc, argv, &ask);
    return tandem_status_order_worker(&ask, ask.undo ? "/admin/resume" : "/admin/drain");
}

int status_kill_command(int argc, char **argv) {
    static const struct args args = {
        "WORKER",
        "Kills a worker of `tandem up` at once, as a crash would: other workers continue its "
        "answers, and it is started again.",
        .parts = {{rows, 0}, {target_rows, AT(target)}, {http_trust_rows, AT(target.trust)}}};
    struct status_ask ask = {0};
    args_parse(&args, argc, argv, &ask);
    return tandem_status_order_worker(&ask, "/admin/kill");
}
