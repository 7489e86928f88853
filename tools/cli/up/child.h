/* tools/cli/up/child.h: one process that `tandem up` runs: started, watched, its words passed on.
 *
 * Standard error of a child goes through a pipe to ours, line by line; but lines "error: ..." are
 * kept, because its parent says them once, when it knows what follows. A child dies with
 * us. Loop thread only. */
#pragma once

#include "base/error.h"
#include "base/net/loop.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_ARGS_MAX   96
#define CHILD_ERRORS_MAX 4096 /* bytes of a child's last words */

struct child {
    char name[64];
    char kind[16];              /* "router", "prefill", "decode", "mixed": who counts together */
    char *argv[CHILD_ARGS_MAX]; /* owned strings, NULL-terminated; argv[0] is the program's path */
    unsigned n_args;
    pid_t pid;               /* 0: not running */
    bool ready;              /* in its present life */
    bool asked;              /* to end, in its present life */
    bool was_ready;          /* in any */
    unsigned n_early_deaths; /* in a row, before it was ready */
    int pipe_fd;
    struct loop_watch *pipe_watch; /* owned */
    struct loop *loop;             /* borrowed */
    char line[4096];               /* of standard error, not ended yet */
    unsigned n_line;
    char errors[CHILD_ERRORS_MAX]; /* its lines that began with "error: ", of this life, in order */
};

void child_init(struct child *child, struct loop *loop, const char *kind, const char *name);
void child_fini(struct child *child); /* kills it if it runs */

/* Appends an argument (copied). STATUS_LIMIT when there are too many. */
NODISCARD enum status child_arg(struct child *child, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* notify_path: where it reports readiness ($NOTIFY_SOCKET). */
NODISCARD enum status child_start(struct child *child, const char *notify_path,
                                  struct error *error);

/* After waitpid() told its end: passes on what is left of its words and closes the pipe. */
void child_ended(struct child *child);
