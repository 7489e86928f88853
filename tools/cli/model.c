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
    const char *path;
    const char *folder;
    unsigned flags;
    bool skip_special;
    bool json;
    bool dummy;
};

static error_t parse_path(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    if (key != ARGP_KEY_ARG || arguments->path)
        return ARGP_ERR_UNKNOWN;
    arguments->path = text;
    return 0;
}

static error_t parse_tokenize(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_NO_SPECIAL:
        arguments->flags &= ~(unsigned)TOKENIZER_ADD_BOS;
        return 0;
    case KEY_PARSE_SPECIAL:
        arguments->flags |= TOKENIZER_PARSE_SPECIAL;
        return 0;
    default:
        return parse_path(key, text, state);
    }
}

static error_t parse_info(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case KEY_JSON:
        arguments->json = true;
        return 0;
    case KEY_LOAD_FORMAT:
        arguments->dummy = strcmp(text, "dummy") == 0;
        if (!arguments->dummy && strcmp(text, "auto") != 0)
            argp_error(state, "--load-format is auto or dummy");
        return 0;
    default:
        return parse_path(key, text, state);
    }
}

static int info(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", KEY_JSON, NULL, 0, "one JSON object", 0},
        {"load-format", KEY_LOAD_FORMAT, "NAME", 0, "auto, or dummy: a config.json is enough", 0},
        {0}};
    static const struct argp argp = {options, parse_info, "MODEL", "What is in a model's files.",
                                     NULL,    NULL,       NULL};
    struct arguments arguments = {0};
    struct model *model = NULL;
    struct error error;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (!arguments.path)
        return cli_fail(EXIT_CONFIG, "which model?");
    struct model_options how = {.dummy = arguments.dummy, .any_tokenizer = true};
    if (model_open(arguments.path, &how, &model, &error) != STATUS_OK)
        return cli_fail(EXIT_CONFIG, "%s", error.text);
    model_info_print(model, arguments.json, stdout);
    model_close(model);
    return 0;
}

static int tokenize(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"no-special", KEY_NO_SPECIAL, NULL, 0, "do not add the tokens that the model adds", 0},
        {"parse-special", KEY_PARSE_SPECIAL, NULL, 0, "special tokens in the text are tokens", 0},
        {0}};
    static const struct argp argp = {options,
                                     parse_tokenize,
                                     "MODEL",
                                     "Standard input: JSON strings, one a line. Standard output: "
                                     "their ids, a JSON array a line.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {.flags = TOKENIZER_ADD_BOS};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (!arguments.path)
        return cli_fail(EXIT_CONFIG, "which model?");
    return model_tokenize(arguments.path, arguments.flags, stdin, stdout);
}

static error_t parse_detokenize(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    if (key != KEY_SKIP_SPECIAL)
        return parse_path(key, text, state);
    arguments->skip_special = true;
    return 0;
}

static int detokenize(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"skip-special", KEY_SKIP_SPECIAL, NULL, 0, "special tokens write nothing", 0}, {0}};
    static const struct argp argp = {options,
                                     parse_detokenize,
                                     "MODEL",
                                     "Standard input: lists of token ids, JSON, one a line. "
                                     "Standard output: their texts, a JSON string a line.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (!arguments.path)
        return cli_fail(EXIT_CONFIG, "which model?");
    return model_detokenize(arguments.path, arguments.skip_special, stdin, stdout);
}

static int render(int argc, char **argv) {
    static const struct argp argp = {NULL,
                                     parse_path,
                                     "MODEL_OR_TEMPLATE",
                                     "Standard input: chat requests, JSON, one a line. Standard "
                                     "output: their prompts, a JSON string a line.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (!arguments.path)
        return cli_fail(EXIT_CONFIG, "which model or template?");
    return model_render(arguments.path, stdin, stdout);
}

static error_t parse_export(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    if (key != ARGP_KEY_ARG || !arguments->path || arguments->folder)
        return parse_path(key, text, state);
    arguments->folder = text;
    return 0;
}

static int export_tokenizer(int argc, char **argv) {
    static const struct argp argp = {NULL,
                                     parse_export,
                                     "MODEL DIR",
                                     "Writes tokenizer.json and tokenizer_config.json into DIR, "
                                     "for tools that want a Hugging Face tokenizer.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct arguments arguments = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (!arguments.folder)
        return cli_fail(EXIT_CONFIG, "which model, into which folder?");
    return model_export(arguments.path, arguments.folder);
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
    if (strcmp(name, "info") == 0)
        return info(argc - 1, argv + 1);
    if (strcmp(name, "tokenize") == 0)
        return tokenize(argc - 1, argv + 1);
    if (strcmp(name, "detokenize") == 0)
        return detokenize(argc - 1, argv + 1);
    if (strcmp(name, "render") == 0)
        return render(argc - 1, argv + 1);
    if (strcmp(name, "export-tokenizer") == 0)
        return export_tokenizer(argc - 1, argv + 1);
    fputs(usage, strcmp(name, "--help") == 0 ? stdout : stderr);
    return strcmp(name, "--help") == 0 ? 0 : EXIT_CONFIG;
}
