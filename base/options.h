/* base/options.h: one table per program becomes flags, TANDEM_* variables and keys of INI files.
 *
 * An option "kv-blocks" is the flag --kv-blocks, the variable TANDEM_KV_BLOCKS and the key
 * kv_blocks. A flag goes before the environment, that before the file (--config FILE, which every
 * program has), that before the default. In a file [worker.NAME] goes before [worker], and both
 * before [cluster]. --help and --version come for free and end the program with 0; an unknown flag
 * ends it with EXIT_CONFIG. Start-up only, one thread. */
#pragma once

#include "base/buf.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_STRING,
    OPTION_UINT,     /* decimal */
    OPTION_BOOL,     /* yes no on off true false 1 0; the flag alone means yes */
    OPTION_SIZE,     /* bytes: 4096, 64K, 16MiB, 2g (powers of 1024) */
    OPTION_DURATION, /* nanoseconds: 250ms, 10s, 5m, 1h, 50us, 0 */
    OPTION_CHOICE,   /* one word of `choices` */
    OPTION_LIST      /* strings: by repeating, or with commas; at most OPTIONS_LIST_MAX */
};

#define OPTIONS_MAX      128
#define OPTIONS_LIST_MAX 1024
#define OPTIONS_LINE_MAX 4096 /* bytes in a line of a file */

struct option_spec {
    const char *name; /* "kv-blocks" */
    enum option_type type;
    const char *fallback; /* the default, as one would write it; NULL: "", 0, no, empty */
    uint64_t min, max;    /* UINT, SIZE, DURATION: inclusive; max 0 means no bound */
    const char *choices;  /* CHOICE: "least-load two-choices" */
    const char *sections; /* where in a file: "cluster worker"; NULL: nowhere */
    const char *value;    /* what --help calls it: "N", "ADDRESS"; NULL: by its type */
    const char *help;     /* one line; NULL hides the option from --help */
};

struct options_program {
    const char *name; /* "tandem-worker" */
    const char *doc;  /* one paragraph for --help */
    const struct option_spec *table;
    unsigned n_options;
    const char *section;    /* "worker": besides [cluster], what this program reads; or NULL */
    const char *instance;   /* the option whose value picks [worker.NAME]; or NULL */
    const char *other_keys; /* keys of [cluster] that only other programs read, or NULL */
    const char *args_doc;   /* positional arguments for --help, or NULL */
    unsigned n_args_max;
};

struct options;

/* Reads all sources. STATUS_INVALID: `errors` has one line for each mistake ("tandem.ini:14:
 * unknown key ..."), the caller prints them and exits with EXIT_CONFIG. */
NODISCARD enum status options_new(const struct options_program *program, int argc, char **argv,
                                  struct options **options, struct buf *errors);
void options_free(struct options *options); /* NULL is fine; ends all strings answered below */

/* `name` and the type are the table's: anything else is an assertion. */
const char *options_string(const struct options *options, const char *name); /* never NULL */
uint64_t options_uint(const struct options *options, const char *name);      /* UINT and SIZE */
uint64_t options_duration_ns(const struct options *options, const char *name);
bool options_bool(const struct options *options, const char *name);
unsigned options_choice(const struct options *options, const char *name); /* index in choices */

/* n strings; `at` < options_list_count(). */
unsigned options_list_count(const struct options *options, const char *name);
const char *options_list_at(const struct options *options, const char *name, unsigned at);

/* Where the value comes from: "default", "--kv-blocks", "TANDEM_KV_BLOCKS", "tandem.ini:14". */
const char *options_source(const struct options *options, const char *name);

/* Adds the line "--kv-blocks: WHAT" to `errors`, or "tandem.ini:14: kv-blocks: WHAT" where the
 * value came from a file or a variable. */
void options_complain(const struct options *options, const char *name, const char *what,
                      struct buf *errors);

bool options_is_set(const struct options *options, const char *name); /* not the default */

unsigned options_n_args(const struct options *options);
const char *options_arg(const struct options *options, unsigned at); /* borrowed from argv */
