#include "tools/bench/options.h"

#include "base/clock.h"
#include "base/exit.h"
#include "tools/bench/session.h"

#include <argp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FIRST   256 /* an option's key for argp: this and the number of its row */
#define LENGTHS_MAX ((uint32_t)(sizeof((struct bench_options *)0)->inputs / sizeof(uint32_t)))

struct bench_option;

/* An option as it was given. */
struct given {
    const struct bench_option *option;
    struct argp_state *state;
    char *text;
    void *at; /* the row's member of a struct bench_options */
};

/* Reads `text` into `at`. */
typedef void read_fn(const struct given *given);

/* An option: how it is written, who reads it, and the member that holds it. */
struct bench_option {
    const char *name;
    const char *arg; /* NULL: a switch */
    int flags;
    int group; /* of --help */
    read_fn *read;
    size_t at;
    uint32_t low; /* of numbers */
    const char *help;
};

static read_fn read_text, read_path, read_switch, read_number, read_seed, read_real, read_lengths,
    read_slo, read_native, read_source, read_texts, read_target;

#define AT(member) offsetof(struct bench_options, member)
static const struct bench_option options[] = {
    {"target", "URL", 0, 0, read_target, AT(targets), 0,
     "the server: http://, https://, grpc:// or grpcs://HOST:PORT; several: in turn"},
    {"api-key", "KEY", 0, 0, read_text, AT(api_key), 0, "default: OPENAI_API_KEY"},
    {"model", "NAME", 0, 0, read_text, AT(model), 0, "default: the first that the server lists"},
    {"completions", NULL, 0, 0, read_switch, AT(completions), 0,
     "/v1/completions in place of chat"},
    {"no-stream", NULL, 0, 0, read_switch, AT(is_whole), 0, "answers in one piece"},
    {"keep-eos", NULL, 0, 0, read_switch, AT(keeps_eos), 0, "do not send ignore_eos"},
    {"prompts", "KIND", 0, 0, read_source, AT(source), 0,
     "words (default), texts (of --texts), or ids (token ids; needs --completions)"},
    {"texts", "FILE", 0, 0, read_texts, AT(texts_path), 0,
     "a text, or ShareGPT's JSON, to take prompts from"},
    {"tokenizer", "MODEL", 0, 0, read_text, AT(tokenizer_path), 0,
     "a model's folder or file: counts tokens in the server's place"},
    {"vocabulary", "N", 0, 0, read_number, AT(n_vocabulary), 1, "random ids are below N (32000)"},
    {"shared-prefix", "N", 0, 0, read_number, AT(n_shared), 0,
     "tokens that all prompts begin with (0)"},
    {"seed", "N", 0, 0, read_seed, AT(seed), 0,
     "repeats prompts and gaps (default: from the clock)"},
    {"prompt-tokens", "N", 0, 0, read_number, AT(prompt_tokens), 1,
     "of each prompt, by the server's count"},
    {"max-tokens", "N", 0, 0, read_number, AT(max_tokens), 1, "of each answer"},
    {"warmup", "S", 0, 0, read_real, AT(warmup_s), 0,
     "seconds at a level's begin that are not measured"},
    {"duration", "S", 0, 0, read_real, AT(duration_s), 0, "seconds of a level"},
    {"drain", "S", 0, 0, read_real, AT(drain_s), 0,
     "seconds to wait for running requests at its end (30)"},
    {"timeout", "S", 0, 0, read_real, AT(timeout_s), 0, "seconds for a request (600)"},
    {"silence", "S", 0, 0, read_real, AT(silence_s), 0,
     "seconds without any byte of an answer (120)"},
    {"slo", "LIST", 0, 0, read_slo, AT(slo), 0,
     "ttft-p99=500ms,itl-p99=50ms,e2e-p99=10s; exit code 2: not held"},
    {"compat", NULL, 0, 0, read_switch, AT(compat), 0,
     "requests and columns of the published programs"},
    {"generate", "KIND", 0, 0, read_native, AT(native), 0,
     "with --compat: ask the server's own /generate, of vllm or tgi, as the published grids did"},
    {"quiet", NULL, 0, 0, read_switch, AT(is_quiet), 0, "no progress"},
    {"json", "FILE", OPTION_ARG_OPTIONAL, 0, read_path, AT(json_path), 0,
     "JSON; no FILE or -: standard output"},
    {"csv", "FILE", OPTION_ARG_OPTIONAL, 0, read_path, AT(csv_path), 0, "CSV"},
    {"markdown", "FILE", OPTION_ARG_OPTIONAL, 0, read_path, AT(markdown_path), 0, "the table"},
    {"html", "FILE", 0, 0, read_text, AT(html_path), 0,
     "one page with plots, readable without network"},
    {"records", "FILE", 0, 0, read_text, AT(records_path), 0, "a JSON line for each request"},
    {"profile", "NAME", 0, 1, read_text, AT(profile), 0,
     "load: synchronous, concurrent, throughput, constant, poisson, ramp or trace"},
    {"concurrency", "N", 0, 1, read_number, AT(concurrency), 1,
     "streams at once; throughput: at most (512)"},
    {"rate", "R", 0, 1, read_real, AT(rate), 0,
     "requests per second (of a ramp: at its end; of a grid's burst)"},
    {"rate-from", "R", 0, 1, read_real, AT(rate_from), 0, "load: of a ramp at its begin"},
    {"requests", "N", 0, 1, read_number, AT(n_requests), 1,
     "load: how many in all (32, or what --duration takes)"},
    {"trace", "FILE", 0, 1, read_text, AT(trace_path), 0,
     "load: JSON lines: timestamp, input_length, output_length, hash_ids"},
    {"input-lengths", "LIST", 0, 2, read_lengths, AT(inputs), 1,
     "grid: tokens (128,512,1024,2048)"},
    {"output-lengths", "LIST", 0, 2, read_lengths, AT(outputs), 1, "grid: tokens (as input)"},
    {"obo-num", "N", 0, 2, read_number, AT(n_alone), 1, "grid: requests one by one (10)"},
    {"num-prompts", "N", 0, 2, read_number, AT(n_prompts), 1, "grid: requests of the burst (399)"},
    {"levels", "N", 0, 3, read_number, AT(n_levels), 1, "sweep: rates above synchronous (9)"},
    {"poisson", NULL, 0, 3, read_switch, AT(is_poisson), 0,
     "sweep: Poisson gaps in place of even ones"},
};
#undef AT
#define N_OPTIONS (sizeof options / sizeof *options)

