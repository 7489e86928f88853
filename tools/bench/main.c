/* tools/bench/main.c: `tandem-bench COMMAND ...`: measures OpenAI-style servers. */
#include "tools/bench/commands.h"

#include "base/clock.h"
#include "base/exit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_command {
    const char *name;
    const char *about;
    int (*run)(struct bench_options *options);
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

/* Commands that ask no server. */
static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} offline[] = {
    {"rows", "the published tables, and what a model of time gives for them", rows_command},
};

/* The command line as one line, without the key. */
static char *bench_join_values(int argc, char **argv) {
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

static int bench_run_command(const struct bench_command *command, int argc, char **argv) {
    struct bench_options bench = command->defaults;
    struct error error;
    char *line = bench_join_values(argc, argv);
    bench.api_key = getenv("OPENAI_API_KEY");
    bench.seed = clock_unix_ns() / NS_PER_MS;
    bench.command_line = line ? line : "";
    int code = options_read(&bench, command->about, argc, argv, &error) == STATUS_OK
                   ? command->run(&bench)
                   : exit_with(EXIT_CONFIG, error.text);
    free(line);
    return code;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    bool is_help = strcmp(name, "--help") == 0;
    char program[64];
    exit_checks_stdout();
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0) {
            snprintf(program, sizeof program, "tandem-bench %s", name); /* for its usage lines */
            argv[1] = program;
            return bench_run_command(&commands[i], argc - 1, argv + 1);
        }
    for (unsigned i = 0; i < sizeof offline / sizeof *offline; i++)
        if (strcmp(name, offline[i].name) == 0) {
            snprintf(program, sizeof program, "tandem-bench %s", name);
            argv[1] = program;
            return offline[i].run(argc - 1, argv + 1);
        }
    if (strcmp(name, "--version") == 0) {
        printf("tandem-bench %s\n", TANDEM_VERSION);
        return 0;
    }
    bool is_compare = strcmp(name, "compare") == 0;
    if (is_compare && argc == 3 && strcmp(argv[2], "--help") == 0) {
        printf("usage: tandem-bench compare FILE|TABLE/SYSTEM ...\n\n"
               "Puts runs (--json of a load, grid or sweep) and published tables\n"
               "(mistral-7b-awq/vllm) side by side, with ratios to the first.\n");
        return EXIT_SUCCESS;
    }
    if (is_compare && argc > 2)
        return compare_command(argv + 2, argc - 2);
    FILE *out = is_help ? stdout : stderr;
    fputs("usage: tandem-bench COMMAND [OPTION...]\n\n", out);
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].about);
    for (unsigned i = 0; i < sizeof offline / sizeof *offline; i++)
        fprintf(out, "  %-8s %s\n", offline[i].name, offline[i].about);
    fputs("  compare  runs (--json) and published tables side by side: compare FILE|TABLE/SYSTEM "
          "...\n"
          "\n`tandem-bench COMMAND --help` tells more.\n",
          out);
    return is_help ? 0 : EXIT_CONFIG;
}
