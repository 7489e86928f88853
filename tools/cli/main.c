/* tools/cli/main.c: `tandem COMMAND ...` */
#include "tools/cli/batch.h"
#include "tools/cli/chat/chat.h"
#include "tools/cli/doctor/doctor.h"
#include "tools/cli/keys.h"
#include "tools/cli/model/model.h"
#include "tools/cli/status.h"
#include "tools/cli/top/top.h"
#include "tools/cli/up/up.h"

#include "base/exit.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"up", up_command, "a whole cluster in the foreground: router, prefill and decode workers"},
    {"chat", chat_command, "ask a running server, the answer streamed"},
    {"batch", batch_command, "answer a file of requests, a line each"},
    {"status", status_command, "routers and workers of a running server [--json]"},
    {"top", top_command, "a live view of a running server, on a terminal or as lines"},
    {"drain", status_drain_command, "ask a worker to finish its work and take no more"},
    {"kill", status_kill_command,
     "kill a worker of `tandem up`, to see its answers go on elsewhere"},
    {"doctor", doctor_command, "look at all that a start needs, and say how to mend what is wrong"},
    {"keys", keys_command, "make the cluster's CURVE keys in a folder"},
    {"model", model_command,
     "what is in a model: info, tokenize, detokenize, render, export-tokenizer"},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void tandem_print_help(FILE *out) {
    fprintf(out, "usage: tandem COMMAND [OPTION...]\n\n");
    for (unsigned i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`tandem COMMAND --help` tells more; `tandem --version` the version.\n");
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    exit_checks_stdout();
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
        tandem_print_help(stdout);
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
    tandem_print_help(stderr);
    return name[0] ? exit_fail(EXIT_CONFIG, "unknown command \"%s\"", name) : EXIT_CONFIG;
}
