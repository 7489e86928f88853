#include "tools/cli/model/model.h"

#include "tools/lib/args.h"

#include "tools/cli/model/model_export.h"
#include "tools/cli/model/model_info.h"
#include "tools/cli/model/model_render.h"
#include "tools/cli/model/model_tokenize.h"

#include "base/exit.h"
#include "base/file.h"
#include "model/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct model_arguments {
    const char *at[2]; /* a path; where to export to */
    bool no_special, parse_special, skip_special;
    bool json;
    bool dummy;
};

struct model_subcommand {
    const char *name;
    unsigned n_wanted;   /* arguments */
    const char *takes;   /* the same, as its usage line says */
    const char *about;   /* what it does */
    const char *missing; /* asked where an argument is not given */
    const struct args_row *rows;
    int (*run)(const struct model_arguments *arguments);
};

static void tandem_model_read_load_format(const struct args_given *given) {
    bool *dummy = given->at;
    *dummy = strcmp(given->text, "dummy") == 0;
    if (!*dummy && strcmp(given->text, "auto") != 0)
        argp_error(given->state, "--load-format is auto or dummy");
}

static int tandem_model_info(const struct model_arguments *arguments) {
    struct model *model = NULL;
    struct error error;
    struct model_options how = {.dummy = arguments->dummy, .any_tokenizer = true};
    if (span_ends(span_of(arguments->at[0]), ".jinja"))
        return model_render_about(arguments->at[0], stdout);
    if (model_open(arguments->at[0], &how, &model, &error) != STATUS_OK)
        return exit_fail(EXIT_CONFIG, "%s", error.text);
    enum status status = model_check_tensors(model, &error);
    if (status == STATUS_OK)
        model_info_print(model, arguments->json, stdout);
    model_close(model);
    return status == STATUS_OK ? 0 : exit_fail(EXIT_CONFIG, "%s", error.text);
}

static int tandem_model_tokenize(const struct model_arguments *arguments) {
    unsigned flags = (arguments->no_special ? 0 : TOKENIZER_ADD_BOS) |
                     (arguments->parse_special ? TOKENIZER_PARSE_SPECIAL : 0);
    return model_tokenize(arguments->at[0], flags, stdin, stdout);
}

static int tandem_model_detokenize(const struct model_arguments *arguments) {
    return model_detokenize(arguments->at[0], arguments->skip_special, stdin, stdout);
}

static int tandem_model_render_model(const struct model_arguments *arguments) {
    return model_render(arguments->at[0], stdin, stdout);
}

static int tandem_model_export_tokenizer(const struct model_arguments *arguments) {
    return model_export(arguments->at[0], arguments->at[1]);
}

#define AT(member) offsetof(struct model_arguments, member)
#define PATH                                                                                       \
    { NULL, "MODEL", args_text, .at = AT(at[0]) }
static const struct args_row info_rows[] = {
    PATH,
    {"json", NULL, args_switch, AT(json), .help = "one JSON object"},
    {"load-format", "NAME", tandem_model_read_load_format, AT(dummy),
     .help = "auto, or dummy: a config.json is enough"},
    {0}};
static const struct args_row tokenize_rows[] = {
    PATH,
    {"no-special", NULL, args_switch, AT(no_special),
     .help = "do not add the tokens that the model adds"},
    {"parse-special", NULL, args_switch, AT(parse_special),
     .help = "special tokens in the text are tokens"},
    {0}};
static const struct args_row detokenize_rows[] = {
    PATH,
    {"skip-special", NULL, args_switch, AT(skip_special), .help = "special tokens write nothing"},
    {0}};
static const struct args_row render_rows[] = {PATH, {0}};
static const struct args_row export_rows[] = {PATH, {NULL, "DIR", args_text, .at = AT(at[1])}, {0}};

static const struct model_subcommand commands[] = {
    {"info", 1, "MODEL", "What is in a model's files.", "which model?", info_rows,
     tandem_model_info},
    {"tokenize", 1, "MODEL",
     "Standard input: JSON strings, one a line. Standard output: their ids, a JSON array a line.",
     "which model?", tokenize_rows, tandem_model_tokenize},
    {"detokenize", 1, "MODEL",
     "Standard input: lists of token ids, JSON, one a line. Standard output: their texts, a JSON "
     "string a line.",
     "which model?", detokenize_rows, tandem_model_detokenize},
    {"render", 1, "MODEL_OR_TEMPLATE",
     "Standard input: chat requests, JSON, one a line. Standard output: their prompts, a JSON "
     "string a line.",
     "which model or template?", render_rows, tandem_model_render_model},
    {"export-tokenizer", 2, "MODEL DIR",
     "Writes tokenizer.json and tokenizer_config.json into DIR, for tools that want a Hugging Face "
     "tokenizer.",
     "which model, into which folder?", export_rows, tandem_model_export_tokenizer},
};

static int model_run(const struct model_subcommand *command, int argc, char **argv) {
    const struct args args = {command->takes, command->about, .parts = {{command->rows, 0}}};
    struct model_arguments arguments = {0};
    args_parse(&args, argc, argv, &arguments);
    if (!arguments.at[command->n_wanted - 1])
        return exit_fail(EXIT_CONFIG, "%s", command->missing);
    return command->run(&arguments);
}

int model_command(int argc, char **argv) {
    static const char usage[] =
        "usage: tandem model info MODEL [--json] [--load-format auto|dummy]\n"
        "       tandem model info TEMPLATE.jinja\n"
        "       tandem model tokenize MODEL [--no-special] [--parse-special]\n"
        "       tandem model detokenize MODEL [--skip-special]\n"
        "       tandem model render MODEL_OR_TEMPLATE\n"
        "       tandem model export-tokenizer MODEL DIR\n";
    const char *name = argc > 1 ? argv[1] : "";
    char program[64]; /* as its usage lines name it */
    snprintf(program, sizeof program, "tandem model %s", name);
    if (argc > 1)
        argv[1] = program;
    file_guard(argc > 2 ? argv[argc - 1] : "model");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return model_run(&commands[i], argc - 1, argv + 1);
    fputs(usage, strcmp(name, "--help") == 0 ? stdout : stderr);
    return strcmp(name, "--help") == 0 ? 0 : EXIT_CONFIG;
}
