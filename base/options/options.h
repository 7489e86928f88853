/* base/options/options.h: one table per program becomes flags, TANDEM_* variables and keys of INI
 * files.
 *
 * An option "kv-blocks" is the flag --kv-blocks, the variable TANDEM_KV_BLOCKS and the key
 * kv_blocks. A flag goes before the environment, that before the file (--config FILE, which every
 * program has), that before the default. In a file [worker.NAME] goes before [worker], and both
 * before [cluster]. A row also says which field of the program's own struct its value goes into, so
 * an option is one row and the field. --help, --version and --print-config come for free and end
 * the program with 0; an unknown flag ends it with EXIT_CONFIG. --check-config is for the program to
 * end after its own checks (options_only_checks()). Start-up only, one thread. */
#pragma once

#include "base/buf.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Behind each: what the field is. */
enum option_type {
    OPTION_STRING,   /* const char *, never NULL */
    OPTION_UINT,     /* uint32_t: decimal */
    OPTION_BOOL,     /* bool: yes no on off true false 1 0; the flag alone means yes */
    OPTION_SIZE,     /* size_t, bytes: 4096, 64K, 16MiB, 2g (powers of 1024) */
    OPTION_DURATION, /* uint64_t, nanoseconds: 250ms, 10s, 5m, 1h, 50us, 0 */
    OPTION_CHOICE,   /* an enum or unsigned: the number of the word that was chosen */
    OPTION_WORD,     /* const char *: the word that was chosen */
    OPTION_LIST      /* struct option_list: by repeating, or with commas */
};

#define OPTIONS_MAX      128
#define OPTIONS_LIST_MAX 1024
#define OPTIONS_LINE_MAX 4096 /* bytes in a line of a file */

struct option_list {
    const char *const *all; /* borrowed from the options (n) */
    unsigned n;
};

struct option_spec {
    const char *name; /* "kv-blocks" */
    enum option_type type;
    size_t at;            /* offset of the field */
    const char *fallback; /* the default, as one would write it; NULL: "", 0, no, empty */
    const char *sections; /* where in a file: "cluster worker"; NULL: nowhere */
    const char *value;    /* what --help calls it: "N", "ADDRESS"; NULL: by its type */
    const char *help;     /* one line */
    uint64_t min, max;    /* UINT, SIZE, DURATION: inclusive; LIST: most strings; max 0: no bound */
    const char *choices;  /* CHOICE, WORD: "least-load two-choices", or NULL */
    const char *(*words)(unsigned at); /* CHOICE, WORD: more of them, up to a NULL; or NULL */
};

struct options_program {
    const char *name; /* "tandem-worker" */
    const char *doc;  /* one paragraph for --help */
    const struct option_spec *table;
    unsigned n_options;
    const char *section;    /* "worker": besides [cluster], what this program reads; or NULL */
    const char *instance;   /* the option whose value picks [worker.NAME]; or NULL */
    const char *other_keys; /* keys of [cluster] that only other programs read, or NULL */

    const char *(*build)(void); /* what --version adds in brackets, or NULL */
};

struct options;

/* Reads all sources and sets the fields of `config`, whose strings and lists live as long as
 * *options. STATUS_INVALID: `errors` has one line for each mistake ("tandem.ini:14: unknown key
 * ..."), the caller prints them and exits with EXIT_CONFIG; no field is set then. */
NODISCARD enum status options_new(const struct options_program *program, int argc, char **argv,
                                  void *config, struct options **options, struct buf *errors);
void options_free(struct options *options); /* NULL is fine */

/* --check-config was given: the program ends with 0 once it has found nothing wrong. */
bool options_only_checks(const struct options *options);

/* A file was read, and it has no [section.NAME] of the instance that was asked for. */
bool options_lack_instance(const struct options *options);

/* Appends the NAME of each [section.NAME] of a file, each with a newline behind it, in the file's
 * order. STATUS_IO: it cannot be read. Sections that are wrong are left out: options_new() says
 * what is wrong with them. */
NODISCARD enum status options_instances(const char *path, const char *section, struct buf *names);

/* `name` is one of the table: anything else is an assertion. */

/* Where the value comes from: "default", "--kv-blocks", "TANDEM_KV_BLOCKS", "tandem.ini:14". */
const char *options_source(const struct options *options, const char *name);

/* Adds the line "--kv-blocks: WHAT" to `errors`, or "tandem.ini:14: kv-blocks: WHAT" where the
 * value came from a file or a variable. */
void options_complain(const struct options *options, const char *name, const char *what,
                      struct buf *errors);
