#include "base/options.h"

#include "base/assert.h"
#include "base/exit.h"
#include "base/options_internal.h"

#include <argp.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_KEY 0x1000 /* argp's keys of our flags begin here, past all short flags */

static const struct option_spec config_option = {.name = "config",
                                                 .type = OPTION_STRING,
                                                 .value = "FILE",
                                                 .help = "INI file to read (see tandem.ini(5))"};

/* The last value is that of --config, which no table lists. */
static const struct option_spec *option_at(const struct options *options, unsigned at) {
    return at < options->program->n_options ? &options->program->table[at] : &config_option;
}

static void drop_value(struct options_value *value) {
    for (unsigned i = 0; i < value->n_list; i++)
        free(value->list[i]);
    free(value->list);
    free(value->text);
    free(value->where);
    *value = (struct options_value){0};
}

static bool add_to_list(struct options_value *value, const char *text, size_t n) {
    if (value->n_list == OPTIONS_LIST_MAX)
        return false;
    char **list = realloc(value->list, (value->n_list + 1) * sizeof *list);
    if (!list)
        return false;
    value->list = list;
    list[value->n_list] = strndup(text, n);
    if (!list[value->n_list])
        return false;
    value->n_list++;
    return true;
}

static bool split_list(struct options_value *value, const char *text) {
    while (*text) {
        text += strspn(text, ", \t");
        size_t n = strcspn(text, ",");
        size_t kept = n;
        while (kept > 0 && (text[kept - 1] == ' ' || text[kept - 1] == '\t'))
            kept--;
        if (kept > 0 && !add_to_list(value, text, kept))
            return false;
        text += n;
    }
    return true;
}

/* A bound as one would write it, for the error line. */
static const char *bound_text(const struct option_spec *option, uint64_t bound, char *out,
                              size_t size) {
    if (option->type == OPTION_DURATION)
        snprintf(out, size, "%g s", (double)bound / 1e9);
    else
        snprintf(out, size, "%llu", (unsigned long long)bound);
    return out;
}

static bool in_bounds(struct options *options, const struct option_spec *option, uint64_t number,
                      const char *text, const char *where) {
    char least[40], most[40];
    bool numeric = option->type == OPTION_UINT || option->type == OPTION_SIZE ||
                   option->type == OPTION_DURATION;
    if (!numeric || (number >= option->min && (option->max == 0 || number <= option->max)))
        return true;
    bound_text(option, option->min, least, sizeof least);
    if (option->max)
        buf_printf(options->errors, "%s: %s must be %s to %s, not \"%s\"\n", where, option->name,
                   least, bound_text(option, option->max, most, sizeof most), text);
    else
        buf_printf(options->errors, "%s: %s must be at least %s, not \"%s\"\n", where, option->name,
                   least, text);
    return false;
}

void options_set(struct options *options, unsigned at, enum options_rank rank, const char *text,
                 const char *where) {
    const struct option_spec *option = option_at(options, at);
    struct options_value *value = &options->values[at];
    uint64_t number = 0;
    const char *expected = options_parse(option, text, &number);
    if (expected) {
        buf_printf(options->errors, "%s: %s must be %s%s, not \"%s\"\n", where, option->name,
                   option->type == OPTION_CHOICE ? "one of: " : "", expected, text);
        return;
    }
    if (!in_bounds(options, option, number, text, where) || rank < value->rank)
        return;
    if (rank > value->rank || option->type != OPTION_LIST)
        drop_value(value);
    value->rank = rank;
    value->number = number;
    free(value->text);
    free(value->where);
    value->text = strdup(text);
    value->where = strdup(where);
    if (!value->text || !value->where || (option->type == OPTION_LIST && !split_list(value, text)))
        buf_printf(options->errors, "%s: %s has too many values\n", where, option->name);
}

static error_t on_flag(int key, char *arg, struct argp_state *state) {
    struct options *options = state->input;
    if (key == ARGP_KEY_ARG) {
        if (options->n_args == options->program->n_args_max)
            return ARGP_ERR_UNKNOWN;
        options->args[options->n_args++] = arg;
        return 0;
    }
    if (key < FLAG_KEY || key > FLAG_KEY + (int)options->program->n_options)
        return ARGP_ERR_UNKNOWN;
    unsigned at = (unsigned)(key - FLAG_KEY);
    char where[80];
    snprintf(where, sizeof where, "--%s", option_at(options, at)->name);
    options_set(options, at, RANK_FLAG, arg ? arg : "yes", where);
    return 0;
}

static const char *value_name(const struct option_spec *option) {
    static const char *const by_type[] = {"TEXT", "N", "yes|no", "SIZE", "TIME", "WORD", "LIST"};
    return option->value ? option->value : by_type[option->type];
}

/* The help line with the choices and the default behind it. NULL when memory is out. */
static char *help_text(const struct option_spec *option) {
    struct buf text;
    buf_init(&text, 0);
    buf_puts(&text, option->help ? option->help : "");
    if (option->type == OPTION_CHOICE)
        buf_printf(&text, ": %s", option->choices);
    if (option->fallback && option->fallback[0])
        buf_printf(&text, " (default: %s)", option->fallback);
    return text.data;
}

