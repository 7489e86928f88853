/* router/serve/siblings.h: workers that the process which started this router has started too (`tandem up`). Loop thread. */
#pragma once

#include "base/error.h"
#include "base/status.h"

#include <stdint.h>

/* Kills the process at once (SIGKILL), as a crash would. STATUS_DENIED with a line for people, and nothing is done: it is no
 * child of our own parent, or is gone. A process id comes from the worker itself, so its parent is looked up first; what is
 * killed is the process that was looked at. */
NODISCARD enum status siblings_kill(uint32_t pid, struct error *error);
