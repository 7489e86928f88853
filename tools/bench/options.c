#include "tools/bench/commands.h"

#include "base/clock.h"
#include "tools/lib/args.h"
#include "tools/lib/http_trust.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LENGTHS_MAX ((uint32_t)(sizeof((struct bench_options *)0)->inputs / sizeof(uint32_t)))

static args_read_fn bench_options_read_number, bench_options_read_count, bench_options_read_seed,
    bench_options_read_real, bench_options_read_lengths, bench_options_read_slo,
    bench_options_read_native, bench_options_read_source, bench_options_read_texts,
    bench_options_read_target;

#define AT(member) offsetof(struct bench_options, member)
static const struct args_row options[] = {
    {"target", "URL", bench_options_read_target, AT(targets),
     .help = "the server: http://, https://, grpc:// or grpcs://HOST:PORT; several: in turn"},
    {"api-key", "KEY", args_text, AT(api_key), .help = "default: OPENAI_API_KEY"},
    {"model", "NAME", args_text, AT(model), .help = "default: the first that the server lists"},
    {"completions", NULL, args_switch, AT(completions), .help = "/v1/completions in place of chat"},
    {"no-stream", NULL, args_switch, AT(is_whole), .help = "answers in one piece"},
    {"keep-eos", NULL, args_switch, AT(keeps_eos), .help = "do not send ignore_eos"},
    {"prompts", "KIND", bench_options_read_source, AT(source),
     .help = "words (default), texts (of --texts), or ids (token ids; needs --completions)"},
    {"texts", "FILE", bench_options_read_texts, AT(texts_path),
     .help = "a text, or ShareGPT's JSON, to take prompts from"},
    {"tokenizer", "MODEL", args_text, AT(tokenizer_path),
     .help = "a model's folder or file: counts tokens in the server's place"},
    {"vocabulary", "N", bench_options_read_count, AT(n_vocabulary),
     .help = "random ids are below N (32000)"},
    {"shared-prefix", "N", bench_options_read_number, AT(n_shared),
     .help = "tokens that all prompts begin with (0)"},
    {"seed", "N", bench_options_read_seed, AT(seed),
     .help = "repeats prompts and gaps (default: from the clock)"},
    {"prompt-tokens", "N", bench_options_read_count, AT(prompt_tokens),
     .help = "of each prompt, by the server's count"},
    {"max-tokens", "N", bench_options_read_count, AT(max_tokens), .help = "of each answer"},
    {"warmup", "S", bench_options_read_real, AT(warmup_s),
     .help = "seconds at a level's begin that are not measured"},
    {"duration", "S", bench_options_read_real, AT(duration_s), .help = "seconds of a level"},
    {"drain", "S", bench_options_read_real, AT(drain_s),
     .help = "seconds to wait for running requests at its end (30)"},
    {"timeout", "S", bench_options_read_real, AT(timeout_s), .help = "seconds for a request (600)"},
    {"silence", "S", bench_options_read_real, AT(silence_s),
     .help = "seconds without any byte of an answer (120)"},
    {"slo", "LIST", bench_options_read_slo, AT(slo),
     .help = "ttft-p99=500ms,itl-p99=50ms,e2e-p99=10s; exit code 2: not held"},
    {"compat", NULL, args_switch, AT(compat),
     .help = "requests and columns of the published programs"},
    {"generate", "KIND", bench_options_read_native, AT(native),
     .help = "with --compat: ask the server's own /generate, of vllm or tgi, as the published "
             "grids did"},
    {"quiet", NULL, args_switch, AT(is_quiet), .help = "no progress"},
    {"json", "FILE", args_path, AT(json_path), .help = "JSON; no FILE or -: standard output",
     .flags = OPTION_ARG_OPTIONAL},
    {"csv", "FILE", args_path, AT(csv_path), .help = "CSV", .flags = OPTION_ARG_OPTIONAL},
    {"markdown", "FILE", args_path, AT(markdown_path), .help = "the table",
     .flags = OPTION_ARG_OPTIONAL},
    {"html", "FILE", args_text, AT(html_path),
     .help = "one page with plots, readable without network"},
    {"records", "FILE", args_text, AT(records_path), .help = "a JSON line for each request"},
    {"profile", "NAME", args_text, AT(profile),
     .help = "load: synchronous, concurrent, throughput, constant, poisson, ramp or trace",
     .group = 1},
    {"concurrency", "N", bench_options_read_count, AT(concurrency),
     .help = "streams at once; throughput: at most (512)", .group = 1},
    {"rate", "R", bench_options_read_real, AT(rate),
     .help = "requests per second (of a ramp: at its end; of a grid's burst)", .group = 1},
    {"rate-from", "R", bench_options_read_real, AT(rate_from),
     .help = "load: of a ramp at its begin", .group = 1},
    {"requests", "N", bench_options_read_count, AT(n_requests),
     .help = "load: how many in all (32, or what --duration takes)", .group = 1},
    {"trace", "FILE", args_text, AT(trace_path),
     .help = "load: JSON lines: timestamp, input_length, output_length, hash_ids", .group = 1},
    {"input-lengths", "LIST", bench_options_read_lengths, AT(inputs),
     .help = "grid: tokens (128,512,1024,2048)", .group = 2},
    {"output-lengths", "LIST", bench_options_read_lengths, AT(outputs),
     .help = "grid: tokens (as input)", .group = 2},
    {"obo-num", "N", bench_options_read_count, AT(n_alone),
     .help = "grid: requests one by one (10)", .group = 2},
    {"num-prompts", "N", bench_options_read_count, AT(n_prompts),
     .help = "grid: requests of the burst (399)", .group = 2},
    {"levels", "N", bench_options_read_count, AT(n_levels),
     .help = "sweep: rates above synchronous (9)", .group = 3},
    {"poisson", NULL, args_switch, AT(is_poisson),
     .help = "sweep: Poisson gaps in place of even ones", .group = 3},
    {0}};
