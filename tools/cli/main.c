/* tools/cli/main.c: `tandem COMMAND ...` */
#include "tools/cli/cli.h"

#include "base/exit.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"up", cli_up, "a whole cluster in the foreground: router, prefill and decode workers"},
    {"chat", cli_chat, "ask a running server, the answer streamed"},
    {"status", cli_status, "routers and workers of a running server [--json]"},
    {"top", cli_top, "a live view of a running server, on a terminal or as lines"},
    {"drain", cli_drain, "ask a worker to finish its work and take no more"},
    {"doctor", cli_doctor, "look at all that a start needs, and say how to mend what is wrong"},
    {"keys", cli_keys, "make the cluster's CURVE keys in a folder"},
    {"model", cli_model,
     "what is in a model: info, tokenize, detokenize, render, export-tokenizer"},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print_help(FILE *out) {
    fprintf(out, "usage: tandem COMMAND [OPTION...]\n\n");
    for (unsigned i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`tandem COMMAND --help` tells more; `tandem --version` the version.\n");
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    exit_checks_stdout();
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("tandem %s\n", TANDEM_VERSION);
        return 0;
    }
    for (unsigned i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        char program[32]; /* as its usage lines name it */
        snprintf(program, sizeof program, "tandem %s", name);
        argv[1] = program;
        return commands[i].run(argc - 1, argv + 1);
    }
    print_help(stderr);
    return name[0] ? cli_fail(EXIT_CONFIG, "unknown command \"%s\"", name) : EXIT_CONFIG;
}
