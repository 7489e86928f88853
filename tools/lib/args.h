/* tools/lib/args.h: a command's arguments as rows over argp: how each is written, who reads it, and
 * the member that holds it. Start-up only: what is wrong ends the program, as argp does. */
#pragma once

#include <argp.h>
#include <stddef.h>

/* An argument as it was given. */
struct args_given {
    const struct args_row *row;
    struct argp_state *state; /* for argp_error() */
    char *text;
    void *into; /* the command's struct */
    void *at;   /* the row's member */
};

typedef void args_read_fn(const struct args_given *given);

/* An option, or an argument that has no name: these come in their order. */
struct args_row {
    const char *name; /* or NULL */
    const char *arg;  /* NULL: a switch */
    args_read_fn *read;
    size_t at;
    const char *help;
    int flags; /* of argp, or ARGS_REPEATS */
    int group; /* of --help */
};
#define ARGS_REPEATS 0x10000 /* the last argument may come again */

struct args {
    const char *takes; /* the arguments, as the usage line says */
    const char *about;
    /* Rows, up to one without `read`, of the command's struct or of a member of it; up to NULL. */
    struct {
        const struct args_row *rows;
        size_t at;
    } parts[5];
};

/* Reads argv into the command's struct. */
void args_parse(const struct args *args, int argc, char **argv, void *into);

/* For members of type const char *, of which args_path() makes "-" where none is named, and bool. */
args_read_fn args_text, args_path, args_switch;
