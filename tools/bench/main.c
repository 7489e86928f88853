/* tools/bench/main.c: `tandem-bench COMMAND ...`: measures OpenAI-style servers. */
#include "tools/bench/commands.h"

#include "base/clock.h"
#include "base/exit.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_TARGET = 256,
    KEY_API_KEY,
    KEY_MODEL,
    KEY_COMPLETIONS,
    KEY_NO_STREAM,
    KEY_KEEP_EOS,
    KEY_PROMPTS,
    KEY_TEXTS,
    KEY_VOCABULARY,
    KEY_SHARED,
    KEY_SEED,
    KEY_PROMPT_TOKENS,
    KEY_MAX_TOKENS,
    KEY_WARMUP,
    KEY_DURATION,
    KEY_DRAIN,
    KEY_TIMEOUT,
    KEY_SILENCE,
    KEY_SLO,
    KEY_COMPAT,
    KEY_QUIET,
    KEY_JSON,
    KEY_CSV,
    KEY_MARKDOWN,
    KEY_HTML,
    KEY_RECORDS,
    KEY_PROFILE,
    KEY_CONCURRENCY,
    KEY_RATE,
    KEY_RATE_FROM,
    KEY_REQUESTS,
    KEY_TRACE,
    KEY_INPUTS,
    KEY_OUTPUTS,
    KEY_ALONE,
    KEY_NUM_PROMPTS,
    KEY_LEVELS,
    KEY_POISSON
};

static const struct argp_option options[] = {
    {"target", KEY_TARGET, "URL", 0, "the server, http://HOST:PORT or https://; several: in turn",
     0},
    {"api-key", KEY_API_KEY, "KEY", 0, "default: OPENAI_API_KEY", 0},
    {"model", KEY_MODEL, "NAME", 0, "default: the first that the server lists", 0},
    {"completions", KEY_COMPLETIONS, NULL, 0, "/v1/completions in place of chat", 0},
    {"no-stream", KEY_NO_STREAM, NULL, 0, "answers in one piece", 0},
    {"keep-eos", KEY_KEEP_EOS, NULL, 0, "do not send ignore_eos", 0},
    {"prompts", KEY_PROMPTS, "KIND", 0,
     "words (default), texts (of --texts), or ids (token ids; needs --completions)", 0},
    {"texts", KEY_TEXTS, "FILE", 0, "a text, or ShareGPT's JSON, to take prompts from", 0},
    {"vocabulary", KEY_VOCABULARY, "N", 0, "random ids are below N (32000)", 0},
    {"shared-prefix", KEY_SHARED, "N", 0, "tokens that all prompts begin with (0)", 0},
    {"seed", KEY_SEED, "N", 0, "repeats prompts and gaps (default: from the clock)", 0},
    {"prompt-tokens", KEY_PROMPT_TOKENS, "N", 0, "of each prompt, by the server's count", 0},
    {"max-tokens", KEY_MAX_TOKENS, "N", 0, "of each answer", 0},
    {"warmup", KEY_WARMUP, "S", 0, "seconds at a level's begin that are not measured", 0},
    {"duration", KEY_DURATION, "S", 0, "seconds of a level", 0},
    {"drain", KEY_DRAIN, "S", 0, "seconds to wait for running requests at its end (30)", 0},
    {"timeout", KEY_TIMEOUT, "S", 0, "seconds for a request (600)", 0},
    {"silence", KEY_SILENCE, "S", 0, "seconds without any byte of an answer (120)", 0},
    {"slo", KEY_SLO, "LIST", 0, "ttft-p99=500ms,itl-p99=50ms,e2e-p99=10s; exit code 2: not held",
     0},
    {"compat", KEY_COMPAT, NULL, 0, "requests and columns of the published programs", 0},
    {"quiet", KEY_QUIET, NULL, 0, "no progress", 0},
    {"json", KEY_JSON, "FILE", OPTION_ARG_OPTIONAL, "JSON; no FILE or -: standard output", 0},
    {"csv", KEY_CSV, "FILE", OPTION_ARG_OPTIONAL, "CSV", 0},
    {"markdown", KEY_MARKDOWN, "FILE", OPTION_ARG_OPTIONAL, "the table", 0},
    {"html", KEY_HTML, "FILE", 0, "one page with plots, readable without network", 0},
    {"records", KEY_RECORDS, "FILE", 0, "a JSON line for each request", 0},
    {"profile", KEY_PROFILE, "NAME", 0,
     "load: synchronous, concurrent, throughput, constant, poisson, ramp or trace", 1},
    {"concurrency", KEY_CONCURRENCY, "N", 0, "streams at once; throughput: at most (512)", 1},
    {"rate", KEY_RATE, "R", 0, "requests per second (of a ramp: at its end; of a grid's burst)", 1},
    {"rate-from", KEY_RATE_FROM, "R", 0, "load: of a ramp at its begin", 1},
    {"requests", KEY_REQUESTS, "N", 0, "load: how many in all (32, or what --duration takes)", 1},
    {"trace", KEY_TRACE, "FILE", 0, "load: JSON lines: timestamp, input_length, output_length", 1},
    {"input-lengths", KEY_INPUTS, "LIST", 0, "grid: tokens (128,512,1024,2048)", 2},
    {"output-lengths", KEY_OUTPUTS, "LIST", 0, "grid: tokens (as input)", 2},
    {"obo-num", KEY_ALONE, "N", 0, "grid: requests one by one (10)", 2},
    {"num-prompts", KEY_NUM_PROMPTS, "N", 0, "grid: requests of the burst (399)", 2},
    {"levels", KEY_LEVELS, "N", 0, "sweep: rates above synchronous (9)", 3},
    {"poisson", KEY_POISSON, NULL, 0, "sweep: Poisson gaps in place of even ones", 3},
    {0}};

