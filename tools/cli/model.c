#include "tools/cli/cli.h"

#include "tools/model_export.h"
#include "tools/model_render.h"
#include "tools/model_tokenize.h"

#include "base/exit.h"
#include "model/model.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

enum { KEY_NO_SPECIAL = 256, KEY_PARSE_SPECIAL };

struct arguments {
    const char *path;
    const char *folder;
    unsigned flags;
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

static uint64_t tensor_bytes(const struct model *model, uint32_t *n_tensors) {
    uint64_t sum = 0;
    const struct tensor *tensor;
    for (*n_tensors = 0; (tensor = model_nth_tensor(model, *n_tensors)); ++*n_tensors)
        sum += tensor->n_bytes;
    return sum;
}

/* "q4_1 210, f32 61": how many tensors lie in which format. */
static void print_formats(const struct model *model) {
    const char *names[32];
    uint32_t counts[32] = {0};
    unsigned n = 0;
    const struct tensor *tensor;
    for (uint32_t i = 0; (tensor = model_nth_tensor(model, i)); i++) {
        unsigned at = 0;
        while (at < n && strcmp(names[at], tensor->format) != 0)
            at++;
        if (at == n && n < sizeof names / sizeof *names)
            names[n++] = tensor->format;
        if (at < n)
            counts[at]++;
    }
    printf("formats       ");
    for (unsigned i = 0; i < n; i++)
        printf("%s%s %u", i ? ", " : "", names[i], counts[i]);
    printf("%s\n", n ? "" : "none");
}

static int info(int argc, char **argv) {
    static const struct argp argp = {NULL, parse_path, "MODEL", "What is in a model file.",
                                     NULL, NULL,       NULL};
    struct arguments arguments = {0};
    struct model *model = NULL;
    struct error error;
    uint32_t n_tensors = 0;
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (!arguments.path)
        return cli_fail(EXIT_CONFIG, "which model?");
    if (model_open(arguments.path, &model, &error) != STATUS_OK)
        return cli_fail(EXIT_CONFIG, "%s", error.text);
    const struct model_config *config = &model->config;
    uint64_t bytes = tensor_bytes(model, &n_tensors);
    uint64_t kv = 4ull * config->n_layers * config->n_kv_heads * config->head_dim;
    printf("name          %s\nfamily        %s\n", config->name, config->family);
    printf("layers        %u\nwidth         %u\nheads         %u, kv %u, %u wide\n",
           config->n_layers, config->dim, config->n_heads, config->n_kv_heads, config->head_dim);
    printf("feed-forward  %u\nvocabulary    %u\ncontext       %u\n", config->ffn_dim,
           config->n_vocab, config->context);
    printf("rope          %s, %u of %u dimensions, base %g\n",
           config->rope.layout == CONFIG_ROPE_NONE          ? "none"
           : config->rope.layout == CONFIG_ROPE_INTERLEAVED ? "interleaved"
                                                            : "half-split",
           config->rope.dims, config->head_dim, config->rope.theta);
    printf("head          %s\n", config->tied_head ? "tied to the embedding" : "its own");
    printf("tensors       %u, %.1f MiB\n", n_tensors, (double)bytes / (1 << 20));
    print_formats(model);
    printf("tokenizer     %s\n", model->tokenizer->kind->name);
    printf("template      %s\n", model->template.kind         ? model->template.kind->name
                                 : model->template.refusal[0] ? model->template.refusal
                                                              : "none");
    printf("kv per token  %llu bytes\n", (unsigned long long)kv);
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
        "usage: tandem model info MODEL\n"
        "       tandem model tokenize MODEL [--no-special] [--parse-special]\n"
        "       tandem model render MODEL_OR_TEMPLATE\n"
        "       tandem model export-tokenizer MODEL DIR\n";
    const char *name = argc > 1 ? argv[1] : "";
    char program[64]; /* as its usage lines name it */
    snprintf(program, sizeof program, "tandem model %s", name);
    if (argc > 1)
        argv[1] = program;
    argp_err_exit_status = EXIT_CONFIG;
    if (strcmp(name, "info") == 0)
        return info(argc - 1, argv + 1);
    if (strcmp(name, "tokenize") == 0)
        return tokenize(argc - 1, argv + 1);
    if (strcmp(name, "render") == 0)
        return render(argc - 1, argv + 1);
    if (strcmp(name, "export-tokenizer") == 0)
        return export_tokenizer(argc - 1, argv + 1);
    fputs(usage, strcmp(name, "--help") == 0 ? stdout : stderr);
    return strcmp(name, "--help") == 0 ? 0 : EXIT_CONFIG;
}
