/* One option takes a value: parsed, within its bounds, and kept unless one of higher rank is there. */
#include "base/options/options_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec config_option = {
    .name = "config", .type = OPTION_STRING, .value = "FILE", .help = "INI file to read"};

const struct option_spec *options_spec(const struct options *options, unsigned at) {
    return at < options->program->n_options ? &options->program->table[at] : &config_option;
}

void options_drop(struct options_value *value) {
    for (unsigned i = 0; i < value->n_list; i++)
        free(value->list[i]);
    free(value->list);
    free(value->text);
    free(value->where);
    *value = (struct options_value){0};
}

static bool options_add_to_list(struct options_value *value, const char *text, size_t n,
                                unsigned most) {
    if (value->n_list == most)
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

static bool options_split_list(struct options_value *value, const char *text, unsigned most) {
    while (*text) {
        text += strspn(text, ", \t");
        size_t n = strcspn(text, ",");
        size_t kept = n;
        while (kept > 0 && (text[kept - 1] == ' ' || text[kept - 1] == '\t'))
            kept--;
        if (kept > 0 && !options_add_to_list(value, text, kept, most))
            return false;
        text += n;
    }
    return true;
}

/* A bound as one would write it, for the error line. */
static const char *options_bound_text(const struct option_spec *option, uint64_t bound, char *out,
                                      size_t size) {
    if (option->type == OPTION_DURATION)
        snprintf(out, size, "%g s", (double)bound / 1e9);
    else
        snprintf(out, size, "%llu", (unsigned long long)bound);
    return out;
}

void options_begin_error(struct buf *errors, const char *where, const char *name) {
    buf_printf(errors, "%s: ", where);
    if (strchr(where, ':'))
        buf_printf(errors, "%s: ", name);
}

static bool options_in_bounds(struct options *options, const struct option_spec *option,
                              uint64_t number, const char *text, const char *where) {
    char least[40], most[40];
    bool numeric = option->type == OPTION_UINT || option->type == OPTION_SIZE ||
                   option->type == OPTION_DURATION;
    if (!numeric || (number >= option->min && (option->max == 0 || number <= option->max)))
        return true;
    options_bound_text(option, option->min, least, sizeof least);
    options_begin_error(options->errors, where, option->name);
    if (option->max)
        buf_printf(options->errors, "%s is out of range (%s..%s)\n", text, least,
                   options_bound_text(option, option->max, most, sizeof most));
    else
        buf_printf(options->errors, "%s is out of range (at least %s)\n", text, least);
    return false;
}

/* Reads the text as the option's type; else says what it has to be. */
static bool options_parse_value(struct options *options, const struct option_spec *option,
                                const char *text, const char *where, uint64_t *number) {
    struct buf expected;
    buf_init(&expected, 0);
    bool parsed = options_parse(option, text, number, &expected);
    if (!parsed) {
        options_begin_error(options->errors, where, option->name);
        buf_printf(options->errors, "\"%s\" is not %s\n", text,
                   expected.data ? expected.data : "a value of it");
    }
    buf_fini(&expected);
    return parsed;
}

void options_set(struct options *options, unsigned at, enum options_rank rank, const char *text,
                 const char *where) {
    const struct option_spec *option = options_spec(options, at);
    struct options_value *value = &options->values[at];
    uint64_t number = 0;
    if (!options_parse_value(options, option, text, where, &number) ||
        !options_in_bounds(options, option, number, text, where) || rank < value->rank)
        return;
    if (rank > value->rank || option->type != OPTION_LIST)
        options_drop(value);
    value->rank = rank;
    value->number = number;
    free(value->text);
    free(value->where);
    value->text = strdup(text);
    value->where = strdup(where);
    unsigned most = option->max ? (unsigned)option->max : OPTIONS_LIST_MAX;
    if (!value->text || !value->where ||
        (option->type == OPTION_LIST && !options_split_list(value, text, most))) {
        options_begin_error(options->errors, where, option->name);
        buf_printf(options->errors, "more than %u entries\n", most);
    }
}
