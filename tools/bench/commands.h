/* tools/bench/commands.h: what `tandem-bench` reads and runs. A command prints its table and answers
 * an exit code: 0; 1: no server, or nothing was completed; 2: an SLO was asked for and did not hold. */
#pragma once

#include "tools/bench/session.h"

/* Reads a command's arguments over what *bench holds. Wrong values and --help end the program, as
 * argp does. STATUS_INVALID: options that contradict each other. */
NODISCARD enum status options_read(struct bench_options *bench, const char *about, int argc,
                                   char **argv, struct error *error);

int load_command(struct bench_options *options);  /* one level */
int grid_command(struct bench_options *options);  /* input x output lengths */
int sweep_command(struct bench_options *options); /* rising request rates */

/* paths: JSON files of loads, grids and sweeps, or published tables by name ("mistral-7b-awq/vllm"). */
int compare_command(char **paths, int n_paths);

/* Published tables by models of time; argv[0] is what usage lines begin with. */
int rows_command(int argc, char **argv);
