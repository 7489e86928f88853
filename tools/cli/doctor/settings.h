/* tools/cli/doctor/settings.h: a daemon's options as it would start, in its own words: it is asked,
 * so that there is one reader of configurations. One thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>

#define VALUE_MAX 1024

struct settings {
    char name[64];   /* of the worker; "" for the router, and for a worker without a name */
    struct buf text; /* what --print-config prints; empty: its configuration is wrong */
};

/* What a daemon is started with; both borrowed, or NULL. */
struct settings_source {
    const char *config; /* an INI file */
    const char *model;  /* in place of the file's */
};

/* Runs `program` with these sources, a worker by its name, and `questions` ("--print-config"; up to
 * three, NULL behind the last). What it writes is appended to `out` and `errors`; errors as
 * sibling_start() and sibling_end(). */
NODISCARD enum status settings_ask(const struct settings_source *source, const char *program,
                                   const char *name, const char *const *questions, struct buf *out,
                                   struct buf *errors, int *code, struct error *error);

/* The value of an option by its key in a file ("kv_blocks"); "" where it has none. False: the
 * daemon's configuration is wrong, or it has no such key. */
bool settings_get(const struct settings *settings, const char *key, char value[VALUE_MAX]);

/* The same, cut at the commas: the next of a list, or false. *at: begins at 0. */
bool settings_next(const struct settings *settings, const char *key, unsigned *at,
                   char value[VALUE_MAX]);
