/* tools/cli/sibling.h: the programs that were installed beside this one, run for what they say. One
 * thread. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <sys/types.h>

/* Zeroed: it was not started. */
struct sibling {
    char path[4200];
    pid_t pid;
    int files[2]; /* owned while it runs: what it prints, what it complains of */
};

/* Where this program lies. STATUS_IO. */
NODISCARD enum status sibling_folder(char *folder, size_t size, struct error *error);

/* Starts `name` of that folder. args: its arguments behind one free place for the path, NULL at the
 * end; only read while this runs. STATUS_NOT_FOUND: it is not there; STATUS_IO. */
NODISCARD enum status sibling_start(struct sibling *sibling, const char *folder, const char *name,
                                    const char **args, struct error *error);

/* Waits for the end of one that was started and appends what it wrote; *code is its exit code, -1
 * after a signal. STATUS_LIMIT, STATUS_NOMEM: a buffer is full. */
NODISCARD enum status sibling_end(struct sibling *sibling, struct buf *out, struct buf *errors,
                                  int *code, struct error *error);