static bool read_flags(struct options *options, int argc, char **argv) {
    const struct options_program *program = options->program;
    unsigned n = program->n_options + 1;
    struct argp_option *flags = calloc(n + 1, sizeof *flags);
    bool ok = flags != NULL;
    for (unsigned i = 0; ok && i < n; i++) {
        const struct option_spec *option = option_at(options, i);
        flags[i] = (struct argp_option){.name = option->name,
                                        .key = FLAG_KEY + (int)i,
                                        .arg = value_name(option),
                                        .doc = help_text(option)};
        flags[i].flags = (option->type == OPTION_BOOL ? OPTION_ARG_OPTIONAL : 0) |
                         (option->help ? 0 : OPTION_HIDDEN);
        ok = flags[i].doc != NULL;
    }
    if (ok) {
        struct argp argp = {.options = flags,
                            .parser = on_flag,
                            .args_doc = program->args_doc,
                            .doc = program->doc};
        static char version[80]; /* argp keeps the pointer */
        snprintf(version, sizeof version, "%s %s", program->name, TANDEM_VERSION);
        argp_program_version = version;
        argp_err_exit_status = EXIT_CONFIG;
        ok = argp_parse(&argp, argc, argv, 0, NULL, options) == 0;
    }
    for (unsigned i = 0; flags && i < n; i++)
        free((char *)flags[i].doc);
    free(flags);
    return ok;
}

static void read_environment(struct options *options) {
    for (unsigned i = 0; i <= options->program->n_options; i++) {
        char name[80];
        snprintf(name, sizeof name, "TANDEM_%s", option_at(options, i)->name);
        for (char *at = name; *at; at++)
            *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
        const char *text = getenv(name);
        if (text && *text)
            options_set(options, i, RANK_ENVIRONMENT, text, name);
    }
}

enum status options_new(const struct options_program *program, int argc, char **argv,
                        struct options **out, struct buf *errors) {
    ASSERT(program->n_options <= OPTIONS_MAX);
    struct options *options = calloc(1, sizeof *options);
    if (!options)
        return STATUS_NOMEM;
    options->program = program;
    options->errors = errors;
    options->values = calloc(program->n_options + 1, sizeof *options->values);
    options->args = calloc(program->n_args_max + 1, sizeof *options->args);
    if (!options->values || !options->args || !read_flags(options, argc, argv)) {
        options_free(options);
        return STATUS_NOMEM;
    }
    read_environment(options);
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
    *out = options;
    return STATUS_OK;
}

void options_free(struct options *options) {
    if (!options)
        return;
    for (unsigned i = 0; options->values && i <= options->program->n_options; i++)
        drop_value(&options->values[i]);
    free(options->values);
    free(options->args);
    free(options);
}

static const struct options_value *find(const struct options *options, const char *name,
                                        unsigned types) {
    for (unsigned i = 0; i <= options->program->n_options; i++) {
        if (strcmp(option_at(options, i)->name, name) != 0)
            continue;
        ASSERT(types & 1u << option_at(options, i)->type);
        return &options->values[i];
    }
    ASSERT(!"an option of the table");
    return NULL;
}

const char *options_string(const struct options *options, const char *name) {
    const struct options_value *value =
        find(options, name, 1u << OPTION_STRING | 1u << OPTION_CHOICE);
    return value->text ? value->text : "";
}

uint64_t options_uint(const struct options *options, const char *name) {
    return find(options, name, 1u << OPTION_UINT | 1u << OPTION_SIZE)->number;
}

uint64_t options_duration_ns(const struct options *options, const char *name) {
    return find(options, name, 1u << OPTION_DURATION)->number;
}

bool options_bool(const struct options *options, const char *name) {
    return find(options, name, 1u << OPTION_BOOL)->number != 0;
}

unsigned options_choice(const struct options *options, const char *name) {
    return (unsigned)find(options, name, 1u << OPTION_CHOICE)->number;
}

unsigned options_list_count(const struct options *options, const char *name) {
    return find(options, name, 1u << OPTION_LIST)->n_list;
}

const char *options_list_at(const struct options *options, const char *name, unsigned at) {
    const struct options_value *value = find(options, name, 1u << OPTION_LIST);
    ASSERT(at < value->n_list);
    return value->list[at];
}

const char *options_source(const struct options *options, const char *name) {
    const struct options_value *value = find(options, name, ~0u);
    return value->where ? value->where : "default";
}

void options_complain(const struct options *options, const char *name, const char *what,
                      struct buf *errors) {
    const char *where = find(options, name, ~0u)->where;
    if (where && strncmp(where, "--", 2) != 0)
        buf_printf(errors, "%s: %s: %s\n", where, name, what);
    else
        buf_printf(errors, "--%s: %s\n", name, what);
}

bool options_is_set(const struct options *options, const char *name) {
    return find(options, name, ~0u)->rank > RANK_DEFAULT;
}

unsigned options_n_args(const struct options *options) {
    return options->n_args;
}

const char *options_arg(const struct options *options, unsigned at) {
    ASSERT(at < options->n_args);
    return options->args[at];
}
