/* tools/bench/session.h: what a command of the bench shares: its options, the server that it found,
 * the runner, and where reports go. */
#pragma once

#include "base/client/http_client.h"
#include "tools/bench/core/tables.h"
#include "tools/bench/lengths.h"
#include "tools/bench/output.h"
#include "tools/bench/runner.h"

#define TARGETS_MAX 16

struct bench_options {
    const char *targets[TARGETS_MAX];
    uint32_t n_urls;
    struct http_trust trust;
    const char *api_key; /* or NULL */
    const char *model;   /* NULL: the first that the server lists */
    bool completions;    /* /v1/completions in place of chat */
    bool is_whole;       /* answers are not streamed */
    bool keeps_eos;      /* do not ask the server to ignore the end of sequence */
    enum source source;
    enum native native;         /* with `compat` */
    const char *texts_path;     /* of SOURCE_TEXTS: text, or ShareGPT's JSON */
    const char *tokenizer_path; /* that counts tokens; NULL: the server does */
    uint32_t n_vocabulary;
    uint32_t n_shared;
    uint64_t seed;
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    double warmup_s;
    double duration_s;
    double drain_s;
    double timeout_s;
    double silence_s;
    struct slo slo;
    bool compat;
    bool is_quiet;
    const char *json_path; /* "-": standard output, in place of the table */
    const char *csv_path;
    const char *markdown_path;
    const char *html_path;
    const char *records_path;
    const char *command_line; /* as it was given, for the environment */
    /* load */
    const char *profile;
    uint32_t concurrency; /* also the cap of a sweep's throughput level */
    double rate;
    double rate_from;
    uint32_t n_requests;
    const char *trace_path;
    /* grid */
    uint32_t inputs[32];
    uint32_t n_inputs;
    uint32_t outputs[32];
    uint32_t n_outputs;
    uint32_t n_alone;
    uint32_t n_prompts;
    /* sweep */
    uint32_t n_levels; /* between synchronous and throughput */
    bool is_poisson;
};

enum { OUTPUTS_N = 4 }; /* kinds of a run's reports, records aside */

struct session {
    const struct bench_options *options;
    struct http_url urls[TARGETS_MAX]; /* owned (options->n_urls) */
    struct runner *runner;             /* owned */
    struct workload workload;
    struct lengths lengths; /* whose pieces the workload borrows */
    char *model;            /* owned */
    struct buf environment; /* JSON */
    struct output outputs[OUTPUTS_N];
    struct output records;
    bool has_lost; /* what was written of the run is not all */
    char **texts;  /* owned (n_texts): of SOURCE_TEXTS */
    uint32_t n_texts;
    uint64_t serial; /* of the next level's first prompt */
};

/* A command: opens what it will write and reads its texts, then finds the model, learns what prompts' words cost in tokens, notes the environment, and
 * lets `run` run levels and report. Answers an exit code as commands.h has them; a failure, which
 * names the option or the server, was printed. */
int session_run(const struct bench_options *options,
                enum status (*run)(struct session *session, const void *user, bool *slo_held,
                                   struct error *error),
                const void *user);

/* Runs a level and writes its records where --records wants them; where that fails the run goes on. Fills label-independent parts of
 * the spec: times, serial. On success the caller ends *level. STATUS_CLOSED: the user broke off
 * before it began. */
NODISCARD enum status session_level(struct session *session, struct level_spec *spec,
                                    struct level *level, struct error *error);

/* Prints the table and writes the files that were asked for, each, also where others fail. STATUS_CORRUPT when no request of any
 * row was completed: `error` says what the first failure was. */
NODISCARD enum status session_report(struct session *session, struct table_set *set,
                                     struct error *error);
