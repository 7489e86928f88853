#include "tools/lib/args.h"

#include "base/assert.h"
#include "base/exit.h"

#include <stdbool.h>

#define ROWS_MAX  64
#define KEY_FIRST 256 /* an option's key for argp: this and the number of its row */

/* All rows of a command, and what each reads into. */
struct args_reading {
    const struct args_row *rows[ROWS_MAX];
    char *bases[ROWS_MAX];
    unsigned n;
    void *into;
};

void args_text(const struct args_given *given) {
    *(const char **)given->at = given->text;
}

void args_path(const struct args_given *given) {
    *(const char **)given->at = given->text ? given->text : "-";
}

void args_switch(const struct args_given *given) {
    *(bool *)given->at = true;
}

/* The number of the row of an option's key, or of the next argument; reading->n: there is none. */
static unsigned args_find_row(const struct args_reading *reading, int key, unsigned n_before) {
    unsigned last = reading->n;
    if (key >= KEY_FIRST && (unsigned)(key - KEY_FIRST) < reading->n)
        return (unsigned)(key - KEY_FIRST);
    for (unsigned i = 0; key == ARGP_KEY_ARG && i < reading->n; i++) {
        if (reading->rows[i]->name)
            continue;
        last = i;
        if (n_before-- == 0)
            return i;
    }
    return last < reading->n && (reading->rows[last]->flags & ARGS_REPEATS) ? last : reading->n;
}

static error_t parse_args(int key, char *text, struct argp_state *state) {
    const struct args_reading *reading = state->input;
    unsigned i = args_find_row(reading, key, state->arg_num);
    if (i == reading->n)
        return ARGP_ERR_UNKNOWN;
    const struct args_row *row = reading->rows[i];
    row->read(&(struct args_given){row, state, text, reading->into, reading->bases[i] + row->at});
    return 0;
}

void args_parse(const struct args *args, int argc, char **argv, void *into) {
    struct argp_option options[ROWS_MAX + 1] = {{0}}, *option = options;
    struct args_reading reading = {.into = into};
    for (unsigned part = 0; args->parts[part].rows; part++)
        for (const struct args_row *row = args->parts[part].rows; row->read; row++) {
            ASSERT(reading.n < ROWS_MAX);
            if (row->name)
                *option++ = (struct argp_option){row->name, KEY_FIRST + (int)reading.n,
                                                 row->arg,  row->flags,
                                                 row->help, row->group};
            reading.rows[reading.n] = row;
            reading.bases[reading.n++] = (char *)into + args->parts[part].at;
        }
    const struct argp argp = {options, parse_args, args->takes, args->about, NULL, NULL, NULL};
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&argp, argc, argv, 0, NULL, &reading);
}
