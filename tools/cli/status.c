#include "tools/cli/cli.h"

#include "tools/lib/http_fetch.h"

#include "base/exit.h"

#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ask {
    const char *server;
    const char *api_key;
    const char *worker; /* of drain */
    bool json;
};

enum { KEY_SERVER = 256, KEY_API_KEY, KEY_JSON };

static const struct argp_option options[] = {
    {"server", KEY_SERVER, "URL", 0, "the server (default: TANDEM_SERVER or port 8000 here)", 0},
    {"api-key", KEY_API_KEY, "KEY", 0, "default: OPENAI_API_KEY", 0},
    {"json", KEY_JSON, NULL, 0, "print the JSON object", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct ask *ask = state->input;
    switch (key) {
    case KEY_SERVER:
        ask->server = text;
        return 0;
    case KEY_API_KEY:
        ask->api_key = text;
        return 0;
    case KEY_JSON:
        ask->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (ask->worker)
            return ARGP_ERR_UNKNOWN;
        ask->worker = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The answer's JSON; NULL after an error was printed. */
static json_t *request(const struct ask *ask, const char *method, const char *path,
                       const char *body) {
    struct http_url url;
    struct error error;
    struct buf answer;
    int code = 0;
    json_t *root = NULL;
    buf_init(&answer, 16u << 20);
    enum status status = http_url_parse(cli_server(ask->server), &url, &error);
    if (status == STATUS_OK)
        status = http_fetch(&url, method, path, ask->api_key, body, &code, &answer, &error);
    if (status != STATUS_OK)
        cli_fail(1, "%s", error.text);
    else
        root = json_loadb(answer.data ? answer.data : "", answer.n, 0, NULL);
    if (status == STATUS_OK && (code != 200 || !root)) {
        const char *message =
            json_string_value(json_object_get(json_object_get(root, "error"), "message"));
        cli_fail(1, "%s%s: HTTP status %d: %s", cli_server(ask->server), path, code,
                 message ? message : "no Tandem server?");
        json_decref(root);
        root = NULL;
    }
    buf_fini(&answer);
    return root;
}

static long long number(const json_t *object, const char *group, const char *key) {
    return json_integer_value(
        json_object_get(group ? json_object_get(object, group) : object, key));
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static void print_tables(const json_t *root) {
    size_t i;
    json_t *row;
    printf("%-12s %8s %8s %8s %10s %8s %9s %8s\n", "router", "uptime s", "queued", "running",
           "completed", "failed", "cancelled", "refused");
    json_array_foreach(json_object_get(root, "routers"), i, row) {
        printf("%-12s %8lld %8lld %8lld %10lld %8lld %9lld %8lld\n", text_of(row, "name"),
               (long long)json_number_value(json_object_get(row, "uptime_s")),
               number(row, "requests", "queued"), number(row, "requests", "running"),
               number(row, "requests", "completed"), number(row, "requests", "failed"),
               number(row, "requests", "cancelled"), number(row, "requests", "refused"));
    }
    printf("\n%-12s %-8s %-9s %8s %8s %8s %8s %8s %9s %8s\n", "worker", "role", "state", "running",
           "waiting", "blocks", "used", "cached", "hand-offs", "tokens/s");
    json_array_foreach(json_object_get(root, "workers"), i, row) {
        printf("%-12s %-8s %-9s %8lld %8lld %8lld %8lld %8lld %9lld %8.0f\n", text_of(row, "name"),
               text_of(row, "role"), text_of(row, "state"), number(row, "sequences", "running"),
               number(row, "sequences", "waiting"), number(row, "blocks", "total"),
               number(row, "blocks", "used") + number(row, "blocks", "reserved"),
               number(row, "blocks", "cached"),
               number(row, "handoffs", "in") + number(row, "handoffs", "out"),
               json_number_value(json_object_get(row, "tokens_per_s")));
    }
}

int cli_status(int argc, char **argv) {
    static const struct argp argp = {
        options, parse, "", "Routers and workers of a running server.", NULL, NULL, NULL};
    struct ask ask = {.api_key = getenv("OPENAI_API_KEY")};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&argp, argc, argv, 0, NULL, &ask);
    if (ask.worker)
        return cli_fail(EXIT_CONFIG, "status takes no argument (\"%s\")", ask.worker);
    json_t *root = request(&ask, "GET", "/admin/status", NULL);
    if (!root)
        return 1;
    if (ask.json) {
        json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        print_tables(root);
    }
    json_decref(root);
    return 0;
}

int cli_drain(int argc, char **argv) {
    static const struct argp argp = {
        options, parse, "WORKER", "Asks a worker to finish its work and take no more.",
        NULL,    NULL,  NULL};
    struct ask ask = {.api_key = getenv("OPENAI_API_KEY")};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&argp, argc, argv, 0, NULL, &ask);
    if (!ask.worker)
        return cli_fail(EXIT_CONFIG, "which worker? (tandem status lists them)");
    json_t *body = json_pack("{s:s}", "worker", ask.worker);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return cli_fail(EXIT_CONFIG, "the worker's name is not valid UTF-8");
    json_t *root = request(&ask, "POST", "/admin/drain", text);
    free(text);
    json_decref(root);
    return root ? 0 : 1;
}
