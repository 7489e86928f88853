/* base/descriptors.h: how many files this process may have open. For a program's main. */
#pragma once

#include "base/error.h"
#include "base/status.h"

/* Raises the soft limit of open files (RLIMIT_NOFILE) to the hard one. STATUS_LIMIT with a line
 * when that is below `n_needed`. */
NODISCARD enum status descriptors_need(unsigned n_needed, struct error *error);
