/* tests/sim/campaign.h: many seeds, in processes of their own, and what becomes of one
 * that fails. */
#pragma once

#include "tests/sim/sim.h"

#define FAILURES_MAX 5 /* then a campaign gives up */

struct seed_run {
    uint64_t seed;
    struct limits limits;
};

struct campaign {
    const struct seed_run *runs; /* borrowed (n_runs) */
    uint64_t n_runs;
    uint32_t n_jobs;
    double seconds; /* begin no new seed after so much time; 0: no end */
};

struct campaign_result {
    struct counts counts;
    struct sights sights;
    uint64_t n_passed, n_failed, n_skipped;
    struct {
        struct seed_run run;
        char failure[256];
    } failures[FAILURES_MAX];
};

/* Runs them all; a seed that ends its process (an assert, a sanitizer) has failed as well. */
void campaign_run(const struct campaign *campaign, struct campaign_result *result);

/* One seed in a process of its own: answers whether it failed, and with what. */
bool campaign_fails(const struct seed_run *run, char failure[256]);

/* shrink.c: takes away what the failure does not need: events, kinds of fault, workers, clients. */
void shrink(struct seed_run *run, char failure[256]);

/* The command that runs it again. */
void print_command(const struct seed_run *run, const char *more, FILE *file);
