#include "tests/support/option_values.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(struct option_args *args, const char *begin, const char *name, const char *value) {
    size_t size = strlen(begin) + strlen(name) + strlen(value) + 2;
    char *arg = malloc(size);
    ck_assert(arg && args->argc < OPTION_VALUES_MAX + 2);
    snprintf(arg, size, "%s%s%s%s", begin, name, *name ? "=" : "", value);
    args->argv[args->argc++] = arg;
    args->argv[args->argc] = NULL;
}

void option_args_flags(struct option_args *args, const struct option_value *values, unsigned n) {
    *args = (struct option_args){0};
    add(args, "program", "", "");
    for (unsigned i = 0; i < n; i++)
        add(args, "--", values[i].name, values[i].value);
}

/* Where the option goes: the first or the last word of its sections; "" for none. */
static const char *section_of(const struct option_value *value, bool in_first, size_t *n) {
    const char *section = value->sections ? value->sections : "";
    const char *blank = strchr(section, ' ');
    if (blank && !in_first)
        section = blank + 1;
    *n = blank && in_first ? (size_t)(blank - section) : strlen(section);
    return section;
}

static bool is_in(const struct option_value *value, bool in_first, const char *name, size_t n) {
    size_t n_here;
    const char *here = section_of(value, in_first, &n_here);
    return n_here == n && memcmp(here, name, n) == 0;
}

static void write_section(FILE *file, const struct option_value *values, unsigned n_values,
                          bool in_first, const char *name, size_t n) {
    fprintf(file, "[%.*s]\n", (int)n, name);
    for (unsigned i = 0; i < n_values; i++) {
        if (!is_in(&values[i], in_first, name, n))
            continue;
        for (const char *at = values[i].name; *at; at++)
            fputc(*at == '-' ? '_' : *at, file);
        fprintf(file, " = %s\n", values[i].value);
    }
}

void option_args_file(struct option_args *args, const struct option_value *values, unsigned n,
                      bool in_first) {
    *args = (struct option_args){.file = "/tmp/tandem-options-XXXXXX"};
    int fd = mkstemp(args->file);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    ck_assert_ptr_nonnull(file);
    add(args, "program", "", "");
    add(args, "--", "config", args->file);
    for (unsigned i = 0; i < n; i++) {
        size_t n_name;
        const char *name = section_of(&values[i], in_first, &n_name);
        unsigned first = 0;
        while (!is_in(&values[first], in_first, name, n_name))
            first++;
        if (n_name == 0)
            add(args, "--", values[i].name, values[i].value);
        else if (first == i)
            write_section(file, values, n, in_first, name, n_name);
    }
    ck_assert_int_eq(fclose(file), 0);
}

void option_args_fini(struct option_args *args) {
    if (args->file[0])
        unlink(args->file);
    for (int i = 0; i < args->argc; i++)
        free(args->argv[i]);
    *args = (struct option_args){0};
}
