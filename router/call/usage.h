/* router/call/usage.h: what the calls of each key have taken, by the key's name, as counters of metrics.
 *
 * Names are the operator's (router/serve/api_keys.h) and stay until the end. Loop's thread only. */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define USAGE_NAMES_MAX  256 /* the others are counted together, as "-others" */
#define USAGE_SERIES_MAX ((USAGE_NAMES_MAX + 2) * 4)

struct metrics;
struct usage;

/* What a call took. */
struct usage_call {
    uint32_t n_prompt_tokens; /* of prompts that a worker got */
    uint32_t n_completion_tokens;
    uint32_t n_cached_tokens; /* of the prompts' */
};

NODISCARD enum status usage_new(struct metrics *metrics, struct usage **usage);
void usage_free(struct usage *usage); /* NULL is fine */

/* A call of that name has ended. "": it showed no key, or one without a name; counted as "-". */
void usage_add(struct usage *usage, const char *name, const struct usage_call *call);
