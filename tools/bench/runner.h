/* tools/bench/runner.h: runs levels of the core against real servers, on an event loop.
 *
 * One runner for a whole command: its links stay open between levels. One thread. */
#pragma once

#include "base/error.h"
#include "tools/bench/core/level.h"
#include "tools/bench/wire.h"

struct runner;

struct runner_spec {
    const char *const *targets;  /* borrowed (n_urls), as written; requests go to them in turn */
    const struct http_url *urls; /* borrowed (n_urls) */
    uint32_t n_urls;
    const char *api_key; /* borrowed; or NULL */
    struct ask_form form;
    const struct workload *workload; /* borrowed */
    bool is_quiet;                   /* no progress on standard error */
};

NODISCARD enum status runner_new(const struct runner_spec *spec, struct runner **runner,
                                 struct error *error);
void runner_free(struct runner *runner); /* NULL is fine */

/* Runs one level to its end. On success the caller ends *level. SIGINT, SIGTERM and SIGHUP, unless that is ignored, end it early:
 * what runs is cancelled, and runner_is_stopped() is true. */
NODISCARD enum status runner_level(struct runner *runner, const struct level_spec *spec,
                                   struct level *level, struct error *error);

bool runner_is_stopped(const struct runner *runner);

/* What the first failed request said; "" when none failed. */
const char *runner_first_error(const struct runner *runner);
