#include "base/options/options.h"

#include "base/assert.h"
#include "base/exit.h"
#include "base/options/options_internal.h"

#include <argp.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_KEY  0x1000 /* argp's keys of our flags begin here, past all short flags */
#define PRINT_KEY 0x0fff
#define CHECK_KEY 0x0ffe

static error_t options_on_flag(int key, char *arg, struct argp_state *state) {
    struct options *options = state->input;
    if (key == PRINT_KEY) {
        options->prints = true;
        return 0;
    }
    if (key == CHECK_KEY) {
        options->checks = true;
        return 0;
    }
    if (key < FLAG_KEY || key > FLAG_KEY + (int)options->program->n_options)
        return ARGP_ERR_UNKNOWN;
    unsigned at = (unsigned)(key - FLAG_KEY);
    char where[80];
    snprintf(where, sizeof where, "--%s", options_spec(options, at)->name);
    options_set(options, at, RANK_FLAG, arg ? arg : "yes", where);
    return 0;
}

static const char *options_value_name(const struct option_spec *option) {
    static const char *const by_type[] = {"TEXT", "N",    "yes|no", "SIZE",
                                          "TIME", "WORD", "WORD",   "LIST"};
    return option->value ? option->value : by_type[option->type];
}

/* The help line with the choices and the default behind it. NULL when memory is out. */
static char *options_help_text(const struct option_spec *option) {
    struct buf text;
    buf_init(&text, 0);
    options_put_help(option, &text);
    if (option->fallback && option->fallback[0])
        buf_printf(&text, " (default: %s)", option->fallback);
    return buf_take(&text);
}

static bool options_read_flags(struct options *options, int argc, char **argv) {
    const struct options_program *program = options->program;
    unsigned n = program->n_options + 1;
    struct argp_option *flags = calloc(n + 3, sizeof *flags);
    bool ok = flags != NULL;
    for (unsigned i = 0; ok && i < n; i++) {
        const struct option_spec *option = options_spec(options, i);
        flags[i] = (struct argp_option){.name = option->name,
                                        .key = FLAG_KEY + (int)i,
                                        .arg = options_value_name(option),
                                        .doc = options_help_text(option)};
        flags[i].flags = option->type == OPTION_BOOL ? OPTION_ARG_OPTIONAL : 0;
        ok = flags[i].doc != NULL;
    }
    if (ok && program->section) {
        flags[n] = (struct argp_option){
            .name = "print-config",
            .key = PRINT_KEY,
            .doc = "Print all options of the file with their present values and exit"};
        flags[n + 1] = (struct argp_option){
            .name = "check-config",
            .key = CHECK_KEY,
            .doc = "Check the configuration and exit; the status is 0 if it is valid"};
    }
    if (ok) {
        struct argp argp = {.options = flags, .parser = options_on_flag, .doc = program->doc};
        static char version[80]; /* argp keeps the pointer */
        const char *build = program->build ? program->build() : NULL;
        snprintf(version, sizeof version, "%s %s%s%s%s", program->name, TANDEM_VERSION,
                 build ? " (" : "", build ? build : "", build ? ")" : "");
        argp_program_version = version;
        argp_err_exit_status = EXIT_CONFIG;
        ok = argp_parse(&argp, argc, argv, 0, NULL, options) == 0;
    }
    for (unsigned i = 0; flags && i < n; i++)
        free((char *)flags[i].doc);
    free(flags);
    return ok;
}

static void options_read_environment(struct options *options) {
    for (unsigned i = 0; i <= options->program->n_options; i++) {
        char name[80];
        snprintf(name, sizeof name, "TANDEM_%s", options_spec(options, i)->name);
        for (char *at = name; *at; at++)
            *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
        const char *text = getenv(name);
        if (text && *text)
            options_set(options, i, RANK_ENVIRONMENT, text, name);
    }
}

/* Sets the field that the option goes into. */
static void options_put_field(const struct option_spec *option, const struct options_value *value,
                              char *config) {
    const char *text = value->text ? value->text : "";
    struct option_list list = {(const char *const *)value->list, value->n_list};
    uint32_t number = (uint32_t)value->number;
    size_t n_bytes = (size_t)value->number;
    bool yes = value->number != 0;
    char *field = config + option->at;
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_WORD:
        memcpy(field, &text, sizeof text);
        break;
    case OPTION_UINT:
    case OPTION_CHOICE: /* enums are as wide */
        ASSERT(value->number <= UINT32_MAX);
        memcpy(field, &number, sizeof number);
        break;
    case OPTION_SIZE:
        memcpy(field, &n_bytes, sizeof n_bytes);
        break;
    case OPTION_DURATION:
        memcpy(field, &value->number, sizeof value->number);
        break;
    case OPTION_BOOL:
        memcpy(field, &yes, sizeof yes);
        break;
    case OPTION_LIST:
        memcpy(field, &list, sizeof list);
        break;
    }
}

static _Noreturn void options_print_and_end(const struct options *options) {
    struct buf text;
    buf_init(&text, 0);
    options_print(options, &text);
    bool ok = buf_status(&text) == STATUS_OK && fwrite(text.data, 1, text.n, stdout) == text.n &&
              fflush(stdout) == 0;
    exit(ok ? 0 : 1);
}

enum status options_new(const struct options_program *program, int argc, char **argv, void *config,
                        struct options **out, struct buf *errors) {
    ASSERT(program->n_options <= OPTIONS_MAX);
    struct options *options = calloc(1, sizeof *options);
    if (!options)
        return STATUS_NOMEM;
    options->program = program;
    options->errors = errors;
    options->values = calloc(program->n_options + 1, sizeof *options->values);
    if (!options->values || !options_read_flags(options, argc, argv)) {
        options_free(options);
        return STATUS_NOMEM;
    }
    options_read_environment(options);
    const char *path = options->values[program->n_options].text;
    if (path && *path)
        options_read_file(options, path);
    for (unsigned i = 0; i < program->n_options; i++)
        if (program->table[i].fallback)
            options_set(options, i, RANK_DEFAULT, program->table[i].fallback, "default");
    options->errors = NULL;
    if (errors->n > 0 || buf_status(errors) != STATUS_OK) {
        options_free(options);
        return STATUS_INVALID;
    }
    if (options->prints)
        options_print_and_end(options);
    for (unsigned i = 0; i < program->n_options; i++)
        options_put_field(&program->table[i], &options->values[i], config);
    *out = options;
    return STATUS_OK;
}

bool options_lack_instance(const struct options *options) {
    return options->lacks_instance;
}

bool options_only_checks(const struct options *options) {
    return options->checks;
}

void options_free(struct options *options) {
    if (!options)
        return;
    for (unsigned i = 0; options->values && i <= options->program->n_options; i++)
        options_drop(&options->values[i]);
    free(options->values);
    free(options);
}

static const struct options_value *options_find_row(const struct options *options,
                                                    const char *name) {
    for (unsigned i = 0; i <= options->program->n_options; i++)
        if (strcmp(options_spec(options, i)->name, name) == 0)
            return &options->values[i];
    ASSERT(!"an option of the table");
    return NULL;
}

const char *options_source(const struct options *options, const char *name) {
    const struct options_value *value = options_find_row(options, name);
    return value->where ? value->where : "default";
}

void options_complain(const struct options *options, const char *name, const char *what,
                      struct buf *errors) {
    const struct options_value *value = options_find_row(options, name);
    if (value->rank > RANK_DEFAULT)
        options_begin_error(errors, value->where, name);
    else
        buf_printf(errors, "--%s: ", name);
    buf_printf(errors, "%s\n", what);
}