static void read_text(const struct given *given) {
    *(const char **)given->at = given->text;
}

static void read_path(const struct given *given) {
    *(const char **)given->at = given->text ? given->text : "-";
}

static void read_switch(const struct given *given) {
    *(bool *)given->at = true;
}

static uint64_t to_number(const struct given *given, const char *text) {
    const struct bench_option *option = given->option;
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < option->low || value > 10000000)
        argp_error(given->state, "--%s: \"%s\" is not a number from %u to 10000000", option->name,
                   text, option->low);
    return value;
}

static void read_number(const struct given *given) {
    *(uint32_t *)given->at = (uint32_t)to_number(given, given->text);
}

static void read_seed(const struct given *given) {
    *(uint64_t *)given->at = to_number(given, given->text);
}

static void read_real(const struct given *given) {
    char *end = NULL;
    double value = strtod(given->text, &end);
    if (end == given->text || *end || !(value >= 0 && value < 1e6))
        argp_error(given->state, "--%s: \"%s\" is not a positive number", given->option->name,
                   given->text);
    *(double *)given->at = value;
}

/* Fills the rest of the member with zeros: they are none. */
static void read_lengths(const struct given *given) {
    uint32_t *values = given->at, n = 0;
    char *save = NULL;
    memset(values, 0, LENGTHS_MAX * sizeof *values);
    for (char *item = strtok_r(given->text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (n == LENGTHS_MAX)
            argp_error(given->state, "--%s: more than %u lengths", given->option->name,
                       LENGTHS_MAX);
        else
            values[n++] = (uint32_t)to_number(given, item);
    }
    if (n == 0)
        argp_error(given->state, "--%s: no length in it", given->option->name);
}

/* "ttft-p99=500ms,itl-p99=50ms,e2e-p99=10s" */
static void read_slo(const struct given *given) {
    struct slo *slo = given->at;
    char *save = NULL;
    for (char *item = strtok_r(given->text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
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
            argp_error(given->state,
                       "--%s: \"%s\" is not ttft-p99, itl-p99 or e2e-p99 = TIME with ms or s",
                       given->option->name, item);
        else
            *wanted = (uint64_t)(time * unit);
    }
}

static void read_native(const struct given *given) {
    if (strcmp(given->text, "vllm") == 0)
        *(enum native *)given->at = NATIVE_VLLM;
    else if (strcmp(given->text, "tgi") == 0)
        *(enum native *)given->at = NATIVE_TGI;
    else
        argp_error(given->state, "--%s: \"%s\" is not vllm or tgi", given->option->name,
                   given->text);
}

static void read_source(const struct given *given) {
    static const char *const names[] = {"words", "texts", "ids"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(given->text, names[i]) == 0) {
            *(enum source *)given->at = (enum source)i;
            return;
        }
    argp_error(given->state, "--%s: \"%s\" is not words, texts or ids", given->option->name,
               given->text);
}

/* Whoever gives texts wants prompts of them. */
static void read_texts(const struct given *given) {
    struct bench_options *bench = given->state->input;
    bench->source = SOURCE_TEXTS;
    read_text(given);
}

static void read_target(const struct given *given) {
    struct bench_options *bench = given->state->input;
    const char **targets = given->at;
    if (bench->n_urls == TARGETS_MAX)
        argp_error(given->state, "--%s: more than %d", given->option->name, TARGETS_MAX);
    else
        targets[bench->n_urls++] = given->text;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct bench_options *bench = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &bench->trust;
        return 0;
    }
    if (key < KEY_FIRST || key >= KEY_FIRST + (int)N_OPTIONS)
        return ARGP_ERR_UNKNOWN;
    const struct bench_option *option = &options[key - KEY_FIRST];
    option->read(&(struct given){option, state, text, (char *)bench + option->at});
    return 0;
}

static uint32_t count_lengths(const uint32_t lengths[LENGTHS_MAX]) {
    uint32_t n = 0;
    while (n < LENGTHS_MAX && lengths[n] > 0)
        n++;
    return n;
}

enum status options_read(struct bench_options *bench, const char *about, int argc, char **argv,
                         struct error *error) {
    struct argp_option known[N_OPTIONS + 1] = {{0}};
    for (unsigned i = 0; i < N_OPTIONS; i++)
        known[i] = (struct argp_option){options[i].name,  KEY_FIRST + (int)i, options[i].arg,
                                        options[i].flags, options[i].help,    options[i].group};
    struct argp argp = {known, parse, "", about, http_trust_argp, NULL, NULL};
    argp_err_exit_status = EXIT_CONFIG;
    bench->drain_s = 30;
    bench->timeout_s = 600;
    bench->silence_s = 120;
    bench->n_vocabulary = 32000;
    argp_parse(&argp, argc, argv, 0, NULL, bench);
    bench->n_inputs = count_lengths(bench->inputs);
    bench->n_outputs = count_lengths(bench->outputs);
    if (bench->n_outputs == 0) {
        memcpy(bench->outputs, bench->inputs, sizeof bench->outputs);
        bench->n_outputs = bench->n_inputs;
    }
    if (bench->n_urls == 0)
        return error_set(error, STATUS_INVALID, "--target URL is needed");
    if (bench->native != NATIVE_NONE && !bench->compat)
        return error_set(error, STATUS_INVALID, "--generate: needs --compat");
    if (bench->native != NATIVE_NONE && bench->source == SOURCE_IDS)
        return error_set(error, STATUS_INVALID, "--generate: takes no --prompts ids");
    if (bench->native != NATIVE_NONE && strncmp(bench->targets[0], "grpc", 4) == 0)
        return error_set(error, STATUS_INVALID, "--generate: --target is not HTTP");
    if (bench->source == SOURCE_IDS && !bench->completions)
        return error_set(error, STATUS_INVALID, "--prompts: ids need --completions");
    if (bench->source == SOURCE_TEXTS && !bench->texts_path)
        return error_set(error, STATUS_INVALID, "--prompts: texts need --texts FILE");
    return STATUS_OK;
}