static uint64_t number(struct argp_state *state, const char *name, const char *text, uint64_t low) {
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < low || value > 10000000)
        argp_error(state, "--%s: \"%s\" is not a number from %u to 10000000", name, text,
                   (unsigned)low);
    return value;
}

static uint32_t positive(struct argp_state *state, const char *name, const char *text) {
    return (uint32_t)number(state, name, text, 1);
}

static double real(struct argp_state *state, const char *name, const char *text) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value < 1e6))
        argp_error(state, "--%s: \"%s\" is not a positive number", name, text);
    return value;
}

static uint32_t list(struct argp_state *state, const char *name, char *text, uint32_t *values,
                     uint32_t size) {
    uint32_t n = 0;
    char *save = NULL;
    for (char *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (n == size)
            argp_error(state, "--%s: more than %u lengths", name, size);
        values[n++] = positive(state, name, item);
    }
    if (n == 0)
        argp_error(state, "--%s: no length in it", name);
    return n;
}

/* "ttft-p99=500ms,itl-p99=50ms,e2e-p99=10s" */
static void read_slo(struct argp_state *state, char *text, struct slo *slo) {
    char *save = NULL;
    for (char *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        char *value = strchr(item, '=');
        char *end = NULL;
        double time = value ? strtod(value + 1, &end) : 0;
        double unit = !end                     ? 0
                      : strcmp(end, "ms") == 0 ? (double)NS_PER_MS
                      : strcmp(end, "s") == 0  ? (double)NS_PER_S
                                               : 0;
        size_t n = value ? (size_t)(value - item) : 0;
        uint64_t *wanted = n == 8 && memcmp(item, "ttft-p99", n) == 0  ? &slo->ttft_p99_ns
                           : n == 7 && memcmp(item, "itl-p99", n) == 0 ? &slo->itl_p99_ns
                           : n == 7 && memcmp(item, "e2e-p99", n) == 0 ? &slo->latency_p99_ns
                                                                       : NULL;
        if (!wanted || !(time > 0 && time < 1e6) || unit <= 0)
            argp_error(state,
                       "--slo: \"%s\" is not ttft-p99, itl-p99 or e2e-p99 = TIME with ms or s",
                       item);
        else
            *wanted = (uint64_t)(time * unit);
    }
}

