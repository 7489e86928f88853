/* model/text/grammar/engine/mask_run.h: a mask's tokens by runs (run.h), where a thread's set begins a
 * chain (chain.h): no token of the run is walked, and of the others what begins with their first other
 * byte. */
#pragma once

#include "base/status.h"
#include "model/text/grammar/engine/threads.h"

#include <stdbool.h>
#include <stdint.h>

struct masking;

/* Allows the tokens below a node of the trie that `thread` takes there. False in *is_done, and nothing
 * is allowed, where a walk or a view is the way to do it. Errors are those of masking_walk(). */
NODISCARD enum status mask_run(struct masking *masking, uint32_t root, struct thread thread,
                               bool *is_done);
