#include "tools/cli/cli.h"

#include "tools/model_export.h"
#include "tools/model_info.h"
#include "tools/model_render.h"
#include "tools/model_tokenize.h"

#include "base/exit.h"
#include "base/file.h"
#include "model/model.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { KEY_NO_SPECIAL = 256, KEY_PARSE_SPECIAL, KEY_SKIP_SPECIAL, KEY_JSON, KEY_LOAD_FORMAT };

struct arguments {
    const char *at[2];    /* a path; where to export to */
    unsigned n, n_wanted; /* of `at` */
    unsigned flags;
    bool skip_special;
    bool json;
    bool dummy;
};

struct command {
    const char *name;
    unsigned n_wanted;                /* arguments */
    const char *takes;                /* the same, as its usage line says */
    const char *about;                /* what it does */
    const char *missing;              /* asked where an argument is not given */
    const struct argp_option *option; /* ends with {0} */
    int (*run)(const struct arguments *arguments);
};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_NO_SPECIAL:
        arguments->flags &= ~(unsigned)TOKENIZER_ADD_BOS;
        return 0;
    case KEY_PARSE_SPECIAL:
        arguments->flags |= TOKENIZER_PARSE_SPECIAL;
        return 0;
    case KEY_SKIP_SPECIAL:
        arguments->skip_special = true;
        return 0;
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_LOAD_FORMAT:
        arguments->dummy = strcmp(text, "dummy") == 0;
        if (!arguments->dummy && strcmp(text, "auto") != 0)
            argp_error(state, "--load-format is auto or dummy");
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->n == arguments->n_wanted)
            return ARGP_ERR_UNKNOWN;
        arguments->at[arguments->n++] = text;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int info(const struct arguments *arguments) {
    struct model *model = NULL;
    struct error error;
    struct model_options how = {.dummy = arguments->dummy, .any_tokenizer = true};
    if (model_open(arguments->at[0], &how, &model, &error) != STATUS_OK)
        return cli_fail(EXIT_CONFIG, "%s", error.text);
    model_info_print(model, arguments->json, stdout);
    model_close(model);
    return 0;
}

static int tokenize(const struct arguments *arguments) {
    return model_tokenize(arguments->at[0], arguments->flags, stdin, stdout);
}

static int detokenize(const struct arguments *arguments) {
    return model_detokenize(arguments->at[0], arguments->skip_special, stdin, stdout);
}

static int render(const struct arguments *arguments) {
    return model_render(arguments->at[0], stdin, stdout);
}

static int export_tokenizer(const struct arguments *arguments) {
    return model_export(arguments->at[0], arguments->at[1]);
}

static const struct argp_option info_options[] = {
    {"json", KEY_JSON, NULL, 0, "one JSON object", 0},
    {"load-format", KEY_LOAD_FORMAT, "NAME", 0, "auto, or dummy: a config.json is enough", 0},
    {0}};
static const struct argp_option tokenize_options[] = {
    {"no-special", KEY_NO_SPECIAL, NULL, 0, "do not add the tokens that the model adds", 0},
    {"parse-special", KEY_PARSE_SPECIAL, NULL, 0, "special tokens in the text are tokens", 0},
    {0}};
static const struct argp_option detokenize_options[] = {
    {"skip-special", KEY_SKIP_SPECIAL, NULL, 0, "special tokens write nothing", 0}, {0}};

static const struct command commands[] = {
    {"info", 1, "MODEL", "What is in a model's files.", "which model?", info_options, info},
    {"tokenize", 1, "MODEL",
     "Standard input: JSON strings, one a line. Standard output: their ids, a JSON array a line.",
     "which model?", tokenize_options, tokenize},
    {"detokenize", 1, "MODEL",
     "Standard input: lists of token ids, JSON, one a line. Standard output: their texts, a JSON "
     "string a line.",
     "which model?", detokenize_options, detokenize},
    {"render", 1, "MODEL_OR_TEMPLATE",
     "Standard input: chat requests, JSON, one a line. Standard output: their prompts, a JSON "
     "string a line.",
     "which model or template?", NULL, render},
    {"export-tokenizer", 2, "MODEL DIR",
     "Writes tokenizer.json and tokenizer_config.json into DIR, for tools that want a Hugging Face "
     "tokenizer.",
     "which model, into which folder?", NULL, export_tokenizer},
};

static int run(const struct command *command, int argc, char **argv) {
    const struct argp argp = {
        command->option, parse, command->takes, command->about, NULL, NULL, NULL};
    struct arguments arguments = {.n_wanted = command->n_wanted, .flags = TOKENIZER_ADD_BOS};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (arguments.n < command->n_wanted)
        return cli_fail(EXIT_CONFIG, "%s", command->missing);
    return command->run(&arguments);
}

int cli_model(int argc, char **argv) {
    static const char usage[] =
        "usage: tandem model info MODEL [--json] [--load-format auto|dummy]\n"
        "       tandem model tokenize MODEL [--no-special] [--parse-special]\n"
        "       tandem model detokenize MODEL [--skip-special]\n"
        "       tandem model render MODEL_OR_TEMPLATE\n"
        "       tandem model export-tokenizer MODEL DIR\n";
    const char *name = argc > 1 ? argv[1] : "";
    char program[64]; /* as its usage lines name it */
    snprintf(program, sizeof program, "tandem model %s", name);
    if (argc > 1)
        argv[1] = program;
    argp_err_exit_status = EXIT_CONFIG;
    file_guard(argc > 2 ? argv[argc - 1] : "model");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return run(&commands[i], argc - 1, argv + 1);
    fputs(usage, strcmp(name, "--help") == 0 ? stdout : stderr);
    return strcmp(name, "--help") == 0 ? 0 : EXIT_CONFIG;
}