#undef AT

static uint64_t bench_options_to_number(const struct args_given *given, const char *text,
                                        unsigned low) {
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < low || value > 10000000)
        argp_error(given->state, "--%s: \"%s\" is not a number from %u to 10000000",
                   given->row->name, text, low);
    return value;
}

static void bench_options_read_number(const struct args_given *given) {
    *(uint32_t *)given->at = (uint32_t)bench_options_to_number(given, given->text, 0);
}

static void bench_options_read_count(const struct args_given *given) {
    *(uint32_t *)given->at = (uint32_t)bench_options_to_number(given, given->text, 1);
}

static void bench_options_read_seed(const struct args_given *given) {
    *(uint64_t *)given->at = bench_options_to_number(given, given->text, 0);
}

static void bench_options_read_real(const struct args_given *given) {
    char *end = NULL;
    double value = strtod(given->text, &end);
    if (end == given->text || *end || !(value >= 0 && value < 1e6))
        argp_error(given->state, "--%s: \"%s\" is not a positive number", given->row->name,
                   given->text);
    *(double *)given->at = value;
}

/* Fills the rest of the member with zeros: they are none. */
static void bench_options_read_lengths(const struct args_given *given) {
    uint32_t *values = given->at, n = 0;
    char *save = NULL;
    memset(values, 0, LENGTHS_MAX * sizeof *values);
    for (char *item = strtok_r(given->text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (n == LENGTHS_MAX)
            argp_error(given->state, "--%s: more than %u lengths", given->row->name, LENGTHS_MAX);
        else
            values[n++] = (uint32_t)bench_options_to_number(given, item, 1);
    }
    if (n == 0)
        argp_error(given->state, "--%s: contains no length", given->row->name);
}

/* "ttft-p99=500ms,itl-p99=50ms,e2e-p99=10s" */
static void bench_options_read_slo(const struct args_given *given) {
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
                       given->row->name, item);
        else
            *wanted = (uint64_t)(time * unit);
    }
}

static void bench_options_read_native(const struct args_given *given) {
    if (strcmp(given->text, "vllm") == 0)
        *(enum native *)given->at = NATIVE_VLLM;
    else if (strcmp(given->text, "tgi") == 0)
        *(enum native *)given->at = NATIVE_TGI;
    else
        argp_error(given->state, "--%s: \"%s\" is not vllm or tgi", given->row->name, given->text);
}

static void bench_options_read_source(const struct args_given *given) {
    static const char *const names[] = {"words", "texts", "ids"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(given->text, names[i]) == 0) {
            *(enum source *)given->at = (enum source)i;
            return;
        }
    argp_error(given->state, "--%s: \"%s\" is not words, texts or ids", given->row->name,
               given->text);
}

/* Texts are given to make prompts of them. */
static void bench_options_read_texts(const struct args_given *given) {
    struct bench_options *bench = given->into;
    bench->source = SOURCE_TEXTS;
    args_text(given);
}

static void bench_options_read_target(const struct args_given *given) {
    struct bench_options *bench = given->into;
    const char **targets = given->at;
    if (bench->n_urls == TARGETS_MAX)
        argp_error(given->state, "--%s: more than %d", given->row->name, TARGETS_MAX);
    else
        targets[bench->n_urls++] = given->text;
}

static uint32_t bench_options_count_lengths(const uint32_t lengths[LENGTHS_MAX]) {
    uint32_t n = 0;
    while (n < LENGTHS_MAX && lengths[n] > 0)
        n++;
    return n;
}

/* argp takes a value that may be left out only behind "="; here a blank will do as well: the two words are made one. The
 * strings that are made last as long as the program. */
static int bench_options_join_values(int argc, char **argv) {
    int n = 0;
    for (int i = 0; i < argc; i++, n++) {
        const struct args_row *row = options;
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        argv[n] = argv[i];
        while (row->read && !(row->flags & OPTION_ARG_OPTIONAL && strncmp(argv[i], "--", 2) == 0 &&
                              strcmp(argv[i] + 2, row->name) == 0))
            row++;
        char *joined;
        if (row->read && next && (next[0] != '-' || !next[1]) &&
            asprintf(&joined, "%s=%s", argv[i], next) > 0) {
            argv[n] = joined;
            i++;
        }
    }
    argv[n] = NULL;
    return n;
}

enum status options_read(struct bench_options *bench, const char *about, int argc, char **argv,
                         struct error *error) {
    const struct args args = {
        "", about,
        .parts = {{options, 0}, {http_trust_rows, offsetof(struct bench_options, trust)}}};
    bench->drain_s = 30;
    bench->timeout_s = 600;
    bench->silence_s = 120;
    bench->n_vocabulary = 32000;
    args_parse(&args, bench_options_join_values(argc, argv), argv, bench);
    bench->n_inputs = bench_options_count_lengths(bench->inputs);
    bench->n_outputs = bench_options_count_lengths(bench->outputs);
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
