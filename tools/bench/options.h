/* tools/bench/options.h: the command line of `tandem-bench load`, `grid` and `sweep`. */
#pragma once

#include "base/error.h"

struct bench_options;

/* Reads a command's arguments over what *bench holds. Wrong values and --help end the program, as
 * argp does. STATUS_INVALID: options that contradict each other. */
NODISCARD enum status options_read(struct bench_options *bench, const char *about, int argc,
                                   char **argv, struct error *error);
