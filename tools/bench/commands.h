/* tools/bench/commands.h: what `tandem-bench` runs. Each prints its table and answers an exit code:
 * 0; 1: no server, or nothing was completed; 2: an SLO was asked for and did not hold. */
#pragma once

#include "tools/bench/session.h"

int load_command(struct bench_options *options);  /* one level */
int grid_command(struct bench_options *options);  /* input x output lengths */
int sweep_command(struct bench_options *options); /* rising request rates */

/* paths: JSON files of loads, grids and sweeps, or published tables by name ("mistral-7b-awq/vllm"). */
int compare_command(char **paths, int n_paths);
