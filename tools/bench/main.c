/* tools/bench/main.c: `tandem-bench COMMAND ...`: measures OpenAI-style servers. */
#include "tools/bench/load.h"

#include "base/exit.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_TARGET = 256,
    KEY_PROFILE,
    KEY_CONCURRENCY,
    KEY_RATE,
    KEY_REQUESTS,
    KEY_PROMPT_TOKENS,
    KEY_MAX_TOKENS,
    KEY_API_KEY
};

static const struct argp_option options[] = {
    {"target", KEY_TARGET, "URL", 0, "the server, http://HOST:PORT or https://HOST:PORT", 0},
    {"profile", KEY_PROFILE, "NAME", 0, "synchronous, concurrent or constant", 0},
    {"concurrency", KEY_CONCURRENCY, "N", 0, "streams at once (profile concurrent)", 0},
    {"rate", KEY_RATE, "R", 0, "requests per second (profile constant)", 0},
    {"requests", KEY_REQUESTS, "N", 0, "how many in all (default 32)", 0},
    {"prompt-tokens", KEY_PROMPT_TOKENS, "N", 0, "of each prompt, by the server's count (64)", 0},
    {"max-tokens", KEY_MAX_TOKENS, "N", 0, "of each answer (64)", 0},
    {"api-key", KEY_API_KEY, "KEY", 0, "default: OPENAI_API_KEY", 0},
    {0}};

struct arguments {
    struct load_options load;
    const char *profile;
};

static uint32_t positive(struct argp_state *state, const char *name, const char *text) {
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < 1 || value > 10000000)
        argp_error(state, "--%s: \"%s\" is not a number from 1 to 10000000", name, text);
    return (uint32_t)value;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    struct load_options *load = &arguments->load;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &load->trust;
        return 0;
    case KEY_TARGET:
        load->target = text;
        return 0;
    case KEY_PROFILE:
        arguments->profile = text;
        return 0;
    case KEY_CONCURRENCY:
        load->concurrency = positive(state, "concurrency", text);
        return 0;
    case KEY_RATE:
        load->rate = strtod(text, &end);
        if (*end || !(load->rate > 0 && load->rate < 1e6))
            argp_error(state, "--rate: \"%s\" is not a positive number", text);
        return 0;
    case KEY_REQUESTS:
        load->n_requests = positive(state, "requests", text);
        return 0;
    case KEY_PROMPT_TOKENS:
        load->prompt_tokens = positive(state, "prompt-tokens", text);
        return 0;
    case KEY_MAX_TOKENS:
        load->max_tokens = positive(state, "max-tokens", text);
        return 0;
    case KEY_API_KEY:
        load->api_key = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int fail(int code, const char *text) {
    fprintf(stderr, "error: %s\n", text);
    return code;
}

static int run_load(int argc, char **argv) {
    static const struct argp argp = {options,         parse, "",  "One load profile and its table.",
                                     http_trust_argp, NULL,  NULL};
    struct arguments arguments = {.load = {.n_requests = 32,
                                           .prompt_tokens = 64,
                                           .max_tokens = 64,
                                           .api_key = getenv("OPENAI_API_KEY")}};
    struct load_options *load = &arguments.load;
    struct error error;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    const char *profile = arguments.profile   ? arguments.profile
                          : load->concurrency ? "concurrent"
                          : load->rate > 0    ? "constant"
                                              : "synchronous";
    if (!load->target)
        return fail(EXIT_CONFIG, "--target URL is needed");
    if (strcmp(profile, "synchronous") == 0)
        load->profile = LOAD_SYNCHRONOUS;
    else if (strcmp(profile, "concurrent") == 0)
        load->profile = LOAD_CONCURRENT;
    else if (strcmp(profile, "constant") == 0)
        load->profile = LOAD_CONSTANT;
    else
        return fail(EXIT_CONFIG, "--profile is synchronous, concurrent or constant");
    if (load->profile == LOAD_CONCURRENT && load->concurrency == 0)
        return fail(EXIT_CONFIG, "profile concurrent needs --concurrency N");
    if (load->profile == LOAD_CONSTANT && load->rate <= 0)
        return fail(EXIT_CONFIG, "profile constant needs --rate R");
    if (load_run(load, &error) != STATUS_OK)
        return fail(1, error.text);
    return 0;
}

int main(int argc, char **argv) {
    static const char help[] = "usage: tandem-bench COMMAND [OPTION...]\n\n"
                               "  load   one load profile against any OpenAI-style server\n\n"
                               "`tandem-bench COMMAND --help` tells more.\n";
    const char *name = argc > 1 ? argv[1] : "";
    argp_err_exit_status = EXIT_CONFIG;
    exit_checks_stdout();
    if (strcmp(name, "load") == 0) {
        char program[] = "tandem-bench load"; /* as its usage lines name it */
        argv[1] = program;
        return run_load(argc - 1, argv + 1);
    }
    if (strcmp(name, "--version") == 0) {
        printf("tandem-bench %s\n", TANDEM_VERSION);
        return 0;
    }
    fputs(help, strcmp(name, "--help") == 0 ? stdout : stderr);
    return strcmp(name, "--help") == 0 ? 0 : EXIT_CONFIG;
}
