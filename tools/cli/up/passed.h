/* tools/cli/up/passed.h: the options that `tandem up` passes on to its router and workers.
 *
 * They are what the programs themselves say that a file may hold (--print-config): an option of
 * theirs is one here without a word. Left out are those that a cluster on one host decides itself.
 * Start-up only, one thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

struct buf;

enum passed_to { PASSED_ROUTER = 1, PASSED_WORKER = 2 };

struct passed_option {
    char *name;  /* owned: "kv-blocks" */
    char *help;  /* owned */
    unsigned to; /* enum passed_to, or both */
};

struct passed_flag {
    unsigned option;   /* of `all` */
    const char *value; /* borrowed */
};

struct passed {
    struct passed_option *all; /* owned (n) */
    unsigned n;
    struct passed_flag *given; /* owned (n_given): in the user's order, lists may come again */
    unsigned n_given;
    char listen[256]; /* where the router would listen, by all that was read so far */
};

/* programs: the folder of tandem-router and tandem-worker. STATUS_INVALID: one of them refuses its
 * environment; `errors` has its lines, each once and without "error: ". passed_fini() in any case. */
NODISCARD enum status passed_read(struct passed *passed, const char *programs, struct buf *errors,
                                  struct error *error);

/* Asks both whether they would start with what was given and the file `config` (NULL: none). Errors
 * as passed_read()'s. */
NODISCARD enum status passed_check(struct passed *passed, const char *programs, const char *config,
                                   struct buf *errors, struct error *error);
void passed_fini(struct passed *passed);

/* Notes a flag of the user's. */
NODISCARD enum status passed_give(struct passed *passed, unsigned option, const char *value);

/* What the user gave last, or NULL. */
const char *passed_value(const struct passed *passed, const char *name);
