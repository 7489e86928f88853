/* tests/support/option_values.h: a program's options with a value for each, as flags or as a file.
 *
 * For tests of what arrives where: whoever gives every option a value that no other has sees two
 * that were swapped. One thread. */
#pragma once

#include <stdbool.h>

struct option_value {
    const char *name;     /* "kv-blocks" */
    const char *value;    /* as one would write it */
    const char *sections; /* "cluster worker": where it may stand in a file; NULL: nowhere */
};

#define OPTION_VALUES_MAX 64

struct option_args {
    int argc;
    char *argv[OPTION_VALUES_MAX + 3]; /* owned; NULL behind the last */
    char file[64];                     /* of --config, or "" */
};

/* --NAME=VALUE for each of the n. */
void option_args_flags(struct option_args *args, const struct option_value *values, unsigned n);

/* --config FILE with each option in the first or last of its sections; those without are flags. */
void option_args_file(struct option_args *args, const struct option_value *values, unsigned n,
                      bool in_first);

void option_args_fini(struct option_args *args); /* removes the file */
