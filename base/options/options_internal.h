/* base/options/options_internal.h: what options.c, options_set.c, options_parse.c and
 * options_file.c share. */
#pragma once

#include "base/options/options.h"

/* Higher goes before lower. */
enum options_rank {
    RANK_NONE,
    RANK_DEFAULT,
    RANK_CLUSTER,
    RANK_SECTION,
    RANK_INSTANCE,
    RANK_ENVIRONMENT,
    RANK_FLAG
};

struct options_value {
    enum options_rank rank;
    uint64_t number;
    char *text;  /* owned */
    char **list; /* owned (n_list), strings owned */
    unsigned n_list;
    char *where; /* owned */
};

struct options {
    const struct options_program *program; /* borrowed */
    struct options_value *values;          /* owned (n_options + 1): the last is --config */
    bool prints;                           /* --print-config */
    bool checks;                           /* --check-config */
    bool lacks_instance;                   /* the file has no section of it */
    struct buf *errors;                    /* borrowed while options_new() runs */
};

/* Row `at` of the program's table; after the last comes --config, which no table lists. */
const struct option_spec *options_spec(const struct options *options, unsigned at);

/* Frees what a value owns and empties it. */
void options_drop(struct options_value *value);

/* Takes the text for option `at` unless something of higher rank is there. Mistakes go to
 * options->errors as "where: ...". */
void options_set(struct options *options, unsigned at, enum options_rank rank, const char *text,
                 const char *where);

/* Begins the line of a mistake: "--tp: " and "TANDEM_TP: " name the option by themselves, behind
 * "tandem.ini:14: " its name follows. */
void options_begin_error(struct buf *errors, const char *where, const char *name);

/* Is `word` of n bytes one of the blank-separated `words`? Its index, or -1. */
int options_word(const char *words, const char *word, size_t n);

/* Parses by type. False: `expected` has what was expected, for an error line. */
bool options_parse(const struct option_spec *option, const char *text, uint64_t *number,
                   struct buf *expected);

/* Appends the words that may be chosen, with blanks between. */
void options_put_words(const struct option_spec *option, struct buf *out);

/* Appends the help line, with the words that may be chosen behind it. */
void options_put_help(const struct option_spec *option, struct buf *out);

/* The key of an option: its name with underscores. Returns out. */
const char *options_key(const struct option_spec *option, char *out, size_t size);

/* The file that says what `options` holds: each key with its help before it, commented out where it
 * has its default. */
void options_print(const struct options *options, struct buf *out);

/* Reads one INI file; mistakes go to options->errors. */
void options_read_file(struct options *options, const char *path);