static enum source read_source(struct argp_state *state, const char *text) {
    static const char *const names[] = {"words", "texts", "ids"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum source)i;
    argp_error(state, "--prompts: \"%s\" is not words, texts or ids", text);
    return SOURCE_WORDS;
}

static error_t parse_load(int key, char *text, struct argp_state *state) {
    struct bench_options *bench = state->input;
    switch (key) {
    case KEY_PROFILE:
        bench->profile = text;
        return 0;
    case KEY_CONCURRENCY:
        bench->concurrency = positive(state, "concurrency", text);
        return 0;
    case KEY_RATE:
        bench->rate = real(state, "rate", text);
        return 0;
    case KEY_RATE_FROM:
        bench->rate_from = real(state, "rate-from", text);
        return 0;
    case KEY_REQUESTS:
        bench->n_requests = positive(state, "requests", text);
        return 0;
    case KEY_TRACE:
        bench->trace_path = text;
        return 0;
    case KEY_INPUTS:
        bench->n_inputs = list(state, "input-lengths", text, bench->inputs, 32);
        return 0;
    case KEY_OUTPUTS:
        bench->n_outputs = list(state, "output-lengths", text, bench->outputs, 32);
        return 0;
    case KEY_ALONE:
        bench->n_alone = positive(state, "obo-num", text);
        return 0;
    case KEY_NUM_PROMPTS:
        bench->n_prompts = positive(state, "num-prompts", text);
        return 0;
    case KEY_LEVELS:
        bench->n_levels = positive(state, "levels", text);
        return 0;
    case KEY_POISSON:
        bench->is_poisson = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_output(int key, char *text, struct argp_state *state) {
    struct bench_options *bench = state->input;
    const char *path = text ? text : "-";
    switch (key) {
    case KEY_JSON:
        bench->json_path = path;
        return 0;
    case KEY_CSV:
        bench->csv_path = path;
        return 0;
    case KEY_MARKDOWN:
        bench->markdown_path = path;
        return 0;
    case KEY_HTML:
        bench->html_path = path;
        return 0;
    case KEY_RECORDS:
        bench->records_path = path;
        return 0;
    case KEY_QUIET:
        bench->is_quiet = true;
        return 0;
    case KEY_COMPAT:
        bench->compat = true;
        return 0;
    case KEY_SLO:
        read_slo(state, text, &bench->slo);
        return 0;
    default:
        return parse_load(key, text, state);
    }
}

static error_t parse_times(int key, char *text, struct argp_state *state) {
    struct bench_options *bench = state->input;
    switch (key) {
    case KEY_WARMUP:
        bench->warmup_s = real(state, "warmup", text);
        return 0;
    case KEY_DURATION:
        bench->duration_s = real(state, "duration", text);
        return 0;
    case KEY_DRAIN:
        bench->drain_s = real(state, "drain", text);
        return 0;
    case KEY_TIMEOUT:
        bench->timeout_s = real(state, "timeout", text);
        return 0;
    case KEY_SILENCE:
        bench->silence_s = real(state, "silence", text);
        return 0;
    default:
        return parse_output(key, text, state);
    }
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct bench_options *bench = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &bench->trust;
        return 0;
    case KEY_TARGET:
        if (bench->n_urls == TARGETS_MAX)
            argp_error(state, "--target: more than %d", TARGETS_MAX);
        else
            bench->targets[bench->n_urls++] = text;
        return 0;
    case KEY_API_KEY:
        bench->api_key = text;
        return 0;
    case KEY_MODEL:
        bench->model = text;
        return 0;
    case KEY_COMPLETIONS:
        bench->completions = true;
        return 0;
    case KEY_NO_STREAM:
        bench->is_whole = true;
        return 0;
    case KEY_KEEP_EOS:
        bench->keeps_eos = true;
        return 0;
    case KEY_PROMPTS:
        bench->source = read_source(state, text);
        return 0;
    case KEY_TEXTS:
        bench->texts_path = text;
        bench->source = SOURCE_TEXTS;
        return 0;
    case KEY_VOCABULARY:
        bench->n_vocabulary = positive(state, "vocabulary", text);
        return 0;
    case KEY_SHARED:
        bench->n_shared = (uint32_t)number(state, "shared-prefix", text, 0);
        return 0;
    case KEY_SEED:
        bench->seed = number(state, "seed", text, 0);
        return 0;
    case KEY_PROMPT_TOKENS:
        bench->prompt_tokens = positive(state, "prompt-tokens", text);
        return 0;
    case KEY_MAX_TOKENS:
        bench->max_tokens = positive(state, "max-tokens", text);
        return 0;
    default:
        return parse_times(key, text, state);
    }
}

static const struct command {
    const char *name;
    const char *about;
    int (*run)(const struct bench_options *options);
    struct bench_options defaults;
} commands[] = {
    {"load",
     "one load profile and its table",
     load_command,
     {.prompt_tokens = 64, .max_tokens = 64}},
    {"grid",
     "input lengths x output lengths: the first published format",
     grid_command,
     {.inputs = {128, 512, 1024, 2048}, .n_inputs = 4, .n_alone = 10, .n_prompts = 399}},
    {"sweep",
     "synchronous, throughput and the rates between: the second published format",
     sweep_command,
     {.prompt_tokens = 512, .max_tokens = 128, .duration_s = 120, .n_levels = 9}},
};

/* The command line as one line, without the key. */
static char *join(int argc, char **argv) {
    size_t n = 1;
    for (int i = 0; i < argc; i++)
        n += strlen(argv[i]) + 1;
    char *text = calloc(1, n);
    for (int i = 0; text && i < argc; i++) {
        bool is_key = i > 0 && (strcmp(argv[i - 1], "--api-key") == 0);
        strcat(text, i ? " " : "");
        strcat(text, is_key || strncmp(argv[i], "--api-key=", 10) == 0 ? "***" : argv[i]);
    }
    return text;
}

static int run_command(const struct command *command, int argc, char **argv) {
    struct argp argp = {options, parse, "", command->about, http_trust_argp, NULL, NULL};
    struct bench_options bench = command->defaults;
    char *line = join(argc, argv);
    bench.api_key = getenv("OPENAI_API_KEY");
    bench.drain_s = 30;
    bench.timeout_s = 600;
    bench.silence_s = 120;
    bench.n_vocabulary = 32000;
    bench.seed = clock_unix_ns() / NS_PER_MS;
    bench.command_line = line ? line : "";
    argp_parse(&argp, argc, argv, 0, NULL, &bench);
    if (bench.n_outputs == 0) {
        memcpy(bench.outputs, bench.inputs, sizeof bench.outputs);
        bench.n_outputs = bench.n_inputs;
    }
    int code;
    if (bench.n_urls == 0)
        code = exit_with(EXIT_CONFIG, "--target URL is needed");
    else if (bench.source == SOURCE_IDS && !bench.completions)
        code = exit_with(EXIT_CONFIG, "--prompts: ids need --completions");
    else if (bench.source == SOURCE_TEXTS && !bench.texts_path)
        code = exit_with(EXIT_CONFIG, "--prompts: texts need --texts FILE");
    else
        code = command->run(&bench);
    free(line);
    return code;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    bool is_help = strcmp(name, "--help") == 0;
    char program[64];
    argp_err_exit_status = EXIT_CONFIG;
    exit_checks_stdout();
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0) {
            snprintf(program, sizeof program, "tandem-bench %s", name); /* for its usage lines */
            argv[1] = program;
            return run_command(&commands[i], argc - 1, argv + 1);
        }
    if (strcmp(name, "--version") == 0) {
        printf("tandem-bench %s\n", TANDEM_VERSION);
        return 0;
    }
    if (strcmp(name, "compare") == 0 && argc > 2)
        return compare_command(argv + 2, argc - 2);
    FILE *out = is_help ? stdout : stderr;
    fputs("usage: tandem-bench COMMAND [OPTION...]\n\n", out);
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].about);
    fputs("  compare  runs (--json) and published tables side by side: compare FILE|TABLE/SYSTEM "
          "...\n"
          "\n`tandem-bench COMMAND --help` tells more.\n",
          out);
    return is_help ? 0 : EXIT_CONFIG;
}
