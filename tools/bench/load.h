/* tools/bench/load.h: one load profile against any OpenAI-style server, and its table. */
#pragma once

#include "base/error.h"
#include "tools/lib/http_url.h"

#include <stdbool.h>
#include <stdint.h>

enum load_profile { LOAD_SYNCHRONOUS, LOAD_CONCURRENT, LOAD_CONSTANT };

struct load_options {
    const char *target; /* http://HOST:PORT, https://HOST:PORT */
    struct http_trust trust;
    enum load_profile profile;
    uint32_t concurrency; /* streams, concurrent */
    double rate;          /* requests per second, constant */
    uint32_t n_requests;
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    const char *api_key; /* or NULL */
};

/* Runs the profile, shows progress on standard error and prints the table on standard output.
 * STATUS_CLOSED: no server; STATUS_CORRUPT: every request failed. */
NODISCARD enum status load_run(const struct load_options *options, struct error *error);
