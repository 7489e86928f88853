/* tools/bench/output.h: writes reports where options want them.
 *
 * A report's file is opened before what it tells of begins, so that a run is not made for nothing, and keeps
 * what it had until something is written. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>

struct output {
    const char *option; /* borrowed */
    const char *path;   /* borrowed; "-": standard output; NULL: not asked for */
    int fd;
    bool is_new;     /* there was no such file before */
    bool is_written; /* something of ours is in it */
};

/* path NULL leaves a report that is not asked for. STATUS_IO with option and path. */
NODISCARD enum status output_open(struct output *output, const char *option, const char *path,
                                  struct error *error);

/* Appends the text, and clears it. The first one replaces what the file had. STATUS_IO with option and path; or what buf_status()
 * says. */
NODISCARD enum status output_write(struct output *output, struct buf *text, struct error *error);

/* Removes a new file that nothing was written to. Fine on a zeroed one. */
void output_close(struct output *output);

/* The table for people, where no report goes to standard output. */
NODISCARD enum status output_print(struct buf *text, struct error *error);
